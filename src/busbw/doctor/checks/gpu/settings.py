"""Settings and use of GPUs that make jobs with several GPUs slow."""

from collections.abc import Iterator, Sequence

from busbw.doctor.facts.gpus import Gpu
from busbw.doctor.model import Finding, Machine, Severity, check
from busbw.doctor.parts.gpus import gpu_finding, odd_gpus, require_fields
from busbw.doctor.parts.job import is_virtual
from busbw.doctor.parts.pci import CLASS_3D, DEVICES

_MAX_USED_BYTES = 2 << 30
"""Memory that may be in use without a finding. MPS, DCGM and persistence mode keep up to 1 GiB."""
_TOLERANCE = 0.05
"""A limit that is lower than the usual one by at most this share is no finding."""
_LIMITS: tuple[tuple[str, Severity, str, str, str], ...] = (
    ("max_sm_clock_mhz", "slow", "a maximum clock", "MHz", "sudo nvidia-smi -i INDEX -rgc"),
    ("power_limit_w", "slow", "a power limit", "W", "sudo nvidia-smi -i INDEX -pl {usual:g}"),
    ("applications_clock_mhz", "risk", "applications clocks", "MHz", "sudo nvidia-smi -i INDEX -rac"),
)
"""Field of the limit, severity of a lower limit than on most GPUs, title, unit and fix."""


@check(
    reads="NVML: mig",
    rule="MIG is off on the GPUs of a job with several GPUs.",
    source="https://docs.nvidia.com/datacenter/tesla/mig-user-guide/",
    cost="MIG instances have no peer access, so data between GPUs takes the path through host memory.",
    fix="drain the node, then sudo nvidia-smi -i INDEX -mig 0 && sudo nvidia-smi --gpu-reset -i INDEX",
)
@require_fields("mig")
def gpu_mig(_: Machine, gpus: Sequence[Gpu]) -> Iterator[Finding]:
    if len(gpus) == 1:
        return
    divided = [gpu for gpu in gpus if gpu.mig]
    # A node with MIG on all GPUs is divided on purpose.
    severity: Severity = "risk" if len(divided) == len(gpus) else "slow"
    for gpu in divided:
        yield gpu_finding(gpu, severity, "is divided by MIG, so it has no NVLink peers", "mig")


@check(
    reads="NVML: persistence; class in /sys/bus/pci/devices; the kernel's clock sources",
    rule="Persistence mode is on, except on cards for displays and in virtual machines.",
    source="https://docs.nvidia.com/deploy/driver-persistence/",
    cost="The driver initializes the GPU again for each job, which adds 1 to 3 s per process to its start.",
    fix="sudo systemctl enable --now nvidia-persistenced",
)
@require_fields("persistence")
def gpu_persistence(machine: Machine, gpus: Sequence[Gpu]) -> Iterator[Finding]:
    for gpu in gpus:
        # A desktop keeps the card of its display initialized, and virtual machines may report a wrong mode.
        if not _is_display(machine, gpu) and not gpu.persistence and not is_virtual(machine):
            yield gpu_finding(gpu, "risk", "has persistence mode off", "persistence")


def _is_display(machine: Machine, gpu: Gpu) -> bool:
    """True if a GPU can have a monitor. GPUs of servers cannot."""
    return not (machine.text_or_none(f"{DEVICES}/{gpu.bus_id}/class") or "").startswith(CLASS_3D)


@check(
    reads="NVML: memory_used_bytes; processes; class in /sys/bus/pci/devices",
    rule=f"At most {_MAX_USED_BYTES >> 30} GiB of memory are in use before a job starts, except by a desktop.",
    source="https://github.com/facebookresearch/gcm",
    cost="A job that was left over shares SMs, NVLink and NICs: times vary, and up to half the bandwidth is lost.",
    fix="nvidia-smi -i INDEX --query-compute-apps=pid,name --format=csv; end them, also in the epilog of jobs",
)
@require_fields("memory_used_bytes")
def gpu_memory_in_use(machine: Machine, gpus: Sequence[Gpu]) -> Iterator[Finding]:
    for gpu in gpus:
        used_bytes = gpu.memory_used_bytes or 0
        # A desktop (Xorg, compositor, browser) uses memory of the GPU of its display, but does not compute.
        is_desktop = _is_display(machine, gpu) and gpu.processes == 0
        if used_bytes > _MAX_USED_BYTES and not is_desktop:
            problem = f"has {used_bytes / 2**30:.1f} GiB of its memory in use already"
            yield gpu_finding(gpu, "risk", problem, "memory_used_bytes", "processes")


@check(
    reads="NVML: max_sm_clock_mhz, power_limit_w; applications_clock_mhz",
    rule="No GPU has a lower maximum clock, power limit or applications clock than most others of its model.",
    source="https://github.com/facebookresearch/gcm",
    cost="Small sizes slow down as the clock does; the slowest GPU sets the rate of a ring.",
    fix="sudo nvidia-smi -i INDEX -rgc, -rac or -pl WATTS",
)
@require_fields("max_sm_clock_mhz", "power_limit_w")
def gpu_clock_cap(_: Machine, gpus: Sequence[Gpu]) -> Iterator[Finding]:
    for field, severity, title, unit, fix in _LIMITS:
        for gpu, usual in odd_gpus(gpus, field):
            limit = getattr(gpu, field)
            if limit < usual * (1 - _TOLERANCE):
                problem = f"has {title} of {limit:g} {unit}; the other GPUs have {usual:g} {unit}"
                yield gpu_finding(gpu, severity, problem, field, fix=fix.format(usual=usual))
