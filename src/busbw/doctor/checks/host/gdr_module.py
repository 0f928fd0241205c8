"""Kernel support of GPUDirect RDMA: a peer memory module, or DMA-BUF."""

import re
from collections.abc import Iterator

from busbw.doctor.model.check import Check, Evidence, Finding, NotApplicable
from busbw.doctor.model.machine import Machine
from busbw.doctor.parts.pci import AMAZON, DEVICES, NVIDIA, gpus, rdma_devices

_PEER_MEMORY = (
    "sys/module/nvidia_peermem/version",
    "sys/kernel/mm/memory_peers/nv_mem/version",
    "sys/kernel/mm/memory_peers/nv_mem_nc/version",
)
"""The paths that NCCL tests."""


def _examine(machine: Machine) -> Iterator[Finding]:
    # GeForce GPUs, which are displays, have no GPUDirect RDMA. The EFA driver has its own support.
    has_gpu = any(
        gpu.vendor == NVIDIA and machine.word(f"{DEVICES}/{gpu.bus_id}/class").startswith("0x0302")
        for gpu in gpus(machine)
    )
    if not has_gpu or not any(nic.vendor != AMAZON for nic in rdma_devices(machine)):
        raise NotApplicable("no data center GPU of NVIDIA with an InfiniBand or RoCE device")
    if any(machine.has(path) for path in _PEER_MEMORY):
        return
    driver = machine.text("proc/driver/nvidia/version")
    release = machine.word("proc/sys/kernel/osrelease")
    version = tuple(map(int, re.findall(r"\d+", release)[:2]))
    if "Open Kernel Module" not in driver or version < (5, 12):
        yield Finding(
            severity="slow",
            problem="neither nvidia-peermem nor DMA-BUF is available, so NCCL cannot use GPUDirect RDMA",
            evidence=(
                Evidence(source="/sys/module/nvidia_peermem", value="does not exist"),
                Evidence(source="/proc/driver/nvidia/version", value=driver.partition("\n")[0]),
                Evidence(source="/proc/sys/kernel/osrelease", value=release),
            ),
        )


CHECK = Check(
    name="gdr-module",
    area="host",
    reads="/sys/module/nvidia_peermem, /sys/kernel/mm/memory_peers, /proc/driver/nvidia/version, kernel release",
    rule="A peer memory module is loaded, or the open driver runs on a kernel from 5.12 on (DMA-BUF).",
    source="NVIDIA/nccl#1676",
    cost="Data between nodes goes through host memory: 10 of 180 GB/s in NVIDIA/nccl#1676, 33 of 93 in #1412.",
    fix="sudo modprobe nvidia-peermem; echo nvidia-peermem | sudo tee /etc/modules-load.d/nvidia-peermem.conf",
    examine=_examine,
)
