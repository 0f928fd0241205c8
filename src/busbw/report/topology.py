"""Draws the topology of a run: nodes, devices and network from the log and the system. Unknown facts are listed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from busbw.logs import Table
from busbw.report.axes import legend_icon
from busbw.report.page import LegendEntry, Picture
from busbw.svg import cut_end, drawing, element, group
from busbw.system import System
from busbw.units import count_text

MAX_NODES = 8
"""Maximum number of nodes drawn."""
MAX_CELLS = 32
"""Maximum number of ranks drawn per node."""

_MAX_NAME_CHARACTERS = 24
"""Length to which the name of a node is cut, so that it fits into the box of the node."""

# Sizes in SVG units. A cell is the box of one rank.
_WIDTH, _NODE_WIDTH, _GAP = 460.0, 222.0, 16.0
_CELLS_PER_LINE, _CELL_WIDTH, _CELL_HEIGHT = 8, 24.5, 22.0


@dataclass(frozen=True)
class HostRanks:
    """One host with its ranks."""

    name: str
    ranks: tuple[str, ...]
    """Rank numbers as texts."""


@dataclass(frozen=True)
class ClusterLayout:
    """Known facts about the nodes and links of a run. Texts are empty if unknown."""

    nodes: tuple[HostRanks, ...]
    omitted_nodes: int
    """Number of nodes beyond `MAX_NODES`, which are not drawn."""
    is_stated: bool
    """True if the log states the nodes. Otherwise they are assumed from the system description."""
    device: str
    fabric: str
    """Links between the devices of a node."""
    nics: int
    """Number of NICs of a node. 0 if unknown, and in a single node."""
    network: str
    """NICs of a node as text: '8 x 400 Gb/s a node'. Empty if unknown, and in a single node."""
    unknown: tuple[str, ...]
    """Names of unknown facts."""


def layout(table: Table, ranks: int | None, system: System | None) -> ClusterLayout:
    """Combines the facts of the log and of the system description. `ranks`: None if unknown."""
    nodes, is_stated = _list_nodes(table, ranks, system)
    nics = system.nics if system and len(nodes) > 1 else None
    return ClusterLayout(
        nodes=tuple(nodes[:MAX_NODES]),
        omitted_nodes=max(0, len(nodes) - MAX_NODES),
        is_stated=is_stated,
        device=", ".join(table.devices) or (system.title if system else ""),
        fabric=_fabric_text(system),
        nics=nics.count if nics else 0,
        network=f"{nics.text} a node" if nics else "",
        unknown=tuple(_list_unknown_facts(table, ranks, system, node_count=len(nodes))),
    )


def _fabric_text(system: System | None) -> str:
    if not system or not system.fabrics:
        return ""
    fabric = system.fabrics[0]
    rate_text = f", {fabric.spec_gbps.value:g} GB/s each way per device" if fabric.spec_gbps.value else ""
    return f"{fabric.kind}, {fabric.layout}{rate_text}"


def _list_unknown_facts(table: Table, ranks: int | None, system: System | None, *, node_count: int) -> list[str]:
    unknown_facts = []
    if not table.rank_list:
        unknown_facts.append("the host and device of each rank")
    elif not all(rank.host for rank in table.rank_list):
        unknown_facts.append("the names of hosts")
    if not table.devices and system is None:
        unknown_facts.append("the devices")
    if not (system and system.fabrics):
        unknown_facts.append("the links between devices")
    if node_count != 1 and not (system and system.nics):
        unknown_facts.append("the network between nodes")
    if ranks is None:
        unknown_facts.append("the number of ranks")
    return unknown_facts


def _list_nodes(table: Table, ranks: int | None, system: System | None) -> tuple[list[HostRanks], bool]:
    """Returns the nodes, and true if the log states them. Otherwise ranks fill nodes of the system's usual size."""
    rank_list = table.rank_list
    lists_all_ranks = bool(rank_list) and (ranks is None or len(rank_list) >= ranks)
    if lists_all_ranks:
        ranks_by_host: dict[str, list[str]] = {}
        for rank in rank_list:
            ranks_by_host.setdefault(rank.host or "host not named", []).append(str(rank.rank))
        return [HostRanks(host, tuple(host_ranks)) for host, host_ranks in ranks_by_host.items()], True
    if ranks is None or system is None:
        return [], False
    nodes: list[HostRanks] = []
    for first_rank in range(0, ranks, system.ranks_per_node):
        end = min(first_rank + system.ranks_per_node, ranks)
        nodes.append(HostRanks(f"node {len(nodes) + 1}", tuple(str(rank) for rank in range(first_rank, end))))
    return nodes, False


def picture(cluster: ClusterLayout, ranks: int | None) -> Picture:
    """Draws a box for each node. Dashed boxes are assumed and not stated by the log."""
    alt_text = _alt_text(cluster, ranks)
    elements, height = _draw_nodes(cluster) if cluster.nodes else _draw_unknown_location(ranks)
    svg = drawing(*elements, label=alt_text, width=_WIDTH, height=height)
    note = f"The log does not state {_enumerate(cluster.unknown)}." if cluster.unknown else ""
    return Picture("Topology", alt_text, svg, _legend(cluster), note)


def _draw_unknown_location(ranks: int | None) -> tuple[list[Markup], float]:
    """Draws one box for all ranks. Returns its elements and the height of the drawing."""
    label = count_text(ranks, "rank") if ranks else "an unknown number of ranks"
    elements = [
        element("rect", x=1, y=1, width=_WIDTH - 2, height=48, rx=8, class_="node supposed"),
        element("text", f"{label}, location unknown", x=_WIDTH / 2, y=30, class_="label mid"),
    ]
    return elements, 50.0


def _draw_nodes(cluster: ClusterLayout) -> tuple[list[Markup], float]:
    """Draws the nodes in one or two columns, and the network below. Returns elements and height of the drawing."""
    elements: list[Markup] = []
    y = 1.0
    columns = 2 if len(cluster.nodes) > 1 else 1
    for index in range(0, len(cluster.nodes), columns):
        nodes_in_line = cluster.nodes[index : index + columns]
        height = max(_node_height(node, cluster) for node in nodes_in_line)
        left = 1.0 if columns == 2 else (_WIDTH - _NODE_WIDTH) / 2
        for column, node in enumerate(nodes_in_line):
            elements.append(_draw_node(node, cluster, left + column * (_NODE_WIDTH + _GAP - 2), y, height))
        y += height + _GAP
    if cluster.omitted_nodes:
        more = f"and {count_text(cluster.omitted_nodes, 'more node')}"
        elements.append(element("text", more, x=_WIDTH / 2, y=y + 6, class_="label mid"))
        y += 22
    if cluster.network:
        elements.append(element("rect", x=1, y=y, width=_WIDTH - 2, height=26, rx=13, class_="network"))
        elements.append(element("text", f"network: {cluster.network}", x=_WIDTH / 2, y=y + 17.5, class_="label mid"))
        y += 27 + _GAP
    return elements, y - _GAP + 2


def _count_cell_lines(node: HostRanks) -> int:
    """Lines of cells in the box of a node, with one for the number of omitted ranks."""
    cell_lines = math.ceil(min(len(node.ranks), MAX_CELLS) / _CELLS_PER_LINE)
    return cell_lines + 1 if len(node.ranks) > MAX_CELLS else cell_lines


def _node_height(node: HostRanks, cluster: ClusterLayout) -> float:
    fabric_height = 22 if cluster.fabric else 0
    nics_height = 18 if cluster.nics else 0
    return 30 + _count_cell_lines(node) * (_CELL_HEIGHT + 4) + fabric_height + nics_height + 4


def _draw_node(node: HostRanks, cluster: ClusterLayout, x: float, y: float, height: float) -> Markup:
    """Draws the box of a node: name, ranks, fabric and NICs, from top to bottom."""
    css_class = "node" if cluster.is_stated else "node supposed"
    left = x + 12
    top = y + 28
    elements = [
        element("rect", x=x, y=y, width=_NODE_WIDTH, height=height, rx=8, class_=css_class),
        element("text", cut_end(node.name, _MAX_NAME_CHARACTERS), x=left, y=y + 19, class_="label"),
        *_draw_ranks(node, left, top),
    ]
    top += _count_cell_lines(node) * (_CELL_HEIGHT + 4)
    if len(node.ranks) > MAX_CELLS:
        more_text = f"and {count_text(len(node.ranks) - MAX_CELLS, 'more rank')}"
        elements.append(element("text", more_text, x=left, y=top - 8, class_="label"))
    if cluster.fabric:
        width = _CELL_WIDTH * min(len(node.ranks), _CELLS_PER_LINE) - 3
        elements.append(element("rect", x=left, y=top + 2, width=width, height=5, rx=2.5, class_="fabric"))
        top += 14
    if cluster.nics:
        elements += _draw_nics(cluster.nics, left, top + 2)
    return group(*elements)


def _draw_ranks(node: HostRanks, left: float, top: float) -> list[Markup]:
    elements = []
    width = _CELL_WIDTH - 3
    for index, rank in enumerate(node.ranks[:MAX_CELLS]):
        line, column = divmod(index, _CELLS_PER_LINE)
        x, y = left + column * _CELL_WIDTH, top + line * (_CELL_HEIGHT + 4)
        elements.append(element("rect", x=x, y=y, width=width, height=_CELL_HEIGHT, rx=3, class_="device"))
        elements.append(element("text", rank, x=x + width / 2, y=y + 15.5, class_="cell mid"))
    return elements


def _draw_nics(nic_count: int, left: float, top: float) -> list[Markup]:
    """Draws the NICs side by side. Together they are as wide as a full line of ranks."""
    pitch = (_CELL_WIDTH * _CELLS_PER_LINE - 3) / nic_count
    width = max(pitch - 2, 1.0)
    return [
        element("rect", x=left + pitch * nic + 1, y=top, width=width, height=9, rx=2, class_="nic")
        for nic in range(nic_count)
    ]


def _legend(cluster: ClusterLayout) -> tuple[LegendEntry, ...]:
    def sample(kind: str, height: int) -> Markup:
        return legend_icon(element("rect", x=4, y=7 - height / 2, width=26, height=height, rx=2, class_=kind))

    entries = []
    if cluster.nodes:
        entries.append(
            LegendEntry(sample("device", 12), f"a rank's device{': ' + cluster.device if cluster.device else ''}")
        )
        if cluster.fabric:
            entries.append(LegendEntry(sample("fabric", 5), f"{cluster.fabric}, typical of such systems"))
        if cluster.nics:
            entries.append(LegendEntry(sample("nic", 9), f"NICs, {cluster.network}, typical of such systems"))
        if not cluster.is_stated:
            entries.append(
                LegendEntry(sample("node supposed", 12), "assumed: the log lists no ranks, so typical of such systems")
            )
    return tuple(entries)


def _alt_text(cluster: ClusterLayout, ranks: int | None) -> str:
    ranks_text = count_text(ranks, "rank") if ranks else "An unknown number of ranks"
    node_count = len(cluster.nodes) + cluster.omitted_nodes
    nodes_text = f" on {count_text(node_count, 'node')}" if node_count else ""
    assumed = "" if cluster.is_stated or not node_count else " (assumed)"
    sentences = [f"{ranks_text}{nodes_text}{assumed}"]
    sentences += [cluster.device] if cluster.device else []
    sentences += [f"{part}, typical of such systems" for part in (cluster.fabric, cluster.network) if part]
    if cluster.unknown:
        sentences.append(f"not known: {_enumerate(cluster.unknown)}")
    return "Topology. " + "; ".join(sentences) + "."


def _enumerate(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
