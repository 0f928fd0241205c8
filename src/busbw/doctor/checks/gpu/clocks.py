"""Clocks of GPUs: reasons that lower them now, limits, and temperature."""

from collections.abc import Iterator, Sequence

from busbw.doctor.facts.gpus import Gpu
from busbw.doctor.model.check import Finding
from busbw.doctor.parts.gpus import gpu_finding, nvml_check, odd_gpus

_REASONS = {0x8: "hardware slowdown", 0x20: "software thermal slowdown", 0x40: "overheating", 0x80: "power brake"}
"""Bits of nvmlClocksEventReasons. Idle, applications clocks and the power cap are normal, so they are missing here."""
_MIN_MARGIN_C = 3
_POWER_TOLERANCE = 0.05


def _judge_reasons(gpus: Sequence[Gpu]) -> Iterator[Finding]:
    for gpu in gpus:
        if reasons := [text for bit, text in _REASONS.items() if (gpu.event_reasons or 0) & bit]:
            yield gpu_finding(gpu, "slow", f"is throttled: {', '.join(reasons)}", "event_reasons", "sm_clock_mhz")


def _judge_caps(gpus: Sequence[Gpu]) -> Iterator[Finding]:
    usual_clocks, usual_limits = (
        {gpu.index: usual for gpu, usual in odd_gpus(gpus, field)} for field in ("max_sm_clock_mhz", "power_limit_w")
    )
    for gpu in gpus:
        limit_w, usual_w = gpu.power_limit_w or 0.0, usual_limits.get(gpu.index, 0.0)
        clock, default = gpu.applications_clock_mhz, gpu.default_clock_mhz
        usual = usual_clocks.get(gpu.index)
        if usual is not None:
            problem = f"has a maximum clock of {gpu.max_sm_clock_mhz} MHz; the other GPUs have {usual} MHz"
            yield gpu_finding(gpu, "slow", problem, "max_sm_clock_mhz")
        elif limit_w < usual_w * (1 - _POWER_TOLERANCE):
            problem = f"has a power limit of {limit_w:g} W; the other GPUs have {usual_w:g} W"
            yield gpu_finding(gpu, "slow", problem, "power_limit_w")
        elif clock is not None and default is not None and clock < default:
            problem = f"has applications clocks of {clock} MHz instead of {default} MHz"
            yield gpu_finding(gpu, "risk", problem, "applications_clock_mhz", fix="nvidia-smi -rac")


def _judge_temperature(gpus: Sequence[Gpu]) -> Iterator[Finding]:
    for gpu in gpus:
        if (gpu.thermal_margin_c or 0) <= _MIN_MARGIN_C:
            problem = f"has {gpu.thermal_margin_c} °C left to the temperature at which it slows down"
            yield gpu_finding(gpu, "risk", problem, "thermal_margin_c", "temperature_c")


CHECKS = (
    nvml_check(
        "gpu-throttle-now",
        ("event_reasons",),
        _judge_reasons,
        rule="Neither heat nor hardware lowers the clocks. Idle clocks and the power cap are normal.",
        source="https://github.com/Azure/azurehpc-health-checks",
        cost="A hardware slowdown at least halves the clocks; the slowest GPU sets the rate of a ring.",
        fix="check cooling, power supplies and power cables of the GPU",
    ),
    nvml_check(
        "gpu-clock-cap",
        ("max_sm_clock_mhz", "power_limit_w"),
        _judge_caps,
        rule="All GPUs of one model have the same maximum clock and power limit; applications clocks are not lowered.",
        source="https://github.com/facebookresearch/gcm",
        cost="Small sizes slow down as the clock does; the slowest GPU sets the rate of a ring.",
        fix="nvidia-smi -rgc; nvidia-smi -pl DEFAULT_LIMIT",
    ),
    nvml_check(
        "gpu-temperature",
        ("thermal_margin_c",),
        _judge_temperature,
        rule=f"The temperature is more than {_MIN_MARGIN_C} °C below the GPU's own slowdown temperature.",
        source="https://github.com/scitix/sichek",
        cost="None until the GPU slows down; then see gpu-throttle-now.",
        fix="check fans, water flow and inlet temperature",
    ),
)
