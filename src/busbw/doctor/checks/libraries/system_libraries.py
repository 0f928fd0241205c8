"""Libraries of the driver and of RDMA, without which NCCL fails or falls back to TCP sockets."""

import re
from collections.abc import Iterator

from busbw.doctor.checks.libraries.nccl_library import installed_nccl
from busbw.doctor.facts.libraries import CUDA, NET_PLUGINS, VERBS, Libraries
from busbw.doctor.model import Evidence, Finding, Machine, Unreadable, check, require
from busbw.doctor.parts.gpus import require_gpus
from busbw.doctor.parts.traits import rdma_kinds

_DRIVER = "proc/driver/nvidia/version"
_SEARCH_PATH = "ldconfig -p and LD_LIBRARY_PATH"
_PROVIDER_FOLDER = "etc/libibverbs.d"
_PROVIDER_BY_KIND = {"efa": "efa", "infiniband": "mlx5", "roce": "mlx5"}
"""Drivers of libibverbs by the kind of the RDMA device."""
_PLUGIN_FOLDERS = tuple(
    f"opt/{root}/lib{folder}"
    for root in ("amazon/ofi-nccl", "aws-ofi-nccl")
    for folder in ("", "64", "/x86_64-linux-gnu", "/aarch64-linux-gnu")
)
"""Folders of Amazon's installer. Jobs often add these folders to LD_LIBRARY_PATH themselves."""


@check(
    reads="/proc/driver/nvidia/version; file name of libcuda.so.1",
    rule="libcuda.so.1 has the version of the kernel module, or is CUDA's compatibility library.",
    source="https://docs.nvidia.com/deploy/cuda-compatibility/",
    cost="CUDA and NVML end with `driver/library version mismatch`.",
    fix="after an update of the driver: sudo reboot, or unload and load its kernel modules",
)
def driver_cuda_compat(machine: Machine) -> Iterator[Finding]:
    require_gpus(machine)
    # The first line is such as "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5".
    module = re.search(r"Module.*?\s(\d{3,}\.[\d.]+)\s", machine.text(_DRIVER) + "\n")
    cuda = next((library for library in machine.fact(Libraries).find(CUDA) if library.version), None)
    # Jetson and WSL name the library after CUDA's interface, libcuda.so.1.1, which is no version of the driver.
    if not module or not cuda or not cuda.version or not re.match(r"\d{3,}\.", cuda.version):
        raise Unreadable("the versions of the driver's kernel module and of libcuda.so.1")
    evidence = (Evidence(cuda.path, cuda.version), Evidence(f"/{_DRIVER}", module[1]))
    if cuda.version != module[1] and "/compat/" not in cuda.path:
        problem = f"libcuda.so.1 has version {cuda.version}, the kernel module of the driver {module[1]}"
        yield Finding("broken", problem, evidence)


@check(
    reads=f"{VERBS} in the search path of the dynamic linker; names in /{_PROVIDER_FOLDER}",
    rule="If NCCL is installed, libibverbs and its drivers for the RDMA devices are installed too.",
    source="https://github.com/linux-rdma/rdma-core/blob/master/Documentation/libibverbs.md",
    cost="NCCL finds no RDMA device and uses TCP sockets between nodes.",
    fix="install rdma-core (libibverbs1 and ibverbs-providers) in the image, for EFA the EFA installer",
)
def rdma_core_version(machine: Machine) -> Iterator[Finding]:
    installed_nccl(machine)
    kinds = rdma_kinds(machine)
    require(kinds, "no RDMA device")
    if not machine.fact(Libraries).find(VERBS):
        evidence = Evidence(_SEARCH_PATH, f"no {VERBS}")
        yield Finding("slow", f"{VERBS} is not installed", (evidence,), subject=VERBS)
        return
    files = machine.names(_PROVIDER_FOLDER)
    for provider in sorted({_PROVIDER_BY_KIND[kind] for kind in kinds}):
        if f"{provider}.driver" not in files:
            evidence = Evidence(f"/{_PROVIDER_FOLDER}", ", ".join(files)[:120] or "no files")
            problem = f"libibverbs has no driver {provider}, so it finds no device"
            yield Finding("slow", problem, (evidence,), subject=provider)


@check(
    reads="EFA devices; libnccl-net*.so in the search path of the dynamic linker and in Amazon's folders",
    rule="A machine with EFA and NCCL has aws-ofi-nccl.",
    source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start-nccl.html",
    cost="NCCL uses TCP sockets between nodes, not EFA.",
    fix="install aws-ofi-nccl with the EFA installer, and add /opt/amazon/ofi-nccl/lib to LD_LIBRARY_PATH",
)
def efa_plugin(machine: Machine) -> Iterator[Finding]:
    nccl = installed_nccl(machine)
    require("efa" in rdma_kinds(machine), "no EFA device")
    if not machine.fact(Libraries).find(NET_PLUGINS) and not any(map(machine.names_or_empty, _PLUGIN_FOLDERS)):
        evidence = Evidence(_SEARCH_PATH, f"{nccl[0].path}, but no {NET_PLUGINS}")
        problem = "EFA devices are present, but NCCL finds no libnccl-net.so of aws-ofi-nccl"
        yield Finding("slow", problem, (evidence,))
