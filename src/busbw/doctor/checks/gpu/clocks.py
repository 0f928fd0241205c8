"""Limits of clocks and power."""

from collections.abc import Iterator, Sequence

from busbw.doctor.facts.gpus import Gpu
from busbw.doctor.model import Finding, Machine, Severity, check
from busbw.doctor.parts.gpus import gpu_finding, judges, odd_gpus

_TOLERANCE = 0.05
_LIMITS: tuple[tuple[str, Severity, str, str, str], ...] = (
    ("max_sm_clock_mhz", "slow", "a maximum clock", "MHz", "sudo nvidia-smi -i INDEX -rgc"),
    ("power_limit_w", "slow", "a power limit", "W", "sudo nvidia-smi -i INDEX -pl {usual:g}"),
    ("applications_clock_mhz", "risk", "applications clocks", "MHz", "sudo nvidia-smi -i INDEX -rac"),
)


@check(
    reads="NVML: max_sm_clock_mhz, power_limit_w; applications_clock_mhz",
    rule="No GPU has a lower maximum clock, power limit or applications clock than most others of its model.",
    source="https://github.com/facebookresearch/gcm",
    cost="Small sizes slow down as the clock does; the slowest GPU sets the rate of a ring.",
    fix="sudo nvidia-smi -i INDEX -rgc, -rac or -pl WATTS",
)
@judges("max_sm_clock_mhz", "power_limit_w")
def gpu_clock_cap(_: Machine, gpus: Sequence[Gpu]) -> Iterator[Finding]:
    for field, severity, text, unit, fix in _LIMITS:
        for gpu, usual in odd_gpus(gpus, field):
            limit = getattr(gpu, field)
            if limit < usual * (1 - _TOLERANCE):
                problem = f"has {text} of {limit:g} {unit}; the other GPUs have {usual:g} {unit}"
                yield gpu_finding(gpu, severity, problem, field, fix=fix.format(usual=usual))
