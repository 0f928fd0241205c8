"""Parts of a cluster, each as the set of flows that cross it.

A family is one kind of part with one direction. It states, for each flow, the numbers of the parts that the flow
crosses. The inference knows nothing else about a part, so a new kind of part is one entry of `FAMILIES`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from busbw.find.cluster import UNKNOWN, Cluster, Indices, Mask

Kind = Literal["gpu", "nvlink", "nic", "numa", "node", "pair", "rail", "leaf", "uplink"]
Direction = Literal["send", "receive", "both"]
KINDS: tuple[Kind, ...] = ("gpu", "nvlink", "nic", "numa", "node", "pair", "rail", "leaf", "uplink")

Columns = tuple[Indices, ...]
"""Numbers of the parts of a kind that each flow crosses: one array for each part on its path. UNKNOWN: no part."""


class FlowPaths:
    """Numbers of the nodes, NICs, leaves and rails that each flow crosses. UNKNOWN if it crosses none."""

    coupled: Indices | None = None
    """For each flow, a second flow that ends at the same time, because one kernel receives and sends. UNKNOWN: no flow.

    The time of a coupled flow includes the path of the second flow. None if each flow has its own time.
    """

    def __init__(
        self, cluster: Cluster, source: Indices, target: Indices, round_number: Indices, is_receiving_hub: Mask
    ) -> None:
        """Looks up the parts.

        Args:
            cluster: Cluster that was measured.
            source: GPU that sends each flow.
            target: GPU that receives each flow. A flow from a GPU to itself is the total of its flows as a hub.
            round_number: Round of each flow.
            is_receiving_hub: True for each hub that receives. The other hubs send.
        """
        self.cluster = cluster
        self.round_number = round_number
        self.source, self.target = source, target
        self.source_node, self.target_node = cluster.gpu_node[source], cluster.gpu_node[target]
        self.is_network: Mask = self.source_node != self.target_node
        self.is_hub: Mask = source == target
        self.ends: Columns = (source, np.where(self.is_hub, UNKNOWN, target))
        self.sending_hub = np.where(self.is_hub & ~is_receiving_hub, source, UNKNOWN)
        self.receiving_hub = np.where(self.is_hub & is_receiving_hub, source, UNKNOWN)
        self.source_nic = np.where(self.is_network, cluster.gpu_nic[source], UNKNOWN)
        self.target_nic = np.where(self.is_network, cluster.gpu_nic[target], UNKNOWN)
        # A leaf with one NIC is no part of its own: no flow tells the leaf and the NIC apart.
        _, leaf_of_nic, nics_of_leaf = np.unique(cluster.nic_leaf, return_inverse=True, return_counts=True)
        shared_leaf = np.where(nics_of_leaf[leaf_of_nic] > 1, cluster.nic_leaf, UNKNOWN)
        self.shared_leaves: Columns = tuple(_values_at(nic, shared_leaf) for nic in self.nics)
        source_rail, target_rail = (_values_at(nic, cluster.nic_rail) for nic in self.nics)
        self.rail = np.where(source_rail == target_rail, source_rail, UNKNOWN)
        source_leaf, target_leaf = (_values_at(nic, cluster.nic_leaf) for nic in self.nics)
        knows_leaves = (source_leaf != UNKNOWN) & (target_leaf != UNKNOWN)
        self.is_across: Mask = knows_leaves & (source_leaf != target_leaf)
        """True for each flow between two leaves."""
        self._columns: dict[int, Columns] = {}

    def columns(self, family: int) -> Columns:
        """Returns the numbers of the parts of a family (position in `FAMILIES`) that each flow crosses."""
        if family not in self._columns:
            columns = FAMILIES[family].columns(self)
            if self.coupled is not None:
                for coupled_column in [_values_at(self.coupled, column) for column in columns]:
                    is_new = np.all([coupled_column != column for column in columns], axis=0)
                    columns += _masked(is_new, coupled_column)
            self._columns[family] = columns
        return self._columns[family]

    def sent_by_targets(self) -> Indices:
        """Returns the flow that the target of each flow sends in the same round. UNKNOWN if it sends none."""
        rounds, gpus = int(self.round_number.max(initial=0)) + 1, len(self.cluster.gpu_node)
        flow_of_sender = np.full((rounds, gpus), UNKNOWN)
        flow_of_sender[self.round_number, self.source] = np.arange(len(self.source))
        return np.asarray(flow_of_sender[self.round_number, self.target])

    @property
    def nics(self) -> tuple[Indices, Indices]:
        """NICs of the senders and of the receivers."""
        return self.source_nic, self.target_nic


def _values_at(numbers: Indices, values: Indices) -> Indices:
    """Returns the value of each number, or UNKNOWN for UNKNOWN."""
    values_and_unknown = np.append(values, UNKNOWN)  # the index UNKNOWN, -1, selects the last entry
    return values_and_unknown[numbers]


@dataclass(frozen=True)
class Family:
    """One kind of part with one direction."""

    kind: Kind
    direction: Direction
    columns: Callable[[FlowPaths], Columns]
    """Numbers of the parts that each flow crosses. A flow never has the same part in two columns."""
    is_between: bool = False
    """True if a part is two GPUs or two NICs, and its number stands for both."""
    needs_hub: bool = False
    """True if the part slows only a GPU that exchanges data with several GPUs of its node at once."""
    rarity: float = 0.0
    """Log of the odds that a part of another kind is the cause. It adds to the penalty for the number of parts."""

    @property
    def is_hashed(self) -> bool:
        """True if a part is several equal links, and a hash assigns each connection to one of these links.

        Only flows without collisions are then evidence, because a collision slows several flows at once.
        """
        return self.kind == "uplink"


def _masked(mask: Mask, *columns: Indices) -> Columns:
    """Returns the columns with UNKNOWN for the flows outside of the mask."""
    return tuple(np.where(mask, column, UNKNOWN) for column in columns)


def node_pair_numbers(paths: FlowPaths) -> Indices:
    """Returns the number of the pair of nodes of each flow. `nodes_of` is the inverse."""
    lower, higher = np.minimum(paths.source_node, paths.target_node), np.maximum(paths.source_node, paths.target_node)
    return lower * len(paths.cluster.nodes) + higher


def _node_pair(paths: FlowPaths, direction: Direction) -> Columns:
    """Pairs of nodes. `send` is the direction from the node with the lower number."""
    has_direction = {
        "both": paths.is_network,
        "send": paths.source_node < paths.target_node,
        "receive": paths.target_node < paths.source_node,
    }
    return _masked(has_direction[direction], node_pair_numbers(paths))


def _gpu_pair(paths: FlowPaths) -> Columns:
    """Pairs of GPUs of one node. `gpus_of` returns the GPUs of a number.

    The second GPU is numbered within its node, which keeps the numbers small. Example: with at most 8 GPUs per node,
    GPUs 9 and 11, of a node that begins with GPU 8, have the number 9 * 8 + 3.
    """
    lower, higher = np.minimum(paths.source, paths.target), np.maximum(paths.source, paths.target)
    local = higher - paths.cluster.first_gpu[paths.target_node]
    is_between_gpus = ~(paths.is_network | paths.is_hub)
    return _masked(is_between_gpus, lower * int(paths.cluster.node_gpus.max()) + local)


def _node_with_inside(paths: FlowPaths) -> Columns:
    """Nodes, also for flows within the node."""
    return paths.source_node, np.where(paths.is_network, paths.target_node, UNKNOWN)


def _leaf(paths: FlowPaths) -> Columns:
    """Leaves that several NICs share, also for flows within the leaf."""
    source, target = paths.shared_leaves
    return source, np.where(paths.is_across, target, UNKNOWN)


def _shared_port(paths: FlowPaths) -> Columns:
    """Pairs of NICs of a node that send, or receive, in the same round: they could share one port.

    `ports_of` returns the NICs of a number.
    """
    cluster = paths.cluster
    rounds = int(paths.round_number.max(initial=0)) + 1
    max_node_nics = int(np.diff(cluster.first_nic).max(initial=0))
    columns: list[Indices] = []
    for nic in (paths.source_nic, paths.target_nic):
        is_known = nic != UNKNOWN
        # More columns than NICs, because `other` can exceed the last NIC.
        is_active = np.zeros((rounds, len(cluster.nics) + max_node_nics + 1), dtype=bool)
        is_active[paths.round_number[is_known], nic[is_known]] = True
        first_of_node = _values_at(nic, cluster.first_nic[cluster.nic_node])
        end_of_node = _values_at(nic, cluster.first_nic[cluster.nic_node + 1])
        for local in range(max_node_nics):
            other = first_of_node + local
            is_other_of_node = is_known & (other < end_of_node) & (other != nic)
            are_both_active = is_other_of_node & is_active[paths.round_number, other]
            lower, higher = np.minimum(nic, other), np.maximum(nic, other)
            columns += _masked(are_both_active, lower * max_node_nics + (higher - first_of_node))
    return tuple(columns)


FAMILIES: tuple[Family, ...] = (
    Family("gpu", "both", lambda paths: paths.ends),
    Family("nvlink", "both", _gpu_pair, is_between=True),
    Family("nvlink", "send", lambda paths: (paths.sending_hub,), needs_hub=True),
    Family("nvlink", "receive", lambda paths: (paths.receiving_hub,), needs_hub=True),
    Family("nvlink", "both", lambda paths: (paths.sending_hub, paths.receiving_hub), needs_hub=True),
    Family("nvlink", "both", lambda paths: _masked(~paths.is_network, *paths.ends)),  # all links of a GPU
    Family("nic", "send", lambda paths: (paths.source_nic,)),
    Family("nic", "receive", lambda paths: (paths.target_nic,)),
    Family("nic", "both", lambda paths: (paths.source_nic, paths.target_nic)),
    Family("nic", "both", _shared_port, is_between=True, rarity=5.0),
    Family("numa", "both", lambda paths: tuple(_values_at(nic, paths.cluster.nic_numa) for nic in paths.nics)),
    Family("node", "send", lambda paths: _masked(paths.is_network, paths.source_node)),
    Family("node", "receive", lambda paths: _masked(paths.is_network, paths.target_node)),
    Family("node", "both", lambda paths: _masked(paths.is_network, paths.source_node, paths.target_node)),
    Family("node", "both", _node_with_inside),
    Family("pair", "send", lambda paths: _node_pair(paths, "send")),
    Family("pair", "receive", lambda paths: _node_pair(paths, "receive")),
    Family("pair", "both", lambda paths: _node_pair(paths, "both")),
    Family("rail", "both", lambda paths: (paths.rail,)),
    Family("leaf", "both", _leaf),
    Family("uplink", "send", lambda paths: _masked(paths.is_across, paths.shared_leaves[0])),
    Family("uplink", "receive", lambda paths: _masked(paths.is_across, paths.shared_leaves[1])),
    Family("uplink", "both", lambda paths: _masked(paths.is_across, *paths.shared_leaves)),
)
"""Every kind of part that a search can name."""
_FAMILY_NUMBERS = {
    (one.kind, one.is_between, one.needs_hub, one.direction): number for number, one in enumerate(FAMILIES)
}
"""Position of each family in `FAMILIES`.

Two families of nodes have the same key. The later one remains: the family that includes flows inside nodes.
"""


@dataclass(frozen=True)
class Part:
    """One part: its family (position in `FAMILIES`) and its number in it."""

    family: int
    number: int

    @property
    def kind(self) -> Kind:
        """Kind of the part."""
        return FAMILIES[self.family].kind

    @property
    def direction(self) -> Direction:
        """Direction of the flows that cross the part."""
        return FAMILIES[self.family].direction

    @property
    def is_between(self) -> bool:
        """True if the part is two GPUs or two NICs."""
        return FAMILIES[self.family].is_between

    @property
    def needs_hub(self) -> bool:
        """True if the part slows only a GPU that exchanges data with several GPUs of its node at once."""
        return FAMILIES[self.family].needs_hub

    @property
    def hardware(self) -> tuple[Kind, bool, bool, int]:
        """Key that parts share if they differ at most in the direction."""
        return self.kind, self.is_between, self.needs_hub, self.number


def flows_of(part: Part, paths: FlowPaths) -> Mask:
    """Returns True for each flow that crosses the part."""
    return np.asarray(np.logical_or.reduce([column == part.number for column in paths.columns(part.family)]))


def is_synonym(part: Part, other: Part, cluster: Cluster) -> bool:
    """True if two parts with the same flows are of kinds that no flow can tell apart.

    A rail and its only leaf switch are one switch. If a GPU reaches no other node, all its flows cross its NVLinks.
    """
    kinds = {part.kind, other.kind}
    if kinds == {"gpu", "nvlink"}:
        is_all_links = not any(one.is_between or one.needs_hub for one in (part, other))
        return part.number == other.number and is_all_links and not cluster.reaches_other_nodes(part.number)
    return kinds == {"rail", "leaf"}


def in_both_directions(part: Part) -> Part:
    """Returns the part without the limit to one direction."""
    return Part(_FAMILY_NUMBERS[part.kind, part.is_between, part.needs_hub, "both"], part.number)


def nodes_of(pair_number: int, cluster: Cluster) -> tuple[int, int]:
    """Returns both nodes of a pair of nodes, the lower number first."""
    return divmod(pair_number, len(cluster.nodes))


def gpus_of(part: Part, cluster: Cluster) -> tuple[int, int]:
    """Returns both GPUs of the NVLink between two GPUs, the lower number first."""
    lower, local = divmod(part.number, int(cluster.node_gpus.max()))
    return lower, int(cluster.first_gpu[cluster.gpu_node[lower]]) + local


def ports_of(part: Part, cluster: Cluster) -> tuple[Part, Part]:
    """Returns both NICs of a pair that could share one port, the lower number first."""
    lower, local = divmod(part.number, int(np.diff(cluster.first_nic).max()))
    family = _FAMILY_NUMBERS["nic", False, False, "both"]
    return Part(family, lower), Part(family, int(cluster.first_nic[cluster.nic_node[lower]]) + local)


def count_per_part(columns: Iterable[Indices], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the sum of the weights of the flows that cross each part, by its number."""
    shifted = [column - UNKNOWN for column in columns]  # UNKNOWN becomes 0
    total = np.zeros(max((int(column.max(initial=0)) for column in shifted), default=0) + 1)
    for column in shifted:
        total += np.bincount(column, weights, len(total))
    return total[1:]
