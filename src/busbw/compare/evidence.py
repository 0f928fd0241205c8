"""Estimates the speed-up of one time at one point, with its uncertainty, from the strongest basis that the logs allow.

The bases are, in this order: `runs`, `iterations` (compared by stretches) and `means` (the printed figures). A stretch
is a range of consecutive iterations. A cycle is a pass of one run over all sizes (-N).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from busbw.compare.figures import PointFigures, have_device_times, program_time
from busbw.compare.result import Basis, PointKey, TimeQuantity
from busbw.statistics import stats
from busbw.statistics.run_variation import VARIATIONS

MIN_RUNS = 4
"""Minimum number of runs per side for a verdict from the runs' own variation. Cycles of one run count as one run.

A run can start in a fast or a slow state. With three runs per side it happens too often that all runs of A are in one
state and all runs of B in the other (docs/explanation/comparison.md)."""
_MIN_RUNS_FOR_INTERVAL = 3
"""Minimum number of runs per side for an interval over runs. An interval from two runs is too wide to decide."""

VariationLimits = tuple[tuple[float, float], ...]
"""Run-to-run variation by size: (largest size in bytes, relative difference up to this size), smallest size first."""
_DEFAULT_VARIATION: VariationLimits = ((8 << 10, 0.20), (1 << 20, 0.10))
"""Run-to-run variation of device times, and of times with an unknown launch mode: 20 % up to 8 KiB, 10 % up to 1 MiB.

docs/explanation/comparison.md has the source; `statistics.run_variation` has the variation of times that include
launching. For larger sizes only the resolution is used."""
_MAX_HALF_WIDTH = math.log(1000)
"""Maximum half-width of an interval, as a logarithm: a factor of 1000. Wider intervals are not shown."""
_PRINTED_QUANTITIES: tuple[TimeQuantity, ...] = ("time_us", "algbw_gbps", "busbw_gbps")
"""Figures that logs print. Without samples the most precise one is compared."""


@dataclass(frozen=True)
class TimeComparison:
    """One kind of time at one point, with the figures of both sides."""

    point: PointKey
    a: PointFigures
    b: PointFigures
    is_device: bool
    """True for the device time, false for the time that a program spends."""

    @property
    def run_variation(self) -> VariationLimits:
        """Run-to-run variation: the maximum over the launch modes of both sides."""
        launch_modes = self.a.launch_modes | self.b.launch_modes
        if self.is_device or not launch_modes:
            return _DEFAULT_VARIATION
        max_factor, up_to_bytes = max((VARIATIONS[mode].factor, VARIATIONS[mode].up_to_bytes) for mode in launch_modes)
        return ((up_to_bytes, round(max_factor - 1, 9)),)  # 1.8 - 1 is 0.8, without a rounding error in messages


@dataclass(frozen=True)
class Evidence:
    """Speed-up of one compared time and its uncertainty, without regard to the neighboring sizes."""

    basis: Basis
    speedup: float | None
    interval: stats.Interval | None
    """Interval of the logarithm of the speed-up. None for the basis `means`, or if it is too wide."""
    rounding: tuple[float, float] | None
    """Bounds of the speed-up from rounding of the printed digits. Only for the basis `means`."""
    compared: TimeQuantity = "median_us"
    needs_variation_threshold: bool = True
    """True if a change must exceed the threshold, because the runs are too few to show their variation."""
    spread: float = 0.0
    """Relative spread of the iterations of the side that varies more. 0 without samples, and for the basis `runs`."""
    missing_reason: str = ""
    """Reason for a missing speed-up."""


def find_evidence(comparison: TimeComparison, alpha: float) -> Evidence:
    """Estimates the speed-up by the strongest basis: runs, then iterations, then printed figures."""
    quantity: TimeQuantity = "device_time_us" if comparison.is_device else program_time(comparison.a, comparison.b)
    if evidence := _evidence_from_runs(comparison, quantity, alpha):
        return evidence
    # `program_time` returns "time_us" only if samples are missing or exclude the launch time.
    samples_describe_quantity = quantity != "time_us"
    if samples_describe_quantity and (evidence := _evidence_from_iterations(comparison, quantity, alpha)):
        return evidence
    # Logs with device times print the device time and `time_us`, so each is compared by its own figures. No log prints
    # the median.
    is_printed = quantity != "median_us" and have_device_times(comparison.a, comparison.b)
    evidence = _evidence_from_means(comparison.a, comparison.b, (quantity,) if is_printed else _PRINTED_QUANTITIES)
    return replace(evidence, spread=max(_iteration_spread(comparison, side) for side in (comparison.a, comparison.b)))


def _iteration_spread(comparison: TimeComparison, side: PointFigures) -> float:
    """Relative spread of a side's iterations. 0 without samples of the compared time."""
    have_samples = side.are_sampled if comparison.is_device else side.have_program_samples
    return math.expm1(stats.log_quartile_range(side.slowest_us)) if have_samples else 0.0


def _evidence_from_runs(comparison: TimeComparison, quantity: TimeQuantity, alpha: float) -> Evidence | None:
    """Compares the runs of both sides. None if a side has too few runs or a time is missing."""
    runs = min(comparison.a.run_count, comparison.b.run_count)
    if runs < _MIN_RUNS_FOR_INTERVAL:
        return None
    times_a, times_b = comparison.a.median_per_run(quantity), comparison.b.median_per_run(quantity)
    if not times_a or not times_b:
        return None
    rounding_error = _rounding_error(comparison, quantity)
    interval = stats.mean_difference(
        stats.run_summary(times_a, rounding_error), stats.run_summary(times_b, rounding_error), alpha=alpha
    )
    return Evidence(
        basis="runs",
        speedup=math.exp(interval.estimate),
        interval=_drop_wide_interval(interval),
        rounding=None,
        compared=quantity,
        needs_variation_threshold=runs < MIN_RUNS,
    )


def _evidence_from_iterations(comparison: TimeComparison, quantity: TimeQuantity, alpha: float) -> Evidence | None:
    """Compares the iterations of both sides by stretches. None if a side has too few samples."""
    # The iterations of all runs and cycles of a side are concatenated.
    iterations_a, iterations_b = (
        stats.stretch_summary(side.slowest_us) if side.are_sampled else None for side in (comparison.a, comparison.b)
    )
    if not iterations_a or not iterations_b:
        return None
    interval = stats.mean_difference(iterations_a, iterations_b, alpha=alpha)
    if comparison.is_device:
        interval = _center_on_device_times(interval, comparison)
    return Evidence(
        basis="iterations",
        speedup=math.exp(interval.estimate),
        interval=_drop_wide_interval(interval),
        rounding=None,
        compared=quantity,
        spread=math.expm1(max(iterations_a.spread, iterations_b.spread)),
    )


def _center_on_device_times(interval: stats.Interval, comparison: TimeComparison) -> stats.Interval:
    """Moves the interval of the samples to the ratio of the device times.

    The device times are assumed to vary no more than the samples.
    """
    a_us, b_us = (median(side.known_values("device_time_us")) for side in (comparison.a, comparison.b))
    estimate = math.log(a_us / b_us)
    shift = estimate - interval.estimate
    return stats.Interval(estimate, interval.low + shift, interval.high + shift)


def _drop_wide_interval(interval: stats.Interval) -> stats.Interval | None:
    return interval if interval.high - interval.estimate < _MAX_HALF_WIDTH else None


def _rounding_error(comparison: TimeComparison, quantity: TimeQuantity) -> float:
    """Half of one unit in the last printed place, in the unit of the quantity: 0.005 for figures such as 1.23 and 1.2.

    Reading drops trailing zeros, so the figure with the most digits decides.
    """
    values = {*comparison.a.positive_values(quantity), *comparison.b.positive_values(quantity)}
    return min(map(stats.half_digit, values))


def _evidence_from_means(a: PointFigures, b: PointFigures, quantities: Sequence[TimeQuantity]) -> Evidence:
    """Returns the speed-up by the quantity that both sides print most precisely, with its rounding bounds."""
    candidates = [evidence for quantity in quantities if (evidence := _evidence_from_quantity(a, b, quantity))]
    if not candidates:
        reason = "both sides print no common time or bandwidth that exceeds half of its last digit"
        return Evidence(basis="means", speedup=None, interval=None, rounding=None, missing_reason=reason)
    return min(candidates, key=_rounding_width)


def _evidence_from_quantity(a: PointFigures, b: PointFigures, quantity: TimeQuantity) -> Evidence | None:
    """Returns the speed-up by one printed quantity. None if a side lacks it, or if rounding may have made it zero."""
    value_a, value_b = a.printed_median(quantity), b.printed_median(quantity)
    if not value_a or not value_b:
        return None
    # The speed-up is time of A over time of B, or bandwidth of B over bandwidth of A.
    is_time = quantity.endswith("_us")
    numerator, denominator = (value_a, value_b) if is_time else (value_b, value_a)
    above, below = (a, b) if is_time else (b, a)
    numerator_low, numerator_high = above.printed_bounds(quantity)
    denominator_low, denominator_high = below.printed_bounds(quantity)
    if numerator_low <= 0 or denominator_low <= 0:
        return None
    low, high = numerator_low / denominator_high, numerator_high / denominator_low
    if low == 0 or math.isinf(high):
        return None  # the ratio over- or underflows
    return Evidence(
        basis="means", speedup=numerator / denominator, interval=None, rounding=(low, high), compared=quantity
    )


def _rounding_width(evidence: Evidence) -> float:
    assert evidence.rounding is not None
    low, high = evidence.rounding
    return math.log(high / low)
