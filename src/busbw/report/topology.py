"""Topology of a run: nodes, devices and network from the log and the system. Unknown facts are listed."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from busbw.logs import Rank, Table
from busbw.report.page import LegendEntry, Picture
from busbw.svg import drawing, element, group
from busbw.system import System
from busbw.units import count_text

MAX_NODES = 8
MAX_CELLS = 32
"""Maximum number of ranks drawn per node."""

_WIDTH, _BOX, _GAP = 460.0, 222.0, 16.0
_CELLS_PER_LINE, _CELL, _CELL_HEIGHT = 8, 24.5, 22.0


@dataclass(frozen=True)
class HostRanks:
    """One host with its ranks."""

    name: str
    ranks: tuple[str, ...]


@dataclass(frozen=True)
class ClusterLayout:
    """Known facts about the nodes and links of a run."""

    nodes: tuple[HostRanks, ...]
    more_nodes: int
    is_stated: bool
    """True if the log lists its ranks. Otherwise the nodes are assumed from the system description."""
    device: str
    fabric: str
    nics: int
    network: str
    unknown: tuple[str, ...]
    """Names of unknown facts."""


def layout(table: Table, ranks: int | None, system: System | None) -> ClusterLayout:
    """Combines the facts of the log with those of the system description."""
    fabric = system.fabrics[0] if system and system.fabrics else None
    devices = table.devices
    nodes, is_stated = _nodes(table, ranks, system)
    several = len(nodes) > 1
    unknown = []
    if not table.rank_list:
        unknown.append("the host and device of each rank")
    elif not all(rank.host for rank in table.rank_list):
        unknown.append("the names of hosts")
    if not devices and system is None:
        unknown.append("the devices")
    if fabric is None:
        unknown.append("the links between devices")
    if (several or not nodes) and not (system and system.nics):
        unknown.append("the network between nodes")
    if ranks is None:
        unknown.append("the number of ranks")
    text = ""
    if fabric:
        rate = f", {fabric.spec_gbps.value:g} GB/s each way per device" if fabric.spec_gbps.value else ""
        text = f"{fabric.kind}, {fabric.layout}{rate}"
    return ClusterLayout(
        nodes=tuple(nodes[:MAX_NODES]),
        more_nodes=max(0, len(nodes) - MAX_NODES),
        is_stated=is_stated,
        device=", ".join(devices) or (system.title if system else ""),
        fabric=text,
        nics=system.nics.count if several and system and system.nics else 0,
        network=f"{system.nics.text} a node" if several and system and system.nics else "",
        unknown=tuple(unknown),
    )


def _nodes(table: Table, ranks: int | None, system: System | None) -> tuple[list[HostRanks], bool]:
    listed = table.rank_list
    if listed and (ranks is None or len(listed) >= ranks):
        by_host: dict[str, list[Rank]] = {}
        for rank in listed:
            by_host.setdefault(rank.host or "host not named", []).append(rank)
        return [HostRanks(host, tuple(str(rank.rank) for rank in local)) for host, local in by_host.items()], True
    if ranks is None or system is None:
        return [], False
    per_node = system.ranks_per_node
    starts = range(0, ranks, per_node)
    nodes = [
        HostRanks(f"node {number}", tuple(str(rank) for rank in range(start, min(start + per_node, ranks))))
        for number, start in enumerate(starts, start=1)
    ]
    return nodes, False


def picture(known: ClusterLayout, ranks: int | None) -> Picture:
    """Draws a box for each node. Dashed boxes are assumed and not stated by the log."""
    text = _alt_text(known, ranks)
    keys = _keys(known)
    note = f"The log does not state {_and(known.unknown)}." if known.unknown else ""
    if not known.nodes:
        label = count_text(ranks, "rank") if ranks else "an unknown number of ranks"
        parts = [
            element("rect", x=1, y=1, width=_WIDTH - 2, height=48, rx=8, class_="node supposed"),
            element("text", f"{label}, location unknown", x=_WIDTH / 2, y=30, class_="label mid"),
        ]
        return Picture("Topology", text, drawing(*parts, label=text, width=_WIDTH, height=50.0), keys, note)
    parts, y = [], 1.0
    columns = 2 if len(known.nodes) > 1 else 1
    for start in range(0, len(known.nodes), columns):
        pair = known.nodes[start : start + columns]
        height = max(_height(node, known) for node in pair)
        left = 1.0 if columns == 2 else (_WIDTH - _BOX) / 2
        for column, node in enumerate(pair):
            parts.append(_node(node, known, left + column * (_BOX + _GAP - 2), y, height))
        y += height + _GAP
    if known.more_nodes:
        more = f"and {count_text(known.more_nodes, 'more node')}"
        parts.append(element("text", more, x=_WIDTH / 2, y=y + 6, class_="label mid"))
        y += 22
    if known.network:
        parts.append(element("rect", x=1, y=y, width=_WIDTH - 2, height=26, rx=13, class_="network"))
        parts.append(element("text", f"network: {known.network}", x=_WIDTH / 2, y=y + 17.5, class_="label mid"))
        y += 27 + _GAP
    return Picture("Topology", text, drawing(*parts, label=text, width=_WIDTH, height=y - _GAP + 2), keys, note)


def _lines(node: HostRanks) -> int:
    return -(-min(len(node.ranks), MAX_CELLS) // _CELLS_PER_LINE) + (len(node.ranks) > MAX_CELLS)


def _height(node: HostRanks, known: ClusterLayout) -> float:
    return 30 + _lines(node) * (_CELL_HEIGHT + 4) + 22 * bool(known.fabric) + 18 * bool(known.nics) + 4


def _node(node: HostRanks, known: ClusterLayout, x: float, y: float, height: float) -> Markup:
    kind = "node" if known.is_stated else "node supposed"
    parts = [
        element("rect", x=x, y=y, width=_BOX, height=height, rx=8, class_=kind),
        element("text", _cut(node.name, 24), x=x + 12, y=y + 19, class_="label"),
    ]
    top_y = y + 28
    for number, rank in enumerate(node.ranks[:MAX_CELLS]):
        left = x + 12 + (number % _CELLS_PER_LINE) * _CELL
        top = top_y + (number // _CELLS_PER_LINE) * (_CELL_HEIGHT + 4)
        parts.append(element("rect", x=left, y=top, width=_CELL - 3, height=_CELL_HEIGHT, rx=3, class_="device"))
        parts.append(element("text", rank, x=left + (_CELL - 3) / 2, y=top + 15.5, class_="cell mid"))
    top_y += _lines(node) * (_CELL_HEIGHT + 4)
    if len(node.ranks) > MAX_CELLS:
        more = f"and {count_text(len(node.ranks) - MAX_CELLS, 'more rank')}"
        parts.append(element("text", more, x=x + 12, y=top_y - 8, class_="label"))
    if known.fabric:
        parts.append(
            element(
                "rect",
                x=x + 12,
                y=top_y + 2,
                width=_CELL * min(len(node.ranks), _CELLS_PER_LINE) - 3,
                height=5,
                rx=2.5,
                class_="fabric",
            )
        )
        top_y += 14
    if known.nics:
        each = (_CELL * _CELLS_PER_LINE - 3) / known.nics
        parts += [
            element(
                "rect", x=x + 12 + each * nic + 1, y=top_y + 2, width=max(each - 2, 1.0), height=9, rx=2, class_="nic"
            )
            for nic in range(known.nics)
        ]
    return group(*parts)


def _keys(known: ClusterLayout) -> tuple[LegendEntry, ...]:
    def sample(kind: str, height: int) -> Markup:
        inner = element("rect", x=4, y=7 - height / 2, width=26, height=height, rx=2, class_=kind)
        return element("svg", inner, viewBox="0 0 34 14", class_="sample", aria_hidden="true")

    found = []
    if known.nodes:
        found.append(LegendEntry(sample("device", 12), f"a rank's device{': ' + known.device if known.device else ''}"))
        if known.fabric:
            found.append(LegendEntry(sample("fabric", 5), f"{known.fabric}, typical of such systems"))
        if known.nics:
            found.append(LegendEntry(sample("nic", 9), f"NICs, {known.network}, typical of such systems"))
        if not known.is_stated:
            found.append(
                LegendEntry(sample("node supposed", 12), "assumed: the log lists no ranks, so typical of such systems")
            )
    return tuple(found)


def _alt_text(known: ClusterLayout, ranks: int | None) -> str:
    number = count_text(ranks, "rank") if ranks else "An unknown number of ranks"
    total = len(known.nodes) + known.more_nodes
    nodes = f" on {count_text(total, 'node')}" if total else ""
    assumed = "" if known.is_stated or not total else " (assumed)"
    sentences = [f"{number}{nodes}{assumed}"]
    sentences += [known.device] if known.device else []
    sentences += [f"{part}, typical of such systems" for part in (known.fabric, known.network) if part]
    if known.unknown:
        sentences.append(f"not known: {_and(known.unknown)}")
    return "Topology. " + "; ".join(sentences) + "."


def _and(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _cut(text: str, max_length: int) -> str:
    return text if len(text) <= max_length else f"{text[: max_length - 1]}\N{HORIZONTAL ELLIPSIS}"
