"""What the kernel's files say of a host and of a PCI device. A file that is not there or not readable says nothing."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from busbw.topology.cpu_ranges import format_ranges, parse_ranges
from busbw.topology.sources.link_rates import pcie_gbps, pcie_generation
from busbw.topology.sources.pci_paths import PciLocation, chain_of
from busbw.topology.types import Host, NumaNode, Pcie
from busbw.units import plain

_NVIDIA = "0x10de"
_DISPLAY, _3D = "0x0300", "0x0302"


def word(path: Path) -> str | None:
    """The text of a file without the line's end, or None."""
    with suppress(OSError, ValueError):
        return plain(path.read_text(encoding="utf-8", errors="replace").strip()) or None
    return None


def number(path: Path) -> int | None:
    """The number in a file; the kernel's -1 says that there is none."""
    text = word(path)
    return int(text) if text is not None and re.fullmatch(r"\d{1,18}", text, re.ASCII) else None


def entries(folder: Path) -> list[Path]:
    """What a folder holds, by name, with numbers in their order."""
    try:
        found = list(folder.iterdir())
    except OSError:
        return []
    return sorted(found, key=lambda path: [int(part) if part.isdigit() else part for part in _parts(path.name)])


def _parts(name: str) -> list[str]:
    """Words and numbers by turns, so that two names are comparable: mlx5_10 comes after mlx5_9."""
    return re.split(r"([0-9]+)", name)


def host(root: Path) -> Host:
    """The machine without its devices."""
    system = root / "sys/devices/system"
    cpuinfo = _long(root / "proc/cpuinfo")
    model = re.search(r"^(?:model name|Model)\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    memory = re.search(r"^MemTotal:\s*(\d+) kB", _long(root / "proc/meminfo"), re.MULTILINE)
    return Host(
        name=word(root / "proc/sys/kernel/hostname"),
        processor=plain(model[1].strip()) if model else None,
        sockets=_sockets(system / "cpu"),
        cpus=word(system / "cpu/online"),
        memory_bytes=int(memory[1]) * 1024 if memory else None,
        numa_nodes=tuple(_numa_nodes(system / "node")) or None,
    )


def place(root: Path, device: Path) -> PciLocation | None:
    """Where a device is, from its folder or a link to it; None where it is not on PCIe."""
    try:
        chain = chain_of(Path(os.path.realpath(device, strict=True)))
    except OSError:
        return None
    if chain is None:
        return None
    folder = root / "sys/bus/pci/devices" / chain[-1]
    return PciLocation(chain=chain, numa_node=number(folder / "numa_node"))


def place_of(root: Path, bus_id: str | None) -> PciLocation | None:
    """Where the device of a bus id is."""
    return place(root, root / "sys/bus/pci/devices" / bus_id) if bus_id else None


def pcie(root: Path, bus_id: str | None) -> Pcie | None:
    """A device's link. Devices without one, virtual ones above all, have no such files, or zeros in them."""
    if bus_id is None:
        return None
    folder = root / "sys/bus/pci/devices" / bus_id
    most, widest = _generation(folder / "max_link_speed"), _width(folder / "max_link_width")
    found = Pcie(
        generation=_generation(folder / "current_link_speed"),
        width=_width(folder / "current_link_width"),
        max_generation=most,
        max_width=widest,
        max_gbps=pcie_gbps(most, widest),
    )
    return None if found == Pcie() else found


def gpu_bus_ids(root: Path) -> tuple[str, ...]:
    """The NVIDIA GPUs that the bus shows, whether or not a driver speaks for them."""
    return tuple(
        folder.name
        for folder in entries(root / "sys/bus/pci/devices")
        if word(folder / "vendor") == _NVIDIA and (word(folder / "class") or "")[:6] in {_DISPLAY, _3D}
    )


def _long(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")
    return ""


def _sockets(cpus: Path) -> int | None:
    found = {word(package) for package in cpus.glob("cpu[0-9]*/topology/physical_package_id")} - {None, "-1"}
    return len(found) or None


def _numa_nodes(folder: Path) -> Iterator[NumaNode]:
    for node in entries(folder):
        if match := re.fullmatch(r"node([0-9]{1,6})", node.name):
            total = re.search(r"MemTotal:\s*(\d+) kB", _long(node / "meminfo"))
            cpus = parse_ranges(_long(node / "cpulist"))
            yield NumaNode(
                index=int(match[1]),
                cpus=format_ranges(cpus or ()),
                memory_bytes=int(total[1]) * 1024 if total else None,
            )


def _generation(path: Path) -> int | None:
    match = re.match(r"(\d{1,3}(?:\.\d)?) GT/s", word(path) or "")
    return pcie_generation(float(match[1])) if match else None


def _width(path: Path) -> int | None:
    width = number(path)
    return width if width and width <= 32 else None  # 0 and 255 are what the kernel writes for "not known"
