"""Finds the nearest devices on PCIe."""

import re
from collections.abc import Iterable, Sequence

from busbw.topology.cpu_ranges import format_ranges
from busbw.topology.types import LEVELS, PcieLevel, Topology


def nearest(topology: Topology, label: str, others: Iterable[str]) -> tuple[PcieLevel, tuple[str, ...]] | None:
    """Returns the PCIe level and labels of the devices nearest to `label`; None if unknown.

    A single device with an unknown level makes the result unknown, because it may be the nearest.
    """
    wanted = dict.fromkeys(others)
    found: dict[str, PcieLevel] = {}
    for path in topology.paths:  # a single pass, because a saved matrix may have hundreds of devices
        other = path.to if path.of == label else path.of if path.to == label else None
        if other in wanted and path.pcie:
            found[other] = path.pcie
    if not found or len(found) < len(wanted):
        return None
    levels = {other: found[other] for other in wanted}
    best = min(levels.values(), key=LEVELS.index)
    return best, tuple(other for other, level in levels.items() if level == best)


def pcie_nics(topology: Topology) -> tuple[str, ...]:
    """Returns the labels of NICs that are or may be on PCIe."""
    return tuple(nic.label for nic in topology.nics or () if nic.bus_id or nic.kind is None)


def labels_text(labels: Sequence[str]) -> str:
    """Abbreviates labels to ranges: GPU0-3. Names without a number are not changed."""
    parts = [re.fullmatch(r"(GPU|NIC)(\d+)", label, re.ASCII) for label in labels]
    numbers: dict[str, list[int]] = {}
    for part in parts:
        if part is None:
            return ", ".join(labels)
        numbers.setdefault(part[1], []).append(int(part[2]))
    return ", ".join(f"{kind}{format_ranges(found)}" for kind, found in numbers.items())
