"""Kernel modules that GPUs and NICs need for collectives."""

from collections.abc import Iterator

from busbw.doctor.model.check import Check, Evidence, Finding, NotApplicable, Severity
from busbw.doctor.model.machine import Machine
from busbw.doctor.parts.pci import AMAZON, AMD, MELLANOX, NVIDIA, device_folders, gpus

_NEEDS: tuple[tuple[str, str, Severity, str], ...] = (
    (NVIDIA, "0x0302", "broken", "nvidia"),
    (AMD, "0x1200", "broken", "amdgpu"),
    (MELLANOX, "0x0207", "slow", "mlx5_ib"),
    (AMAZON, "0x0200", "slow", "efa"),
)
"""Vendor, PCI class, severity without the module, and module."""
_EFA_DEVICES = "0xefa"


def _examine(machine: Machine) -> Iterator[Finding]:
    present = {
        (machine.word(f"{folder}/vendor"), machine.word(f"{folder}/class")[:6]): folder
        for folder in device_folders(machine)
        if machine.word(f"{folder}/vendor") != AMAZON or machine.word(f"{folder}/device").startswith(_EFA_DEVICES)
    }
    needs = [need for need in _NEEDS if need[:2] in present]
    if not needs or not gpus(machine):
        raise NotApplicable("no data center GPU or RDMA device")
    for vendor, pci_class, severity, module in needs:
        folder = present[vendor, pci_class]
        # A device of a virtual machine belongs to vfio-pci.
        driver = machine.target(f"{folder}/driver") if machine.has(f"{folder}/driver") else ""
        if not machine.has(f"sys/module/{module}") and not driver.endswith("/vfio-pci"):
            yield Finding(
                severity=severity,
                subject=module,
                problem=f"the kernel module {module} is not loaded, but the machine has a device for it",
                evidence=(
                    machine.evidence(f"{folder}/vendor"),
                    Evidence(source=f"/sys/module/{module}", value="does not exist"),
                ),
                fix=f"sudo modprobe {module}; if it fails, read sudo dmesg and install the driver for this kernel",
            )


CHECK = Check(
    name="kernel-modules",
    area="host",
    reads="/sys/bus/pci/devices/*/{vendor,device,class,driver}, /sys/module",
    rule="The modules nvidia, amdgpu, mlx5_ib and efa are loaded if the machine has devices for them.",
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    cost="Without its driver a GPU is lost. Without RDMA, NCCL uses sockets, at a tenth of the bandwidth or less.",
    fix="sudo modprobe MODULE",
    examine=_examine,
)
