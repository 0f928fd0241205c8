"""NICs with RDMA, and compute NICs: the NICs over which a job communicates between nodes."""

import re
from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Literal, TypeAlias, TypeVar

from msgspec import Struct

from busbw.doctor.model import Machine, Unreadable, key_text, require
from busbw.doctor.parts.nccl_settings import read_settings
from busbw.doctor.parts.pci import INFINIBAND, PciDevice, gpus, pci_chain, rdma_devices, without_virtual_functions

_OTHER_PROTOCOLS = ("4:", "5:", "6:")
"""Beginnings of `node_type`, such as "4: RNIC", for the protocols iWARP and usNIC."""

Kind: TypeAlias = Literal["InfiniBand", "RoCE", "EFA"]
Value = TypeVar("Value", bound=Hashable)

NETWORK = "sys/class/net"


class Port(Struct, kw_only=True, frozen=True):
    """One port of a NIC."""

    device: str
    """RDMA device, such as mlx5_0."""
    number: str
    kind: Kind
    state: str
    """ACTIVE, INIT, ARMED or DOWN. Always ACTIVE for EFA."""
    physical_state: str
    """LinkUp, Polling or Disabled, for example."""
    rate_gbit: float
    model: str
    """Vendor and device on PCIe, and the board if the driver states it."""
    bus_id: str
    interfaces: tuple[str, ...]
    """Network interfaces of the NIC in this network namespace."""

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
        """True if the port can carry data."""
        return self.state == "ACTIVE"

    @property
    def lacks_subnet_manager(self) -> bool:
        """True if a port of InfiniBand has a link that no subnet manager has configured."""
        return self.kind == "InfiniBand" and self.physical_state == "LinkUp" and self.state in {"INIT", "ARMED"}

    @property
    def interface(self) -> str:
        """First network interface. Raises Unreadable without one."""
        if not self.interfaces:
            raise Unreadable(f"{self.device} has no network interface here; use the network namespace of the host")
        return self.interfaces[0]


def rdma_ports(machine: Machine) -> tuple[Port, ...]:
    """Returns the ports that NCCL_IB_HCA permits. Virtual functions count only if no physical one has an RDMA device.

    Raises:
        NotApplicable: There is no such port.
    """
    ports = all_rdma_ports(machine)
    setting = read_settings(machine).get("NCCL_IB_HCA") if ports else None
    permitted = tuple(
        port for port in ports if setting is None or is_permitted(setting.value, port.device, port.number)
    )
    require(permitted, "no NIC with RDMA")
    return permitted


def all_rdma_ports(machine: Machine) -> tuple[Port, ...]:
    """Returns the ports, also those that NCCL_IB_HCA excludes. Otherwise like `rdma_ports`."""
    devices = [device for device in rdma_devices(machine) if not _is_other_protocol(machine, device)]
    interfaces = _interfaces(machine) if devices else {}
    return tuple(
        _port(machine, device, number, interfaces.get(device.bus_id, ()))
        for device in without_virtual_functions(machine, devices)
        for number in machine.names(f"{INFINIBAND}/{device.label}/ports")
    )


def _is_other_protocol(machine: Machine, device: PciDevice) -> bool:
    """True for iWARP and usNIC, which NCCL does not use."""
    node_type = machine.text_or_none(f"{INFINIBAND}/{device.label}/node_type") or ""
    return node_type.startswith(_OTHER_PROTOCOLS)


def _port(machine: Machine, device: PciDevice, number: str, interfaces: tuple[str, ...]) -> Port:
    folder = f"{INFINIBAND}/{device.label}/ports/{number}"
    link_layer = machine.word(f"{folder}/link_layer")
    rate = rate_gbit(machine.word(f"{folder}/rate"))
    if rate is None:
        raise Unreadable(f"{key_text(folder)}/rate holds no rate")
    kind: Kind = "InfiniBand" if link_layer == "InfiniBand" else "RoCE"
    return Port(
        device=device.label,
        number=number,
        kind="EFA" if device.is_efa else kind,
        state=machine.word(f"{folder}/state").partition(":")[2].strip(),
        physical_state=machine.word(f"{folder}/phys_state").partition(":")[2].strip(),
        rate_gbit=rate,
        model=f"{device.model}:{machine.text_or_none(f'{INFINIBAND}/{device.label}/board_id') or ''}",
        bus_id=device.bus_id,
        interfaces=interfaces,
    )


def rdma_gbit(machine: Machine, name: str) -> float:
    """Returns the rate of an RDMA device's first port in Gbit/s. 0 if unknown."""
    return rate_gbit(machine.text_or_none(f"{INFINIBAND}/{name}/ports/1/rate") or "") or 0.0


def rate_gbit(text: str) -> float | None:
    """Returns the Gbit/s in the file `rate` of an RDMA port, such as "400 Gb/sec (4X NDR)". None for another form."""
    rate = re.match(r"\d{1,6}(?:\.\d+)?(?= Gb/sec)", text)
    return float(rate[0]) if rate else None


def _interfaces(machine: Machine) -> dict[str, tuple[str, ...]]:
    """Returns the network interfaces of each PCI device."""
    found: dict[str, tuple[str, ...]] = {}
    for name in machine.names_or_empty(NETWORK):
        if chain := pci_chain(machine, f"{NETWORK}/{name}/device"):
            found[chain[-1]] = (*found.get(chain[-1], ()), name)
    return found


def compute_ports(machine: Machine, *kinds: Kind) -> tuple[Port, ...]:
    """Returns the ports of the compute NICs, without the ports for storage and management.

    The ports of one model, at the same place of each card, are a group. The group with the highest total rate has the
    compute ports. `_without_other_purpose` removes ports from this group.

    Without `kinds`, returns ports of all kinds.

    Raises:
        NotApplicable: There is no such port.
    """
    groups: dict[tuple[str, ...], list[Port]] = {}
    for port in rdma_ports(machine):
        # The second function of a card is its second port, which many sites leave without a cable.
        groups.setdefault((port.model, port.number, port.bus_id[-1]), []).append(port)
    fastest_group = max(groups.values(), key=lambda group: sum(port.rate_gbit for port in group))
    ports = _without_other_purpose(fastest_group, len(gpus(machine)))
    selected = tuple(port for port in ports if not kinds or port.kind in kinds)
    require(selected, f"no compute NIC of kind {' or '.join(kinds)}")
    return selected


def _without_other_purpose(ports: list[Port], gpu_count: int) -> list[Port]:
    """Returns ports that the GPUs can share equally: all, or the majority that agrees in one trait. Otherwise all.

    Example: a node has 8 GPUs, 8 ports with 400 Gb/s, and two slower ports for storage.
    """
    if _can_share_equally(gpu_count, len(ports)):
        return ports
    for trait in ("kind", "is_active", "rate_gbit"):
        value = majority_value(getattr(port, trait) for port in ports)
        if not value:
            continue  # no majority (None), or a majority of inactive ports (False)
        majority = [port for port in ports if getattr(port, trait) == value]
        if _can_share_equally(gpu_count, len(majority)):
            return majority
    return ports


def _can_share_equally(gpu_count: int, port_count: int) -> bool:
    """True if each GPU can have the same number of ports, or each port the same number of GPUs."""
    return gpu_count > 0 and (gpu_count % port_count == 0 or port_count % gpu_count == 0)


def majority_value(values: Iterable[Value]) -> Value | None:
    """Returns the value that occurs more often than all others together. None if no value does."""
    counts = Counter(values)
    value, count = counts.most_common(1)[0]
    return value if 2 * count > counts.total() else None


def is_permitted(setting: str, name: str, port: str | None = None) -> bool:
    """True if a value of NCCL_IB_HCA or NCCL_SOCKET_IFNAME permits a device or interface.

    The value lists prefixes of names, or whole names if the list begins with "=". A "^" at the beginning excludes the
    listed names. An entry can end with a colon and a port: "^=mlx5_0:1,mlx5_2" excludes a port and a whole device. If
    `port` is None, the ports of entries do not matter.
    """
    is_exact = setting.removeprefix("^").startswith("=")
    entries = [entry.partition(":") for entry in setting.lstrip("^=").split(",") if entry]
    is_listed = any(
        (name == listed_name if is_exact else name.startswith(listed_name))
        and (port is None or listed_port in {"", port})
        for listed_name, _, listed_port in entries
    )
    return not entries or is_listed != setting.startswith("^")
