"""NICs on PCIe that no RDMA driver offers, although others of the same model work."""

from collections.abc import Iterator
from contextlib import suppress

from busbw.doctor.model.check import Check, Evidence, Finding
from busbw.doctor.model.damage import Damage
from busbw.doctor.model.machine import Absent, Machine
from busbw.doctor.parts.nics import compute_ports
from busbw.doctor.parts.pci import DEVICES, device_folders, rdma_devices


def _examine(machine: Machine) -> Iterator[Finding]:
    working = [f"{DEVICES}/{port.bus_id}" for port in compute_ports(machine, "InfiniBand", "RoCE")]
    offered = {f"{DEVICES}/{device.bus_id}" for device in rdma_devices(machine)}
    kinds = {_kind(machine, folder) for folder in working}
    equal = [each for each in device_folders(machine) if each not in offered and _kind(machine, each) in kinds]
    lost = [folder for folder in equal if not _has_other_purpose(machine, folder)]
    for folder in lost if len(lost) < len(working) else ():
        bus_id = folder.rpartition("/")[2]
        yield Finding(
            severity="slow",
            subject=bus_id,
            problem=f"the NIC at {bus_id} has no RDMA device; {len(working)} NICs of its model have one",
            evidence=(Evidence(source=f"/{folder}/infiniband", value="does not exist"),),
            damage=Damage(nic_share=len(working) / (len(working) + len(lost))),
        )


def _kind(machine: Machine, folder: str) -> tuple[str | None, ...]:
    """Returns what equal ports of equal cards share; the last digit is the function, usually one for each port."""
    return (*(machine.optional(f"{folder}/{name}") for name in ("vendor", "device", "class")), folder[-1])


def _has_other_purpose(machine: Machine, folder: str) -> bool:
    """True if the function belongs to another network namespace, to a virtual machine, or is virtual itself."""
    # With a driver, the folder "infiniband" exists in all network namespaces.
    if machine.has(f"{folder}/infiniband") or machine.has(f"{folder}/physfn"):
        return True
    with suppress(Absent):
        return machine.target(f"{folder}/driver").endswith(("/vfio-pci", "/pci-stub"))
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
