"""NICs with RDMA, and those over which a job communicates between nodes."""

import re
from collections import Counter
from collections.abc import Hashable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

from msgspec import Struct

from busbw.doctor.facts.environment import Environment
from busbw.doctor.model.check import NotApplicable, Unreadable
from busbw.doctor.model.machine import Absent, Machine, shown
from busbw.topology.sources.pci_paths import PciLocation, chain_of

Kind: TypeAlias = Literal["InfiniBand", "RoCE", "EFA"]
Value = TypeVar("Value", bound=Hashable)

INFINIBAND = "sys/class/infiniband"
PCI = "sys/bus/pci/devices"
AMAZON = "0x1d0f"
"""PCI vendor of EFA."""


class Port(Struct, kw_only=True, frozen=True):
    """One port of a NIC."""

    device: str
    """Name of the RDMA device, such as mlx5_0."""
    number: str
    kind: Kind
    state: str
    """ACTIVE, INIT, ARMED or DOWN."""
    physical_state: str
    """LinkUp, Polling or Disabled, for example."""
    rate_gbit: float
    model: tuple[str, ...]
    """Vendor and device on PCIe, and the board if the driver states it."""
    location: PciLocation
    interfaces: tuple[str, ...]
    """Network interfaces in this network namespace."""

    @property
    def folder(self) -> str:
        """Folder of the port's files."""
        return f"{INFINIBAND}/{self.device}/ports/{self.number}"

    @property
    def label(self) -> str:
        """Name for findings: mlx5_0, or mlx5_0:2 for a further port."""
        return self.device if self.number == "1" else f"{self.device}:{self.number}"

    @property
    def is_active(self) -> bool:
        """True if the port can carry data. The driver of EFA states this always."""
        return self.state == "ACTIVE"

    @property
    def lacks_subnet_manager(self) -> bool:
        """True if a port of InfiniBand has a link that no subnet manager has configured."""
        return self.kind == "InfiniBand" and self.physical_state == "LinkUp" and self.state in {"INIT", "ARMED"}


def pci_location(machine: Machine, path: str) -> PciLocation | None:
    """Returns the position of the PCI device at or above a path. None for software devices."""
    with suppress(Absent):
        chain = chain_of(Path("/", machine.target(path)))
        if chain is not None:
            node = machine.optional(f"{PCI}/{chain[-1]}/numa_node")
            return PciLocation(chain=chain, numa_node=int(node) if node and node.isdecimal() else None)
    return None


def rdma_ports(machine: Machine) -> tuple[Port, ...]:
    """Returns the ports of all NICs with RDMA that NCCL_IB_HCA permits, without virtual functions of this host.

    Raises:
        NotApplicable: There is none.
        Unreadable: A value cannot be read.
    """
    devices = machine.names_or_none(INFINIBAND)
    interfaces = _interfaces(machine) if devices else {}
    ports: list[Port] = []
    for device in devices:
        location = pci_location(machine, f"{INFINIBAND}/{device}/device")
        if location is not None and not machine.has(f"{PCI}/{location.bus_id}/physfn"):
            numbers = machine.names(f"{INFINIBAND}/{device}/ports")
            ports += [_port(machine, device, number, location, interfaces) for number in numbers]
    permitted = machine.fact(Environment).variables.get("NCCL_IB_HCA", "") if ports else ""
    ports = [port for port in ports if is_permitted(permitted, port.device, port.number)]
    if not ports:
        raise NotApplicable("no NIC with RDMA")
    return tuple(ports)


def _port(
    machine: Machine, device: str, number: str, location: PciLocation, interfaces: dict[str, tuple[str, ...]]
) -> Port:
    folder = f"{INFINIBAND}/{device}/ports/{number}"
    pci_folder = f"{PCI}/{location.bus_id}"
    model = tuple(machine.word(f"{pci_folder}/{name}") for name in ("vendor", "device"))
    link_layer = machine.word(f"{folder}/link_layer")
    rate = re.match(r"\d{1,6}(?:\.\d+)?(?= Gb/sec)", machine.word(f"{folder}/rate"))
    if rate is None:
        raise Unreadable(f"a rate in {shown(folder)}/rate")
    return Port(
        device=device,
        number=number,
        kind="EFA" if model[0] == AMAZON else "InfiniBand" if link_layer == "InfiniBand" else "RoCE",
        state=machine.word(f"{folder}/state").partition(":")[2].strip(),
        physical_state=machine.word(f"{folder}/phys_state").partition(":")[2].strip(),
        rate_gbit=float(rate[0]),
        model=(*model, machine.optional(f"{INFINIBAND}/{device}/board_id") or ""),
        location=location,
        interfaces=interfaces.get(location.bus_id, ()),
    )


def _interfaces(machine: Machine) -> dict[str, tuple[str, ...]]:
    """Returns the network interfaces of each PCI device."""
    found: dict[str, tuple[str, ...]] = {}
    for name in machine.names_or_none("sys/class/net"):
        location = pci_location(machine, f"sys/class/net/{name}/device")
        if location is not None:
            found[location.bus_id] = (*found.get(location.bus_id, ()), name)
    return found


def compute_ports(machine: Machine, *kinds: Kind) -> tuple[Port, ...]:
    """Returns the ports that a job uses for collectives, without those for storage and management.

    These are the ports of one model, at the same place of each card, that have the highest rate together. If they are
    too many for the GPUs, those that differ from a complete set have another purpose.

    Args:
        machine: Machine with the NICs.
        kinds: Kinds of ports to return. All without any.

    Raises:
        NotApplicable: There is none.
        Unreadable: A value cannot be read.
    """
    groups: dict[tuple[object, ...], list[Port]] = {}
    for port in rdma_ports(machine):
        # The second function of a card is its second port, which many sites leave without a cable.
        groups.setdefault((port.model, port.number, port.location.bus_id[-1]), []).append(port)
    ports = max(groups.values(), key=lambda group: sum(port.rate_gbit for port in group))
    gpus = len(gpu_locations(machine))
    for values in (
        [port.kind for port in ports],
        [port.is_active or None for port in ports],
        [port.rate_gbit for port in ports],
    ):
        value = usual(values)
        same = [port for port, own in zip(ports, values, strict=False) if own == value]
        if value is not None and not _is_complete(len(ports), gpus) and _is_complete(len(same), gpus):
            ports = same
    chosen = tuple(port for port in ports if not kinds or port.kind in kinds)
    if not chosen:
        raise NotApplicable(f"no compute NIC of kind {' or '.join(kinds)}")
    return chosen


def _is_complete(ports: int, gpus: int) -> bool:
    """True if each GPU has the same share of the ports."""
    return gpus > 0 and (gpus % ports == 0 or ports % gpus == 0)


def gpu_locations(machine: Machine) -> tuple[PciLocation, ...]:
    """Returns the positions of the GPUs of NVIDIA and AMD."""
    found: list[PciLocation] = []
    for bus_id in machine.names_or_none(PCI):
        vendor = machine.optional(f"{PCI}/{bus_id}/vendor")
        # Display controllers, and the accelerators of AMD.
        if vendor in {"0x10de", "0x1002"} and re.match("0x03|0x1200", machine.optional(f"{PCI}/{bus_id}/class") or ""):
            location = pci_location(machine, f"{PCI}/{bus_id}")
            found += [location] if location is not None else []
    return tuple(found)


def usual(values: Iterable[Value]) -> Value | None:
    """Returns the value that more than half of the parts have. None if no value is so frequent."""
    counts = Counter(values)
    value, count = counts.most_common(1)[0]
    return value if 2 * count > counts.total() else None


def is_permitted(variable: str, name: str, port: str | None = None) -> bool:
    """True if NCCL_IB_HCA or NCCL_SOCKET_IFNAME permits a device. Its entries are prefixes, or names after "=".

    Args:
        variable: Value of the variable. Empty: everything is permitted.
        name: Name of the device or interface.
        port: Its port, which an entry can state after a colon. None for interfaces.
    """
    excludes = variable.startswith("^")
    is_exact = variable.removeprefix("^").startswith("=")
    entries = [entry.partition(":") for entry in variable.lstrip("^=").split(",") if entry]
    is_listed = any(
        (name == prefix if is_exact else name.startswith(prefix)) and (port is None or number in {"", port})
        for prefix, _, number in entries
    )
    return not entries or is_listed != excludes
