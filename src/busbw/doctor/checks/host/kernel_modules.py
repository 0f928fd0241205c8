"""Kernel modules that GPUs and NICs need for collectives."""

from collections.abc import Iterator

from busbw.doctor.model.check import Check, Evidence, Finding, NotApplicable, Severity
from busbw.doctor.model.machine import Machine
from busbw.doctor.parts.pci import AMAZON, AMD, MELLANOX, NVIDIA, device_folders, gpus

_NEEDS: tuple[tuple[str, str, str, Severity, str], ...] = (
    (NVIDIA, "0x0302", "0x", "broken", "nvidia"),
    (AMD, "0x1200", "0x", "broken", "amdgpu"),
    (MELLANOX, "0x0207", "0x", "slow", "mlx5_ib"),
    (AMAZON, "0x0200", "0xefa", "slow", "efa"),
)
"""Vendor, PCI class, beginning of the device id, severity without the module, and module."""


def _examine(machine: Machine) -> Iterator[Finding]:
    vendors = {folder: machine.word(f"{folder}/vendor") for folder in device_folders(machine)}
    needed: dict[str, Severity] = {
        module: severity
        for folder, folder_vendor in vendors.items()
        for vendor, pci_class, device, severity, module in _NEEDS
        if folder_vendor == vendor
        and machine.word(f"{folder}/class").startswith(pci_class)
        and machine.word(f"{folder}/device").startswith(device)
        # A device of a virtual machine belongs to another driver, vfio-pci.
        and not (machine.has(f"{folder}/driver") and machine.target(f"{folder}/driver").endswith("/vfio-pci"))
    }
    if not needed or not gpus(machine):
        raise NotApplicable("no data center GPU or RDMA device")
    for module, severity in needed.items():
        if not machine.has(f"sys/module/{module}"):
            yield Finding(
                severity=severity,
                subject=module,
                problem=f"the kernel module {module} is not loaded, but the machine has devices for it",
                evidence=(Evidence(source=f"/sys/module/{module}", value="does not exist"),),
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
