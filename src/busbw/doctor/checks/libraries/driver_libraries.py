"""Libraries of the driver: the same version as the kernel module, and not empty."""

import re
from collections.abc import Iterator

from busbw.doctor.facts.libraries import CUDA, NVML, Libraries
from busbw.doctor.model.check import Check, Evidence, Finding, Unreadable
from busbw.doctor.model.machine import Machine
from busbw.doctor.parts.gpus import require_gpus

_DRIVER = "proc/driver/nvidia/version"


def _examine(machine: Machine) -> Iterator[Finding]:
    require_gpus(machine)
    module = re.search(r"Module.*?\s(\d{3,}\.[\d.]+)\s", machine.text(_DRIVER) + "\n")
    libraries = machine.fact(Libraries)
    cuda = next((each for each in libraries.find(CUDA) if each.version), None)
    if not module or not cuda or not cuda.version:
        raise Unreadable("the versions of the driver's kernel module and of libcuda.so.1")
    evidence = (Evidence(source=cuda.path, value=cuda.version), Evidence(source=f"/{_DRIVER}", value=module[1]))
    if cuda.version != module[1] and "/compat/" not in cuda.path:
        problem = f"libcuda.so.1 has version {cuda.version}, the kernel module of the driver {module[1]}"
        yield Finding(severity="broken", problem=problem, evidence=evidence)


def _examine_empty(machine: Machine) -> Iterator[Finding]:
    require_gpus(machine)
    libraries = [each for name in (CUDA, NVML) for each in machine.fact(Libraries).find(name)[:1]]
    if not libraries:
        raise Unreadable("libcuda.so.1 and libnvidia-ml.so.1 in the search path of the dynamic linker")
    for library in libraries:
        if library.size_bytes == 0:
            yield Finding(
                severity="broken",
                subject=library.name,
                problem=f"{library.name} is empty",
                evidence=(Evidence(source=library.path, value="0 bytes"),),
            )


CHECKS = (
    Check(
        name="driver-cuda-compat",
        area="libraries",
        reads="/proc/driver/nvidia/version; file name of libcuda.so.1",
        rule="libcuda.so.1 has the version of the kernel module, or is CUDA's compatibility library.",
        source="https://docs.nvidia.com/deploy/cuda-compatibility/",
        cost="CUDA and NVML end with `driver/library version mismatch`.",
        fix="reboot, or unload and load the modules of the driver, after an update of the driver",
        examine=_examine,
    ),
    Check(
        name="libnvidia-empty",
        area="libraries",
        reads="size of libcuda.so.1 and libnvidia-ml.so.1",
        rule="The libraries of the driver are not empty.",
        source="nebius/soperator#2684",
        cost="Jobs cannot initialize CUDA or NVML on this node.",
        fix="mount the driver's libraries into the container again, or install the driver again",
        examine=_examine_empty,
    ),
)
