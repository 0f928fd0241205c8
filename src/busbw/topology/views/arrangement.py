"""Groups devices for the picture: by NUMA node, and within a node by PCIe switch."""

from collections.abc import Sequence
from dataclasses import dataclass

from busbw.topology.cpu_ranges import parse_ranges
from busbw.topology.types import Gpu, Nic, Topology
from busbw.topology.views.nearest import nearest


@dataclass(frozen=True)
class SwitchIsland:
    """Devices that reach each other without a host bridge (PIX, PXB)."""

    gpus: tuple[Gpu, ...]
    nics: tuple[Nic, ...]


@dataclass(frozen=True)
class NumaGroup:
    """A NUMA node with its devices. `index` is None for devices with an unknown node."""

    index: int | None
    cpus: str
    islands: tuple[SwitchIsland, ...]
    """Islands with at least one GPU."""
    others: tuple[Nic, ...]
    """NICs that share no PCIe switch with a GPU."""


def arrange(topology: Topology) -> tuple[NumaGroup, ...]:
    """Returns all NUMA nodes in order. The group of devices without a node is last."""
    islands = _islands(topology)
    cpus = {node.index: node.cpus for node in (topology.host.numa_nodes or ())} if topology.host else {}
    places: dict[int | None, list[SwitchIsland]] = {index: [] for index in cpus}
    for island in islands:
        places.setdefault(_numa_of(island), []).append(island)
    order = sorted(places, key=lambda index: (index is None, index or 0))
    return tuple(
        NumaGroup(
            index=index,
            cpus=cpus.get(index, "") if index is not None else "",
            islands=tuple(island for island in places[index] if island.gpus),
            others=tuple(nic for island in places[index] if not island.gpus for nic in island.nics),
        )
        for index in order
    )


def _islands(topology: Topology) -> list[SwitchIsland]:
    """Returns the islands in the order of their first device."""
    leader = {label: label for label in topology.labels}

    def find(label: str) -> str:
        while leader[label] != label:
            label = leader[label]
        return label

    order = {label: place for place, label in enumerate(topology.labels)}
    for path in topology.paths:
        if path.pcie in {"PIX", "PXB"}:
            one, other = sorted((find(path.of), find(path.to)), key=lambda label: order[label])
            leader[other] = one
    gpus, nics = topology.gpus or (), topology.nics or ()
    return [
        SwitchIsland(
            gpus=(own := tuple(gpu for gpu in gpus if find(gpu.label) == first)),
            nics=_sorted_by_gpu(topology, own, [nic for nic in nics if find(nic.label) == first]),
        )
        for first in dict.fromkeys(map(find, topology.labels))
    ]


def _sorted_by_gpu(topology: Topology, gpus: Sequence[Gpu], nics: Sequence[Nic]) -> tuple[Nic, ...]:
    """Sorts the NICs by the order of their nearest GPUs."""
    labels = [gpu.label for gpu in gpus]

    def place(nic: Nic) -> int:
        found = nearest(topology, nic.label, labels) if labels else None
        return labels.index(found[1][0]) if found else len(labels)

    return tuple(sorted(nics, key=place))


def _numa_of(island: SwitchIsland) -> int | None:
    """Returns the NUMA node of the first device with a known node; None if all are unknown."""
    nodes = [parse_ranges(gpu.numa_affinity or "") for gpu in island.gpus]
    known = [found[0] for found in nodes if found is not None and len(found) == 1]
    known += [nic.numa_node for nic in island.nics if nic.numa_node is not None]
    return known[0] if known else None
