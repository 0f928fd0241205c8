"""CUDA's library of the driver, which must have the version of the kernel module."""

import re
from collections.abc import Iterator

from busbw.doctor.facts.libraries import CUDA, Libraries
from busbw.doctor.model import Evidence, Finding, Machine, Unreadable, check
from busbw.doctor.parts.gpus import require_gpus

_DRIVER = "proc/driver/nvidia/version"


@check(
    reads="/proc/driver/nvidia/version; file name of libcuda.so.1",
    rule="libcuda.so.1 has the version of the kernel module, or is CUDA's compatibility library.",
    source="https://docs.nvidia.com/deploy/cuda-compatibility/",
    cost="CUDA and NVML end with `driver/library version mismatch`.",
    fix="after an update of the driver: sudo reboot, or unload and load its kernel modules",
)
def driver_cuda_compat(machine: Machine) -> Iterator[Finding]:
    require_gpus(machine)
    module = re.search(r"Module.*?\s(\d{3,}\.[\d.]+)\s", machine.text(_DRIVER) + "\n")
    cuda = next((each for each in machine.fact(Libraries).find(CUDA) if each.version), None)
    # Jetson and WSL name the library after CUDA's interface: libcuda.so.1.1.
    if not module or not cuda or not cuda.version or not re.match(r"\d{3,}\.", cuda.version):
        raise Unreadable("the versions of the driver's kernel module and of libcuda.so.1")
    evidence = (Evidence(cuda.path, cuda.version), Evidence(f"/{_DRIVER}", module[1]))
    if cuda.version != module[1] and "/compat/" not in cuda.path:
        problem = f"libcuda.so.1 has version {cuda.version}, the kernel module of the driver {module[1]}"
        yield Finding("broken", problem, evidence)
