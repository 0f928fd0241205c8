"""NICs on PCIe that no RDMA driver offers, although others of the same model work."""

from collections.abc import Iterator
from contextlib import suppress

from busbw.doctor.model.check import Check, Evidence, Finding
from busbw.doctor.model.damage import Damage
from busbw.doctor.model.machine import Absent, Machine
from busbw.doctor.parts.nics import INFINIBAND, PCI, compute_ports, pci_location


def _examine(machine: Machine) -> Iterator[Finding]:
    working = {port.location.bus_id: port.model for port in compute_ports(machine, "InfiniBand", "RoCE")}
    locations = [pci_location(machine, f"{INFINIBAND}/{name}/device") for name in machine.names(INFINIBAND)]
    offered = {location.bus_id for location in locations if location}
    kinds = {(*_pci_kind(machine, bus_id), bus_id[-1]) for bus_id in working}
    lost = [
        bus_id
        for bus_id in machine.names(PCI)
        if bus_id not in offered
        and (*_pci_kind(machine, bus_id), bus_id[-1]) in kinds
        and not _has_other_purpose(machine, bus_id)
    ]
    for bus_id in lost if len(lost) < len(working) else ():
        yield Finding(
            severity="slow",
            subject=bus_id,
            problem=f"the NIC at {bus_id} has no RDMA device; {len(working)} NICs of its model have one",
            evidence=(Evidence(source=f"/{PCI}/{bus_id}/infiniband", value="does not exist"),),
            damage=Damage(nic_share=len(working) / (len(working) + len(lost))),
        )


def _pci_kind(machine: Machine, bus_id: str) -> tuple[str | None, ...]:
    return tuple(machine.optional(f"{PCI}/{bus_id}/{name}") for name in ("vendor", "device", "class"))


def _has_other_purpose(machine: Machine, bus_id: str) -> bool:
    """True if the function belongs to another network namespace, to a virtual machine, or is virtual itself."""
    # With a driver, the folder "infiniband" exists in all network namespaces.
    if machine.has(f"{PCI}/{bus_id}/infiniband") or machine.has(f"{PCI}/{bus_id}/physfn"):
        return True
    with suppress(Absent):
        return machine.target(f"{PCI}/{bus_id}/driver").endswith(("/vfio-pci", "/pci-stub"))
    return False


CHECK = Check(
    name="nic-count",
    area="nic",
    reads="/sys/class/infiniband; vendor, device, class and driver in /sys/bus/pci/devices/BDF",
    rule="Each NIC of the model of the compute NICs has an RDMA device.",
    source="https://github.com/facebookresearch/gcm",
    cost="One of 8 NICs lost takes 1/8 of the bandwidth between nodes, or half if two GPUs then share a NIC.",
    fix="dmesg | grep -e mlx5 -e bnxt; reload the driver of the NIC; mlxfwreset -d BDF reset; reboot",
    examine=_examine,
)
