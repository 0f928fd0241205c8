"""Mode of the IOMMU for GPUs and RDMA devices."""

from collections.abc import Iterator

from busbw.doctor.model.check import Check, Finding, NotApplicable
from busbw.doctor.model.machine import Absent, Machine
from busbw.doctor.parts.pci import DEVICES, gpus, rdma_devices
from busbw.doctor.parts.platform import is_arm, is_virtual


def _examine(machine: Machine) -> Iterator[Finding]:
    if is_arm(machine) or is_virtual(machine):
        raise NotApplicable("Grace needs its IOMMU, and a virtual machine does not see that of its host")
    devices = (*gpus(machine), *rdma_devices(machine))
    if not devices:
        raise NotApplicable("no GPU or RDMA device")
    types: dict[str, str] = {}
    for device in devices:
        try:
            path = f"{machine.target(f'{DEVICES}/{device.bus_id}/iommu_group')}/type"
        except Absent:
            continue  # The IOMMU is off.
        if machine.word(path).startswith("DMA"):
            types[device.label] = path
    if types:
        label, path = next(iter(types.items()))
        yield Finding(
            severity="slow" if rdma_devices(machine) else "risk",
            problem=f"the IOMMU translates all transfers of {len(types)} GPUs and RDMA devices, such as {label}",
            evidence=(machine.evidence(path),),
        )


CHECK = Check(
    name="iommu-mode",
    area="host",
    reads="/sys/kernel/iommu_groups/*/type of GPUs and RDMA devices",
    rule="On bare metal with processors other than ARM, the IOMMU is off or passes addresses through (identity).",
    source="NVIDIA/nccl#257",
    cost="Transfers between PCIe devices take up to twice as long, and some machines hang (NVIDIA/nccl#631).",
    fix="add iommu=pt to the kernel's arguments in /etc/default/grub, run update-grub, and reboot",
    examine=_examine,
)
