"""Reads properties of the host and of PCI devices from files of the kernel. An unreadable file yields None.

`root` is the root of the file tree, / except in tests.
"""

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
"""PCI vendor id."""
_GPU_CLASSES = ("0x0300", "0x0302")
"""Beginnings of the PCI classes of display and of 3D controllers: 0x030200."""


def read_word(path: Path) -> str | None:
    """Returns the text of a file without surrounding blanks; None if it is empty or unreadable."""
    with suppress(OSError, ValueError):
        return plain(path.read_text(encoding="utf-8", errors="replace").strip()) or None
    return None


def read_number(path: Path) -> int | None:
    """Returns the number in a file; None for -1, by which the kernel means unknown."""
    text = read_word(path)
    return int(text) if text is not None and re.fullmatch(r"\d{1,18}", text, re.ASCII) else None


def entries(folder: Path) -> list[Path]:
    """Returns the entries of a folder sorted by name, with numbers in numerical order."""
    try:
        paths = list(folder.iterdir())
    except OSError:
        return []
    return sorted(paths, key=lambda path: _sort_key(path.name))


def _sort_key(name: str) -> list[str | int]:
    """Splits a name into alternating words and numbers, so that mlx5_10 sorts after mlx5_9."""
    return [int(part) if part.isdigit() else part for part in re.split(r"([0-9]+)", name)]


def read_host(root: Path) -> Host:
    """Returns the properties of the machine without its devices."""
    system = root / "sys/devices/system"
    cpuinfo = read_text(root / "proc/cpuinfo")
    model = re.search(r"^(?:model name|Model)\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    memory = re.search(r"^MemTotal:\s*(\d+) kB", read_text(root / "proc/meminfo"), re.MULTILINE)
    return Host(
        name=read_word(root / "proc/sys/kernel/hostname"),
        processor=plain(model[1].strip()) if model else None,
        sockets=_count_sockets(system / "cpu"),
        cpus=read_word(system / "cpu/online"),
        memory_bytes=int(memory[1]) * 1024 if memory else None,
        numa_nodes=tuple(_numa_nodes(system / "node")) or None,
    )


def pci_location(root: Path, device: Path) -> PciLocation | None:
    """Returns the location of a device from its folder or a link to it; None if it is not on PCIe."""
    try:
        chain = chain_of(Path(os.path.realpath(device, strict=True)))
    except OSError:
        return None
    if chain is None:
        return None
    folder = root / "sys/bus/pci/devices" / chain[-1]
    return PciLocation(chain=chain, numa_node=read_number(folder / "numa_node"))


def location_of_bus_id(root: Path, bus_id: str | None) -> PciLocation | None:
    """Returns the location of the device with a bus id; None if it is unknown."""
    return pci_location(root, root / "sys/bus/pci/devices" / bus_id) if bus_id else None


def pcie(root: Path, bus_id: str | None) -> Pcie | None:
    """Returns the PCIe link of a device; None for devices without one, such as virtual devices."""
    if bus_id is None:
        return None
    folder = root / "sys/bus/pci/devices" / bus_id
    max_generation, max_width = _link_generation(folder / "max_link_speed"), _link_width(folder / "max_link_width")
    link = Pcie(
        generation=_link_generation(folder / "current_link_speed"),
        width=_link_width(folder / "current_link_width"),
        max_generation=max_generation,
        max_width=max_width,
        max_gbps=pcie_gbps(max_generation, max_width),
    )
    return None if link == Pcie() else link


def gpu_bus_ids(root: Path) -> tuple[str, ...]:
    """Returns the bus ids of the NVIDIA GPUs on the PCIe bus, with or without a driver."""
    return tuple(
        folder.name
        for folder in entries(root / "sys/bus/pci/devices")
        if read_word(folder / "vendor") == _NVIDIA and (read_word(folder / "class") or "").startswith(_GPU_CLASSES)
    )


def read_text(path: Path) -> str:
    """Returns the text of a file; empty if it is unreadable."""
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")
    return ""


def _count_sockets(cpus: Path) -> int | None:
    package_ids = {read_word(package) for package in cpus.glob("cpu[0-9]*/topology/physical_package_id")} - {None, "-1"}
    return len(package_ids) or None


def _numa_nodes(folder: Path) -> Iterator[NumaNode]:
    for node in entries(folder):
        if match := re.fullmatch(r"node([0-9]{1,6})", node.name):
            memory = re.search(r"MemTotal:\s*(\d+) kB", read_text(node / "meminfo"))
            cpus = parse_ranges(read_text(node / "cpulist"))
            yield NumaNode(
                index=int(match[1]),
                cpus=format_ranges(cpus or ()),
                memory_bytes=int(memory[1]) * 1024 if memory else None,
            )


def _link_generation(path: Path) -> int | None:
    match = re.match(r"(\d{1,3}(?:\.\d)?) GT/s", read_word(path) or "")
    return pcie_generation(float(match[1])) if match else None


def _link_width(path: Path) -> int | None:
    width = read_number(path)
    return width if width and width <= 32 else None  # the kernel writes 0 or 255 for an unknown width
