"""Reads NICs from files of the kernel: first RDMA devices, then network interfaces without an RDMA device."""

import re
from pathlib import Path

from msgspec.structs import replace

from busbw.topology.sources import sysfs
from busbw.topology.sources.pci_paths import PciLocation
from busbw.topology.types import Nic, NicKind, Port

EFA_VENDOR = "0x1d0f"
"""PCI vendor id of Amazon. All its RDMA devices are EFA."""
_INTERFACE_TYPES = {"1", "32"}
"""Types of NICs: Ethernet and IP over InfiniBand (include/uapi/linux/if_arp.h)."""
_IWARP_NODE_TYPE = "4:"
"""Beginning of the node type of an RDMA NIC for iWARP (include/rdma/ib_verbs.h)."""
_MAX_MBIT = 10_000_000
"""Rates are below this number. Drivers of virtual machines report the largest integer for an unknown rate."""


def nics(root: Path, *, virtual_too: bool) -> list[tuple[Nic, PciLocation | None]]:
    """Returns all NICs with their locations, labeled NIC0, NIC1 and so on.

    Args:
        root: Root of the file tree, usually /.
        virtual_too: Include interfaces without a hardware device: bridges, bonds, tunnels, software RDMA.
    """
    located_nics = [_rdma_nic(root, device) for device in sysfs.entries(root / "sys/class/infiniband")]
    rdma_interfaces = {name for nic, _ in located_nics for name in nic.interfaces}
    for interface in sysfs.entries(root / "sys/class/net"):
        interface_type = sysfs.read_word(interface / "type")
        may_be_nic = interface_type is None or interface_type in _INTERFACE_TYPES
        if interface.name not in rdma_interfaces and may_be_nic:
            located_nics.append(_ethernet_nic(root, interface))
    if not virtual_too:
        located_nics = [(nic, location) for nic, location in located_nics if nic.kind != "virtual"]
    return [(replace(nic, label=f"NIC{number}"), location) for number, (nic, location) in enumerate(located_nics)]


def _rdma_nic(root: Path, device: Path) -> tuple[Nic, PciLocation | None]:
    ports = tuple(
        _rdma_port(port, int(port.name))
        for port in sysfs.entries(device / "ports")
        if re.fullmatch("[0-9]+", port.name)
    )
    hardware = device / "device"
    location = sysfs.pci_location(root, hardware)
    driver = _driver(hardware)
    nic = Nic(
        label="",
        name=device.name,
        kind=_rdma_kind(device, ports),
        driver=driver,
        bus_id=location.bus_id if location else None,
        board_id=sysfs.read_word(device / "board_id"),
        ports=ports,
        interfaces=tuple(path.name for path in sysfs.entries(hardware / "net")),
        pcie=sysfs.pcie(root, location.bus_id if location else None),
        numa_node=_numa_node(hardware, location),
        cpu_affinity=sysfs.read_word(hardware / "local_cpulist"),
        is_virtual_function=(hardware / "physfn").exists(),
    )
    return nic, location


def _rdma_port(port: Path, number: int) -> Port:
    rate = re.match(r"(\d{1,6}(?:\.\d+)?) Gb/sec", sysfs.read_word(port / "rate") or "")
    return Port(
        number=number,
        state=_strip_number(sysfs.read_word(port / "state")),
        physical_state=_strip_number(sysfs.read_word(port / "phys_state")),
        rate_gbit=float(rate[1]) if rate else None,
        link_layer=sysfs.read_word(port / "link_layer"),
    )


def _strip_number(text: str | None) -> str | None:
    """Returns the word of a numbered state: "4: ACTIVE" becomes "ACTIVE". None for an empty word."""
    if text is None:
        return None
    word = text.split(":", 1)[-1].strip()
    return word or None


def _rdma_kind(device: Path, ports: tuple[Port, ...]) -> NicKind:
    if not (device / "device").exists():
        return "virtual"
    if sysfs.read_word(device / "device/vendor") == EFA_VENDOR:
        return "EFA"
    if (sysfs.read_word(device / "node_type") or "").startswith(_IWARP_NODE_TYPE):
        return "iWARP"
    link_layers = {port.link_layer for port in ports}
    if link_layers == {"InfiniBand"}:
        return "InfiniBand"
    return "RoCE" if link_layers == {"Ethernet"} else "RDMA"


def _ethernet_nic(root: Path, interface: Path) -> tuple[Nic, PciLocation | None]:
    hardware = interface / "device"
    is_virtual = not hardware.exists()
    location = None if is_virtual else sysfs.pci_location(root, hardware)
    speed_mbit = sysfs.read_number(interface / "speed")
    port = Port(
        number=0,
        state=sysfs.read_word(interface / "operstate"),
        rate_gbit=speed_mbit / 1000 if speed_mbit and speed_mbit < _MAX_MBIT else None,
        link_layer="Ethernet" if sysfs.read_word(interface / "type") == "1" else None,
    )
    nic = Nic(
        label="",
        name=interface.name,
        kind="virtual" if is_virtual else "Ethernet",
        driver=None if is_virtual else _driver(hardware),
        bus_id=location.bus_id if location else None,
        ports=(port,),
        interfaces=(interface.name,),
        pcie=sysfs.pcie(root, location.bus_id if location else None),
        numa_node=_numa_node(hardware, location),
        cpu_affinity=sysfs.read_word(hardware / "local_cpulist"),
        is_virtual_function=(hardware / "physfn").exists(),
    )
    return nic, location


def _numa_node(hardware: Path, location: PciLocation | None) -> int | None:
    """Returns the NUMA node of the device, or of the PCI device above it."""
    own_node = sysfs.read_number(hardware / "numa_node")
    if own_node is not None:
        return own_node
    return location.numa_node if location else None


def _driver(hardware: Path) -> str | None:
    driver = hardware / "driver"
    return driver.resolve().name if driver.exists() else None
