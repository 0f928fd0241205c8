"""Determines the distance of two devices on PCIe, from their paths in the kernel's device tree.

The path of a device contains the bridges above it:
/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:02.0/0000:1a:00.0 is a host bridge, a root port, the upstream
and a downstream port of a switch, and the device. So a switch counts as two bridges of the tree.
"""

import re
from collections.abc import Collection
from itertools import dropwhile, takewhile
from pathlib import Path

from msgspec import Struct

from busbw.topology.types import PcieLevel

_HOST_BRIDGE = re.compile(r"pci[0-9a-f]{4,}:[0-9a-f]{2}")
_DEVICE = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


class PciLocation(Struct, kw_only=True, frozen=True):
    """Position of a device in the PCIe tree."""

    chain: tuple[str, ...]
    """Host bridge, the bridges below it, and the device itself."""
    numa_node: int | None
    """None if the kernel does not state it."""

    @property
    def bus_id(self) -> str:
        """Bus id of the device."""
        return self.chain[-1]


def chain_of(folder: Path) -> tuple[str, ...] | None:
    """Returns the PCIe part of a device's path, down to the last PCI device; None if the path has no PCI device."""
    pcie_parts = list(dropwhile(lambda part: not _HOST_BRIDGE.fullmatch(part), folder.parts))
    # Below a volume management device (VMD), the path contains a second host bridge.
    chain = [part for part in pcie_parts if _HOST_BRIDGE.fullmatch(part) or _DEVICE.fullmatch(part)]
    while chain and not _DEVICE.fullmatch(chain[-1]):
        chain.pop()
    return tuple(chain) or None


def bus_id_of(text: str) -> str | None:
    """Converts a bus id of the driver to the kernel's format: 00000000:18:00.0 becomes 0000:18:00.0.

    None if the text is not a bus id.
    """
    match = re.fullmatch(r"(?:([0-9a-f]+):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?", text.strip().lower(), re.ASCII)
    if not match:
        return None
    return f"{int(match[1] or '0', 16):04x}:{match[2]}:{match[3]}.{match[4] or '0'}"


def pcie_level(
    first: PciLocation | None, second: PciLocation | None, numa_nodes: Collection[int] | None
) -> PcieLevel | None:
    """Returns the PCIe level of two devices; None if the tree does not determine it.

    Args:
        first: First device. None if its location is unknown.
        second: Second device.
        numa_nodes: All NUMA nodes of the machine. If there is only one, it also applies to devices without a node.
    """
    if first is None or second is None:
        return None
    pairs = zip(first.chain, second.chain, strict=False)
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    if shared == 0:
        return _level_across_host_bridges(first, second, numa_nodes)
    if shared == 1:  # the host bridge
        return "PHB"
    # Below the shared part, two elements are the device and its switch port. Each further element is another bridge.
    below_shared = max(len(first.chain), len(second.chain)) - shared
    return "PIX" if below_shared <= 2 else "PXB"


def _level_across_host_bridges(
    first: PciLocation, second: PciLocation, numa_nodes: Collection[int] | None
) -> PcieLevel | None:
    only_node: int | None = None
    if numa_nodes is not None and len(numa_nodes) == 1:
        (only_node,) = numa_nodes
    first_node = only_node if first.numa_node is None else first.numa_node
    second_node = only_node if second.numa_node is None else second.numa_node
    if first_node is None or second_node is None:
        return None
    return "NODE" if first_node == second_node else "SYS"
