"""Distance of two devices on PCIe, from their paths in the kernel's device tree.

The path of a device contains the bridges above it:
/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:02.0/0000:1a:00.0 is a host bridge, a root port, the upstream
and a downstream port of a switch, and the device. So a switch counts as two bridges of the tree.
"""

import re
from collections.abc import Collection
from pathlib import Path

from msgspec import Struct

from busbw.topology.types import PcieLevel

_ROOT = re.compile(r"pci[0-9a-f]{4,}:[0-9a-f]{2}")
_DEVICE = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


class PciLocation(Struct, kw_only=True, frozen=True):
    """Position of a device in the PCIe tree."""

    chain: tuple[str, ...]
    """Host bridge, the bridges below it, and the device itself."""
    numa_node: int | None

    @property
    def bus_id(self) -> str:
        """Bus id of the device."""
        return self.chain[-1]


def chain_of(folder: Path) -> tuple[str, ...] | None:
    """Returns the PCIe part of a device's path, down to the last PCI device; None if the path has no PCI device."""
    parts = folder.parts
    first = next((place for place, part in enumerate(parts) if _ROOT.fullmatch(part)), None)
    if first is None:
        return None
    # Below a volume management device (VMD), the path contains a second root bus.
    chain = [part for part in parts[first:] if _ROOT.fullmatch(part) or _DEVICE.fullmatch(part)]
    while chain and not _DEVICE.fullmatch(chain[-1]):
        chain.pop()
    return tuple(chain) or None


def bus_id_of(text: str) -> str | None:
    """Converts a bus id of the driver to the kernel's format: 00000000:18:00.0 becomes 0000:18:00.0."""
    match = re.fullmatch(r"(?:([0-9a-f]+):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?", text.strip().lower(), re.ASCII)
    if not match:
        return None
    return f"{int(match[1] or '0', 16):04x}:{match[2]}:{match[3]}.{match[4] or '0'}"


def level(one: PciLocation | None, other: PciLocation | None, numa_nodes: Collection[int] | None) -> PcieLevel | None:
    """Returns the PCIe level of two devices; None if the tree does not determine it.

    Args:
        one: First device.
        other: Second device.
        numa_nodes: All NUMA nodes of the machine. If there is only one, it also applies to devices without a node.
    """
    if one is None or other is None:
        return None
    shared = 0
    for left, right in zip(one.chain, other.chain, strict=False):
        if left != right:
            break
        shared += 1
    if shared == 0:
        return _across_host_bridges(one, other, numa_nodes)
    if shared == 1:
        return "PHB"
    # Below the shared part, two elements are the device and its switch port. Each further element is another bridge.
    below = max(len(one.chain) - shared, len(other.chain) - shared)
    return "PIX" if below <= 2 else "PXB"


def _across_host_bridges(one: PciLocation, other: PciLocation, numa_nodes: Collection[int] | None) -> PcieLevel | None:
    only = next(iter(numa_nodes)) if numa_nodes is not None and len(numa_nodes) == 1 else None
    left = only if one.numa_node is None else one.numa_node
    right = only if other.numa_node is None else other.numa_node
    if left is None or right is None:
        return None
    return "NODE" if left == right else "SYS"
