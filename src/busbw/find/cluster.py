"""Cluster model: nodes with GPUs and NICs, from the description of a measuring program.

GPUs and NICs of all nodes are numbered consecutively. A flow is a pair of GPU numbers. Arrays of the cluster give the
NIC, node, rail and leaf of each number.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from busbw.errors import BusbwError

Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]

_Value = TypeVar("_Value")

UNKNOWN = -1
"""Number of a rail, leaf or NIC that the description does not state."""
_MAX_NODE_GPUS, _MAX_GPUS, _MAX_RAIL = 1 << 10, 1 << 20, (1 << 16) - 1
"""Bounds of a plausible description. For a larger cluster, the arrays of a search do not fit into memory."""


class NicDescription(Struct, frozen=True):
    """One NIC, as a measuring program describes it."""

    name: str
    rail: int | None = None
    gpus: tuple[int, ...] = ()
    """GPUs of the node that send and receive through this NIC."""
    leaf: str | None = None
    numa: int | None = None
    """NUMA node of the NIC."""


class NodeDescription(Struct, frozen=True):
    """One node, as a measuring program describes it."""

    name: str
    gpus: int
    leaf: str | None = None
    """Leaf switch of all NICs. None if the NICs state their own, or if the topology is unknown."""
    nics: tuple[NicDescription, ...] = ()
    gpu_types: tuple[str, ...] = ()
    """Type of each GPU, such as "NVIDIA H100". Empty if unknown, or equal in all nodes."""
    gpu_numa: tuple[int | None, ...] = ()
    """NUMA node of each GPU. Empty if unknown."""


class Port(Struct, frozen=True):
    """NICs of one node that carry the traffic of the same GPUs. No flow can tell these NICs apart."""

    name: str
    gpus: tuple[int, ...]
    rail: int | None
    leaf: str | None
    numa: int | None


class Cluster:
    """Nodes with consecutively numbered GPUs and ports.

    A port is usually one NIC. Attributes with `nic` in the name count ports.
    """

    def __init__(self, nodes: Sequence[NodeDescription]) -> None:
        """Numbers the parts of the nodes.

        Raises:
            BusbwError: The description is empty or contradictory, or has fewer than two GPUs.
        """
        contradiction = next(_contradictions(nodes), None)
        if contradiction is not None:
            problem, remedy = contradiction
            raise BusbwError(problem, remedy=remedy)
        ports = [_ports(node) for node in nodes]
        self.nodes = tuple(nodes)
        self.node_gpus: Indices = np.array([node.gpus for node in nodes])
        self.first_gpu: Indices = np.concatenate([[0], np.cumsum(self.node_gpus)])
        """First GPU of each node, and the number of all GPUs at the end."""
        nic_counts = [len(node_ports) for node_ports in ports]
        self.first_nic: Indices = np.concatenate([[0], np.cumsum(nic_counts)]).astype(np.int64)
        """First NIC of each node, and the number of all NICs at the end."""
        self.gpu_node: Indices = np.repeat(np.arange(len(nodes)), self.node_gpus)
        types = [gpu_type for node in nodes for gpu_type in node.gpu_types or [""] * node.gpus]
        self.gpu_types = tuple(sorted(set(types)))
        """All types of GPUs. An unknown type is empty."""
        self.gpu_type: Indices = np.array([self.gpu_types.index(one) for one in types], dtype=np.int64)
        self.nics: tuple[Port, ...] = tuple(port for node_ports in ports for port in node_ports)
        self.nic_node: Indices = np.repeat(np.arange(len(nodes)), np.diff(self.first_nic))
        self.leaf_names = tuple(sorted({port.leaf for port in self.nics if port.leaf is not None}))
        leaf_numbers = {name: number for number, name in enumerate(self.leaf_names)}
        self.nic_rail: Indices = _numbers([port.rail for port in self.nics])
        self.nic_leaf: Indices = _numbers(
            [None if port.leaf is None else leaf_numbers[port.leaf] for port in self.nics]
        )
        self.numa_nodes = _numa_nodes(nodes, ports)
        """Each NUMA node with several of the NICs of its node, but not all: position of the node, and NUMA number."""
        numa_numbers = {numa_node: number for number, numa_node in enumerate(self.numa_nodes)}
        self.nic_numa: Indices = _numbers(
            [numa_numbers.get((node, port.numa)) for node, port in zip(self.nic_node.tolist(), self.nics, strict=True)]
        )
        self.gpu_nic: Indices = np.full(len(self.gpu_node), UNKNOWN)
        for number, port in enumerate(self.nics):
            first_gpu = self.first_gpu[self.nic_node[number]]
            self.gpu_nic[first_gpu + np.array(port.gpus, dtype=np.int64)] = number

    @property
    def lanes(self) -> Indices:
        """Lane of each NIC: its rail, or its position in the node if the rail is unknown. Most flows stay in a lane."""
        position = np.arange(len(self.nics)) - self.first_nic[self.nic_node]
        return np.where(self.nic_rail == UNKNOWN, position, self.nic_rail)

    def gpu_name(self, gpu: int) -> tuple[str, int]:
        """Returns the name of the node and the number of the GPU in it."""
        node = int(self.gpu_node[gpu])
        return self.nodes[node].name, int(gpu - self.first_gpu[node])

    def reaches_other_nodes(self, gpu: int) -> bool:
        """True if the GPU has a NIC, and another node also has a NIC."""
        return bool(self.gpu_nic[gpu] != UNKNOWN and (self.nic_node != self.gpu_node[gpu]).any())


def _numbers(values: Sequence[int | None]) -> Indices:
    """Returns the numbers as an array, with UNKNOWN for None."""
    return np.array([UNKNOWN if value is None else value for value in values], dtype=np.int64)


def _ports(node: NodeDescription) -> list[Port]:
    """Joins the NICs of a node that carry the traffic of the same GPUs. Omits NICs without GPUs: they carry no flow."""
    by_gpus: dict[tuple[int, ...], list[NicDescription]] = {}
    for nic in node.nics:
        if nic.gpus:
            by_gpus.setdefault(tuple(sorted(set(nic.gpus))), []).append(nic)
    return [
        Port(
            name="+".join(nic.name for nic in nics),
            gpus=gpus,
            rail=_common([nic.rail for nic in nics]),
            leaf=_joined_leaves([nic.leaf or node.leaf for nic in nics]),
            numa=_common([nic.numa for nic in nics]),
        )
        for gpus, nics in by_gpus.items()
    ]


def _numa_nodes(nodes: Sequence[NodeDescription], ports: Sequence[Sequence[Port]]) -> list[tuple[int, int | None]]:
    """Returns the NUMA nodes that flows tell apart from their node and from their NICs."""
    numa_nodes: list[tuple[int, int | None]] = []
    for node in range(len(nodes)):
        port_counts = Counter(port.numa for port in ports[node])
        if None not in port_counts and len(port_counts) > 1:
            numa_nodes += [(node, numa) for numa, count in port_counts.items() if count > 1]
    return numa_nodes


def _joined_leaves(leaves: Sequence[str | None]) -> str | None:
    """Returns the leaves of a port as one name, because no flow tells them apart. None if one is unknown."""
    return None if None in leaves else "+".join(sorted({leaf for leaf in leaves if leaf is not None}))


def _common(values: Sequence[_Value]) -> _Value | None:
    """Returns the value that all entries share. None if they differ."""
    return values[0] if len(set(values)) == 1 else None


def _contradictions(nodes: Sequence[NodeDescription]) -> Iterator[tuple[str, str]]:
    """Yields the problems of a description, each with its remedy."""
    for node in nodes:
        if not node.name:
            yield "the cluster has a node without a name", "give each node its own name"
        yield from ((f"node {node.name}{problem}", remedy) for problem, remedy in _node_contradictions(node))
    for repeated in _repeated(node.name for node in nodes):
        yield f"the cluster has two nodes with the name {repeated}", "give each node its own name"
    gpus = sum(node.gpus for node in nodes)
    if gpus > _MAX_GPUS:
        yield f"the cluster has {gpus:,} GPUs", f"describe at most {_MAX_GPUS:,}"
    if gpus < 2:
        count = "one GPU" if gpus else "no GPU"
        yield f"the cluster has {count}, so there is no flow to measure", "give at least two GPUs"


def _node_contradictions(node: NodeDescription) -> Iterator[tuple[str, str]]:
    """Yields the problems of a node, as text after its name, each with its remedy."""
    if not 0 <= node.gpus <= _MAX_NODE_GPUS:
        yield f": the number of GPUs is {node.gpus}", f"describe 0 to {_MAX_NODE_GPUS:,} GPUs"
    for field, values in (("gpu_types", node.gpu_types), ("gpu_numa", node.gpu_numa)):
        if len(values) not in (0, node.gpus):
            yield f": {field} has {len(values)} entries for {node.gpus} GPUs", "state one for each GPU, or none"
    for repeated in _repeated(nic.name for nic in node.nics):
        yield f" has two NICs with the name {repeated}", "give each NIC its own name"
    owners: dict[int, NicDescription] = {}
    for nic in node.nics:
        if nic.rail is not None and not 0 <= nic.rail <= _MAX_RAIL:
            yield f": the rail of NIC {nic.name} is {nic.rail}", f"number rails from 0 to {_MAX_RAIL}"
        if nic.leaf is not None and node.leaf is not None and nic.leaf != node.leaf:
            problem = f" is on leaf {node.leaf}, but its NIC {nic.name} on {nic.leaf}"
            yield problem, "state the leaf of the node or of its NICs"
        for gpu in nic.gpus:
            if not 0 <= gpu < node.gpus:
                problem = f": NIC {nic.name} serves GPU {gpu}, but the node has {node.gpus} GPUs"
                yield problem, "correct the list of GPUs"
            owner = owners.setdefault(gpu, nic)
            if set(owner.gpus) != set(nic.gpus):
                problem = f": GPU {gpu} uses NICs {owner.name} and {nic.name}, which serve different GPUs"
                yield problem, "correct the lists of GPUs"


def _repeated(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]
