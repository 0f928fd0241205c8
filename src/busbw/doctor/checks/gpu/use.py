"""Other programs on the GPUs, and differences of firmware and memory mapping between them."""

from collections.abc import Iterator, Sequence

from busbw.doctor.facts.gpus import Gpu
from busbw.doctor.model.check import Finding
from busbw.doctor.parts.gpus import gpu_finding, nvml_check, odd_gpus

_MAX_USED_BYTES = 2 << 30
"""MPS, DCGM and persistence mode keep up to 1 GiB."""


def _judge_use(gpus: Sequence[Gpu]) -> Iterator[Finding]:
    for gpu in gpus:
        used_bytes = gpu.memory_used_bytes or 0
        if used_bytes > _MAX_USED_BYTES:
            problem = f"has {used_bytes / 2**30:.1f} GiB of its memory in use already"
            yield gpu_finding(gpu, "risk", problem, "memory_used_bytes", "processes", "utilization_percent")


def _judge_vbios(gpus: Sequence[Gpu]) -> Iterator[Finding]:
    for gpu, usual in odd_gpus(gpus, "vbios"):
        yield gpu_finding(gpu, "risk", f"has VBIOS {gpu.vbios}; the other GPUs have {usual}", "vbios")
    for gpu, usual in odd_gpus(gpus, "inforom"):
        yield gpu_finding(gpu, "risk", f"has InfoROM {gpu.inforom}; the other GPUs have {usual}", "inforom")


def _judge_bar1(gpus: Sequence[Gpu]) -> Iterator[Finding]:
    for gpu in gpus:
        bar1_bytes, memory_bytes = gpu.bar1_bytes or 0, gpu.memory_bytes or 0
        # GeForce cards have small windows by design. GPUs of an NVLink domain (Grace) need none.
        is_server = gpu.nvlinks is not None and gpu.nvlinks.to_switch and not (gpu.fabric and gpu.fabric.domain)
        if is_server and not gpu.mig and 0 < bar1_bytes < memory_bytes:
            problem = f"has a BAR1 window of {bar1_bytes >> 20} MiB for {memory_bytes >> 20} MiB of memory"
            yield gpu_finding(gpu, "risk", problem, "bar1_bytes", "memory_bytes")


CHECKS = (
    nvml_check(
        "gpu-memory-in-use",
        ("memory_used_bytes",),
        _judge_use,
        rule=f"At most {_MAX_USED_BYTES >> 30} GiB of memory are in use before a job starts.",
        source="https://github.com/facebookresearch/gcm",
        cost="A job that was left over shares SMs, NVLink and NICs: times vary, and up to half the bandwidth is lost.",
        fix="end the processes that nvidia-smi lists; check the epilog of the scheduler",
    ),
    nvml_check(
        "gpu-vbios-mixed",
        ("vbios",),
        _judge_vbios,
        rule="All GPUs of one model have the same VBIOS and InfoROM.",
        source="https://github.com/Azure/azurehpc-health-checks",
        cost="Unknown; other firmware may have other clocks, power limits or NVLink settings.",
        fix="update the firmware of the odd GPU to that of the others",
    ),
    nvml_check(
        "bar1-size",
        ("bar1_bytes", "memory_bytes"),
        _judge_bar1,
        rule="The BAR1 window of a server GPU covers all of its memory.",
        source="https://docs.nvidia.com/deploy/nvml-api/",
        cost="Peer access over PCIe and GPUDirect RDMA fail, or copy through host memory.",
        fix="enable Above 4G Decoding and Resizable BAR in the BIOS",
    ),
)
