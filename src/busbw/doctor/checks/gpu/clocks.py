"""Clocks of GPUs: reasons that lower them now, and limits."""

from collections.abc import Iterator, Sequence

from busbw.doctor.facts.gpus import Gpu
from busbw.doctor.model.check import Finding, Severity
from busbw.doctor.model.machine import Machine
from busbw.doctor.parts.gpus import gpu_finding, nvml_check, odd_gpus

_REASONS = {0x8: "hardware slowdown", 0x20: "software thermal slowdown", 0x40: "overheating", 0x80: "power brake"}
"""Bits of nvmlClocksEventReasons. Idle, applications clocks and the power cap are normal, so they are missing here."""
_TOLERANCE = 0.05
_LIMITS: tuple[tuple[str, Severity, str, str, str], ...] = (
    ("max_sm_clock_mhz", "slow", "a maximum clock", "MHz", "nvidia-smi -rgc"),
    ("power_limit_w", "slow", "a power limit", "W", "nvidia-smi -pl DEFAULT_LIMIT"),
    ("applications_clock_mhz", "risk", "applications clocks", "MHz", "nvidia-smi -rac"),
)


@nvml_check(
    "event_reasons",
    rule="Neither heat nor hardware lowers the clocks. Idle clocks and the power cap are normal.",
    source="https://github.com/Azure/azurehpc-health-checks",
    cost="A hardware slowdown at least halves the clocks; the slowest GPU sets the rate of a ring.",
    fix="check cooling, power supplies and power cables of the GPU",
)
def gpu_throttle_now(_: Machine, gpus: Sequence[Gpu]) -> Iterator[Finding]:
    for gpu in gpus:
        if reasons := [text for bit, text in _REASONS.items() if (gpu.event_reasons or 0) & bit]:
            yield gpu_finding(gpu, "slow", f"is throttled: {', '.join(reasons)}", "event_reasons", "sm_clock_mhz")


@nvml_check(
    "max_sm_clock_mhz",
    "power_limit_w",
    rule="No GPU has a lower maximum clock, power limit or applications clock than most others of its model.",
    source="https://github.com/facebookresearch/gcm",
    cost="Small sizes slow down as the clock does; the slowest GPU sets the rate of a ring.",
    fix="nvidia-smi -rgc; nvidia-smi -rac; nvidia-smi -pl DEFAULT_LIMIT",
    also="applications_clock_mhz",
)
def gpu_clock_cap(_: Machine, gpus: Sequence[Gpu]) -> Iterator[Finding]:
    for field, severity, text, unit, fix in _LIMITS:
        for gpu, usual in odd_gpus(gpus, field):
            limit = getattr(gpu, field)
            if limit < usual * (1 - _TOLERANCE):
                problem = f"has {text} of {limit:g} {unit}; the other GPUs have {usual:g} {unit}"
                yield gpu_finding(gpu, severity, problem, field, fix=fix)
