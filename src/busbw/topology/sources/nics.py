"""NICs of the kernel: first RDMA devices, then network interfaces without an RDMA device."""

import re
from pathlib import Path

from msgspec.structs import replace

from busbw.topology.sources import sysfs
from busbw.topology.sources.pci_paths import PciLocation
from busbw.topology.types import Nic, NicKind, Port

_INTERFACE_TYPES = {"1", "32"}
"""Ethernet and IP over InfiniBand (include/uapi/linux/if_arp.h). Other types do not connect machines."""


def nics(root: Path, *, virtual_too: bool) -> list[tuple[Nic, PciLocation | None]]:
    """Returns all NICs with their locations, labeled NIC0, NIC1 and so on.

    Args:
        root: Root of the file tree, usually /.
        virtual_too: Include interfaces without a hardware device: bridges, bonds, tunnels, software RDMA.
    """
    found = [_rdma(root, device) for device in sysfs.entries(root / "sys/class/infiniband")]
    taken = {name for nic, _ in found for name in nic.interfaces}
    for interface in sysfs.entries(root / "sys/class/net"):
        if interface.name not in taken and sysfs.word(interface / "type") in {*_INTERFACE_TYPES, None}:
            found.append(_ethernet(root, interface))
    kept = [(nic, place) for nic, place in found if virtual_too or nic.kind != "virtual"]
    return [(replace(nic, label=f"NIC{number}"), place) for number, (nic, place) in enumerate(kept)]


def _rdma(root: Path, device: Path) -> tuple[Nic, PciLocation | None]:
    ports = tuple(
        _rdma_port(port, int(port.name))
        for port in sysfs.entries(device / "ports")
        if re.fullmatch("[0-9]+", port.name)
    )
    place = sysfs.place(root, device / "device")
    node = device / "device"
    driver = _driver(node)
    nic = Nic(
        label="",
        name=device.name,
        kind=_rdma_kind(device, driver, ports),
        driver=driver,
        bus_id=place.bus_id if place else None,
        board_id=sysfs.word(device / "board_id"),
        ports=ports,
        interfaces=tuple(path.name for path in sysfs.entries(node / "net")),
        pcie=sysfs.pcie(root, place.bus_id if place else None),
        numa_node=sysfs.number(node / "numa_node"),
        cpu_affinity=sysfs.word(node / "local_cpulist"),
        is_virtual_function=(node / "physfn").exists(),
    )
    return nic, place


def _rdma_port(port: Path, number: int) -> Port:
    rate = re.match(r"(\d{1,6}(?:\.\d+)?) Gb/sec", sysfs.word(port / "rate") or "")
    return Port(
        number=number,
        state=_after_number(sysfs.word(port / "state")),
        physical_state=_after_number(sysfs.word(port / "phys_state")),
        rate_gbit=float(rate[1]) if rate else None,
        link_layer=sysfs.word(port / "link_layer"),
    )


def _after_number(text: str | None) -> str | None:
    """Returns the word of a state such as "4: ACTIVE"."""
    return text.split(":", 1)[-1].strip() or None if text else None


def _rdma_kind(device: Path, driver: str | None, ports: tuple[Port, ...]) -> NicKind:
    if not (device / "device").exists():
        return "virtual"
    if driver == "efa":
        return "EFA"
    if (sysfs.word(device / "node_type") or "").startswith("4:"):  # RDMA NIC, include/rdma/ib_verbs.h
        return "iWARP"
    layers = {port.link_layer for port in ports}
    return "InfiniBand" if layers == {"InfiniBand"} else "RoCE" if layers == {"Ethernet"} else "RDMA"


def _ethernet(root: Path, interface: Path) -> tuple[Nic, PciLocation | None]:
    node = interface / "device"
    is_virtual = not node.exists()
    place = None if is_virtual else sysfs.place(root, node)
    speed = sysfs.number(interface / "speed")
    port = Port(
        number=0,
        state=sysfs.word(interface / "operstate"),
        # For an unknown rate, drivers of virtual machines report -1 or the largest integer.
        rate_gbit=speed / 1000 if speed and speed < 10_000_000 else None,
        link_layer="Ethernet" if sysfs.word(interface / "type") == "1" else None,
    )
    nic = Nic(
        label="",
        name=interface.name,
        kind="virtual" if is_virtual else "Ethernet",
        driver=None if is_virtual else _driver(node),
        bus_id=place.bus_id if place else None,
        ports=(port,),
        interfaces=(interface.name,),
        pcie=sysfs.pcie(root, place.bus_id if place else None),
        numa_node=_numa(node, place),
        cpu_affinity=sysfs.word(node / "local_cpulist"),
        is_virtual_function=(node / "physfn").exists(),
    )
    return nic, place


def _numa(node: Path, place: PciLocation | None) -> int | None:
    own = sysfs.number(node / "numa_node")
    return own if own is not None else place.numa_node if place else None


def _driver(node: Path) -> str | None:
    driver = node / "driver"
    return driver.resolve().name if driver.exists() else None
