"""Groups devices for the picture: by NUMA node, and within a node by PCIe switch.

An island is a set of devices that reach each other through PCIe switches. A device without a switch is its own island.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from busbw.topology.cpu_ranges import parse_ranges
from busbw.topology.types import Gpu, Nic, Topology
from busbw.topology.views.nearest import nearest


@dataclass(frozen=True)
class SwitchIsland:
    """Devices that reach each other through PCIe switches, without a host bridge (PIX, PXB)."""

    gpus: tuple[Gpu, ...]
    nics: tuple[Nic, ...]


@dataclass(frozen=True)
class NumaGroup:
    """A NUMA node with its devices. `index` is None for devices with an unknown node."""

    index: int | None
    cpus: str
    islands: tuple[SwitchIsland, ...]
    """Islands with at least one GPU."""
    other_nics: tuple[Nic, ...]
    """NICs that share no PCIe switch with a GPU."""


def arrange(topology: Topology) -> tuple[NumaGroup, ...]:
    """Returns a group for each NUMA node, by index. The group of devices with an unknown node is last."""
    cpus = {node.index: node.cpus for node in topology.numa_nodes}
    islands_by_node: dict[int | None, list[SwitchIsland]] = {index: [] for index in cpus}
    for island in _find_islands(topology):
        islands_by_node.setdefault(_numa_node_of(island), []).append(island)
    groups = []
    for index in sorted(islands_by_node, key=lambda index: math.inf if index is None else index):
        islands = islands_by_node[index]
        islands_without_gpu = [island for island in islands if not island.gpus]
        groups.append(
            NumaGroup(
                index=index,
                cpus="" if index is None else cpus.get(index, ""),
                islands=tuple(island for island in islands if island.gpus),
                other_nics=tuple(nic for island in islands_without_gpu for nic in island.nics),
            )
        )
    return tuple(groups)


def _find_islands(topology: Topology) -> list[SwitchIsland]:
    """Returns the islands in the order of their first device."""
    # Union-find: each device refers to an earlier device of its island; the first device refers to itself.
    earlier = {label: label for label in topology.labels}

    def first_of_island(label: str) -> str:
        while earlier[label] != label:
            label = earlier[label]
        return label

    order = {label: position for position, label in enumerate(topology.labels)}
    for path in topology.paths:
        if path.pcie in {"PIX", "PXB"}:
            first, later = sorted((first_of_island(path.of), first_of_island(path.to)), key=order.__getitem__)
            earlier[later] = first
    islands = []
    for first in dict.fromkeys(map(first_of_island, topology.labels)):
        gpus = tuple(gpu for gpu in topology.gpus or () if first_of_island(gpu.label) == first)
        nics = [nic for nic in topology.nics or () if first_of_island(nic.label) == first]
        islands.append(SwitchIsland(gpus=gpus, nics=_sort_by_gpu(topology, gpus, nics)))
    return islands


def _sort_by_gpu(topology: Topology, gpus: Sequence[Gpu], nics: Sequence[Nic]) -> tuple[Nic, ...]:
    """Sorts the NICs of an island by the positions of their nearest GPUs."""
    labels = [gpu.label for gpu in gpus]

    def position(nic: Nic) -> int:
        nearest_gpus = nearest(topology, nic.label, labels) if labels else None
        if nearest_gpus is None:
            return len(labels)
        _, gpu_labels = nearest_gpus
        return labels.index(gpu_labels[0])

    return tuple(sorted(nics, key=position))


def _numa_node_of(island: SwitchIsland) -> int | None:
    """Returns the NUMA node of the first device with a single known node; None if there is no such device."""
    for gpu in island.gpus:
        gpu_nodes = parse_ranges(gpu.numa_affinity or "")
        if gpu_nodes is not None and len(gpu_nodes) == 1:
            return gpu_nodes[0]
    return next((nic.numa_node for nic in island.nics if nic.numa_node is not None), None)
