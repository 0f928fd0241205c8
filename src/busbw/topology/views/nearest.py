"""Finds the devices that are nearest to a device on PCIe, such as the NICs nearest to a GPU."""

import re
from collections.abc import Iterable, Sequence

from busbw.topology.cpu_ranges import format_ranges
from busbw.topology.types import LEVELS, PcieLevel, Topology


def nearest(topology: Topology, label: str, others: Iterable[str]) -> tuple[PcieLevel, tuple[str, ...]] | None:
    """Returns the other devices that are nearest to the device `label`: their PCIe level, and their labels.

    None if unknown. A single device with an unknown level makes the result unknown, because it may be the nearest.
    """
    candidates = dict.fromkeys(others)  # an ordered set
    levels: dict[str, PcieLevel] = {}
    for path in topology.paths:  # a single pass, because a saved matrix may have hundreds of devices
        if label not in (path.of, path.to):
            continue
        other = path.to if path.of == label else path.of
        if other in candidates and path.pcie:
            levels[other] = path.pcie
    if not levels or len(levels) < len(candidates):
        return None
    min_level = min(levels.values(), key=LEVELS.index)
    return min_level, tuple(other for other in candidates if levels[other] == min_level)


def pcie_nics(topology: Topology) -> tuple[str, ...]:
    """Returns the labels of the NICs that are on PCIe (with a bus id), or may be (of unknown kind)."""
    return tuple(nic.label for nic in topology.nics or () if nic.bus_id or nic.kind is None)


def labels_text(labels: Sequence[str]) -> str:
    """Abbreviates labels to ranges: GPU0-3. Lists all labels if one has another form than GPU0 or NIC0."""
    numbers_by_kind: dict[str, list[int]] = {}
    for label in labels:
        match = re.fullmatch(r"(GPU|NIC)(\d+)", label, re.ASCII)
        if match is None:
            return ", ".join(labels)
        numbers_by_kind.setdefault(match[1], []).append(int(match[2]))
    return ", ".join(f"{kind}{format_ranges(numbers)}" for kind, numbers in numbers_by_kind.items())
