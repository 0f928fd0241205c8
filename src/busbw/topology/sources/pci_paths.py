"""How far apart two devices are on PCIe, from where the kernel's tree of devices has them.

A device's folder lies in those of the bridges above it:
/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:02.0/0000:1a:00.0 is a host bridge, a root port, the upstream
and a downstream port of a switch, and the device. A switch is therefore two bridges of the tree.
"""

import re
from collections.abc import Collection
from pathlib import Path

from msgspec import Struct

from busbw.topology.types import PcieLevel

_ROOT = re.compile(r"pci[0-9a-f]{4,}:[0-9a-f]{2}")
_DEVICE = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


class PciLocation(Struct, kw_only=True, frozen=True):
    """Where a device is."""

    chain: tuple[str, ...]
    """The host bridge, the bridges below it, and the device itself."""
    numa_node: int | None

    @property
    def bus_id(self) -> str:
        """The device's own."""
        return self.chain[-1]


def chain_of(folder: Path) -> tuple[str, ...] | None:
    """The PCIe part of a device's path, down to the last PCI device; None where the path has none."""
    parts = folder.parts
    first = next((place for place, part in enumerate(parts) if _ROOT.fullmatch(part)), None)
    if first is None:
        return None
    # A controller of volumes has a bus of its own below it, and starts with a root again.
    chain = [part for part in parts[first:] if _ROOT.fullmatch(part) or _DEVICE.fullmatch(part)]
    while chain and not _DEVICE.fullmatch(chain[-1]):
        chain.pop()
    return tuple(chain) or None


def bus_id_of(text: str) -> str | None:
    """A bus id as the kernel writes it, from the driver's form: 00000000:18:00.0 is 0000:18:00.0."""
    match = re.fullmatch(r"(?:([0-9a-f]+):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?", text.strip().lower(), re.ASCII)
    if not match:
        return None
    return f"{int(match[1] or '0', 16):04x}:{match[2]}:{match[3]}.{match[4] or '0'}"


def level(one: PciLocation | None, other: PciLocation | None, numa_nodes: Collection[int] | None) -> PcieLevel | None:
    """The level that joins two devices, or None where the tree does not decide.

    Args:
        one: A device.
        other: Another one.
        numa_nodes: All of the machine's; with a single one a device that names none is there too.
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
    # What is left of each: the device, and the port of the switch that it hangs at. Anything more is another bridge.
    below = max(len(one.chain) - shared, len(other.chain) - shared)
    return "PIX" if below <= 2 else "PXB"


def _across_host_bridges(one: PciLocation, other: PciLocation, numa_nodes: Collection[int] | None) -> PcieLevel | None:
    only = next(iter(numa_nodes)) if numa_nodes is not None and len(numa_nodes) == 1 else None
    left = only if one.numa_node is None else one.numa_node
    right = only if other.numa_node is None else other.numa_node
    if left is None or right is None:
        return None
    return "NODE" if left == right else "SYS"
