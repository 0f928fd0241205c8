"""Kernel modules: drivers of GPUs and NICs, and the support of GPUDirect RDMA by a peer memory module or DMA-BUF."""

import re
from collections.abc import Iterator
from itertools import product

from busbw.doctor.model import Evidence, Finding, Machine, Severity, check, require
from busbw.doctor.parts.pci import (
    AMD,
    CLASS_3D,
    DEVICES,
    MELLANOX,
    NVIDIA,
    device_folders,
    gpus,
    is_kept_for_virtual_machine,
    rdma_devices,
)
from busbw.topology.sources.nics import EFA_VENDOR

_NEEDS: tuple[tuple[str, str, str, Severity, str], ...] = (
    (NVIDIA, CLASS_3D, "0x", "broken", "nvidia"),
    (AMD, "0x1200", "0x", "broken", "amdgpu"),
    (MELLANOX, "0x0207", "0x", "slow", "mlx5_ib"),
    (EFA_VENDOR, "0x0200", "0xefa", "slow", "efa"),
)
"""Vendor, PCI class, beginning of the device id ("0x": any), severity without the module, and module."""
_PEER_MEMORY = (
    "sys/module/nvidia_peermem/version",
    "sys/kernel/mm/memory_peers/nv_mem/version",
    "sys/kernel/mm/memory_peers/nv_mem_nc/version",
)
"""Files of the peer memory modules. NCCL looks for one of them."""
_DRIVER, _KERNEL = "proc/driver/nvidia/version", "proc/sys/kernel/osrelease"


@check(
    reads="/sys/bus/pci/devices/*/{vendor,device,class,driver}, /sys/module",
    rule="The modules nvidia, amdgpu, mlx5_ib and efa are loaded if the machine has devices for them.",
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    cost="Without its driver a GPU is lost. Without RDMA, NCCL uses sockets, at a tenth of the bandwidth or less.",
    fix="sudo modprobe MODULE",
)
def kernel_modules(machine: Machine) -> Iterator[Finding]:
    needed: dict[str, Severity] = {}
    for folder, (vendor, pci_class, device, severity, module) in product(device_folders(machine), _NEEDS):
        if (
            machine.word(f"{folder}/vendor") == vendor
            and machine.word(f"{folder}/class").startswith(pci_class)
            and machine.word(f"{folder}/device").startswith(device)
            and not is_kept_for_virtual_machine(machine, folder)
        ):
            needed[module] = severity
    require(needed and gpus(machine), "no data center GPU or RDMA device")
    for module, severity in needed.items():
        if not machine.has(f"sys/module/{module}"):
            yield Finding(
                severity,
                f"the kernel module {module} is not loaded, but the machine has devices for it",
                (Evidence(f"/sys/module/{module}", "does not exist"),),
                subject=module,
                fix=f"sudo modprobe {module}; if it fails, read sudo dmesg and install the driver for this kernel",
            )


@check(
    reads="/sys/module/nvidia_peermem, /sys/kernel/mm/memory_peers, /proc/driver/nvidia/version, kernel release",
    rule="A peer memory module is loaded, or the open driver runs on a kernel from 5.12 on (DMA-BUF).",
    source="NVIDIA/nccl#1676",
    cost="Data between nodes goes through host memory: 10 of 180 GB/s in NVIDIA/nccl#1676, 33 of 93 in #1412.",
    fix="sudo modprobe nvidia-peermem; echo nvidia-peermem | sudo tee /etc/modules-load.d/nvidia-peermem.conf",
)
def gdr_module(machine: Machine) -> Iterator[Finding]:
    # GeForce GPUs, which are displays, have no GPUDirect RDMA. The EFA driver has its own support.
    has_gpu = any(
        gpu.vendor == NVIDIA and machine.word(f"{DEVICES}/{gpu.bus_id}/class").startswith(CLASS_3D)
        for gpu in gpus(machine)
    )
    require(has_gpu, "no data center GPU of NVIDIA")
    require(any(not nic.is_efa for nic in rdma_devices(machine)), "no InfiniBand or RoCE device")
    if any(machine.has(path) for path in _PEER_MEMORY):
        return
    driver, release = machine.text(_DRIVER), machine.word(_KERNEL)
    version = tuple(map(int, re.findall(r"\d+", release)[:2]))
    if "Open Kernel Module" not in driver or version < (5, 12):
        yield Finding(
            "slow",
            "neither nvidia-peermem nor DMA-BUF is available, so NCCL cannot use GPUDirect RDMA",
            (
                Evidence("/sys/module/nvidia_peermem", "does not exist"),
                Evidence(f"/{_DRIVER}", driver.partition("\n")[0]),
                Evidence(f"/{_KERNEL}", release),
            ),
        )
