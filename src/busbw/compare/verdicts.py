"""Decides FASTER, SLOWER, SAME or UNCLEAR for each point that two logs have in common.

A point is one size of one configuration, with one or two times: device time and program time. For each time,
`judge_points` finds these facts, from which `_decide_verdict` decides:

1. the evidence (`_find_evidence`): the speed-up with an interval, from the strongest basis that the logs allow,
2. the threshold (`_change_threshold`): the relative change that must be exceeded if a side has few runs,
3. the direction of the change (`_find_direction`), which a neighboring size must confirm.

With MIN_RUNS runs per side the interval alone decides: even a change below the resolution is FASTER or SLOWER.

Run-to-run variation is the chance difference between two runs of the same command. Few runs cannot show it, so the
threshold includes a value from earlier measurements.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median

import msgspec

from busbw.compare.figures import side_figures
from busbw.compare.pairing import Observation, adjacent_sizes
from busbw.compare.quantities import have_device_times, program_time, value_of
from busbw.compare.result import Basis, ChangeVerdict, PointKey, SizeResult, TimeQuantity, change_text
from busbw.logs import Figure
from busbw.statistics import stats
from busbw.statistics.run_variation import VARIATIONS
from busbw.units import size_text

FAMILY_ALPHA = 0.01
"""Probability that at least one interval excludes 1 although no time has changed. All times share it equally."""
MIN_RUNS = 4
"""Minimum number of runs per side for a verdict from the runs' own variation. Cycles of one run count as one run.

A run can start in a fast or a slow state. With three runs per side it happens too often that all runs of A are in one
state and all runs of B in the other (docs/explanation/comparison.md)."""
_MIN_RUNS_FOR_INTERVAL = 3
"""Minimum number of runs per side for an interval over runs. An interval from two runs is too wide to decide."""

_VariationLimits = tuple[tuple[float, float], ...]
"""Run-to-run variation by size: (largest size in bytes, relative difference up to this size), smallest size first."""
_DEFAULT_VARIATION: _VariationLimits = ((8 << 10, 0.20), (1 << 20, 0.10))
"""Run-to-run variation of device times, and of times with an unknown launch mode: 20 % up to 8 KiB, 10 % up to 1 MiB.

docs/explanation/comparison.md has the source; `statistics.run_variation` has the variation of times that include
launching. For larger sizes only the resolution counts."""

_MAX_HALF_WIDTH = math.log(1000)
"""Maximum half-width of an interval, as a logarithm: a factor of 1000. Wider intervals are not shown."""

_PRINTED_QUANTITIES: tuple[TimeQuantity, ...] = ("time_us", "algbw_gbps", "busbw_gbps")
"""Figures that logs print. Without samples the most precise one is compared."""


_Observations = list[Observation]


@dataclass(frozen=True)
class _TimeComparison:
    """One kind of time at one point, with the observations of both sides."""

    point: PointKey
    a: _Observations
    b: _Observations
    is_device: bool
    """True for the device time, false for the time that a program spends."""

    @property
    def run_variation(self) -> _VariationLimits:
        """Run-to-run variation: the maximum over the launch modes of both sides."""
        launch_modes = {observation.launch_mode for observation in (*self.a, *self.b) if observation.launch_mode}
        if self.is_device or not launch_modes:
            return _DEFAULT_VARIATION
        largest_factor, up_to_bytes = max(
            (VARIATIONS[mode].factor, VARIATIONS[mode].up_to_bytes or math.inf) for mode in launch_modes
        )
        return ((up_to_bytes, round(largest_factor - 1, 9)),)

    @property
    def figures(self) -> list[Figure]:
        """Figures of both sides."""
        return [observation.figure for observation in (*self.a, *self.b)]


@dataclass(frozen=True)
class _Evidence:
    """Speed-up of one compared time and its uncertainty, without regard to the neighboring sizes."""

    basis: Basis
    speedup: float | None
    interval: stats.Interval | None
    """Interval of the logarithm of the speed-up. None for single figures, or if it is too wide."""
    rounding: tuple[float, float] | None
    """Bounds of the speed-up from rounding of the printed digits. Only for the basis `means`."""
    compared: TimeQuantity = "median_us"
    needs_variation_threshold: bool = True
    """True if a change counts only beyond the threshold, because the runs are too few to show their variation."""
    spread: float = 0.0
    """Relative spread of the iterations of the side that varies more. Only for the basis `iterations`."""
    missing_reason: str = ""
    """Reason for a missing speed-up."""


def judge_points(
    points: Sequence[PointKey],
    sides: Sequence[tuple[list[Observation], list[Observation]]],
    *,
    resolution: float,
    has_claims: bool = False,
) -> list[SizeResult]:
    """Returns one result per point, or two if both sides have device times: device time and program time.

    Args:
        points: Points that both sides have.
        sides: Observations of A and B for each point.
        resolution: Largest relative difference that is SAME, and minimum of the threshold with few runs.
        has_claims: True if the speed-ups that B's rows state are relative to this A.
    """
    comparisons = _list_comparisons(points, sides)
    alpha = FAMILY_ALPHA / max(1, len(comparisons))
    all_evidence = [_find_evidence(comparison, alpha) for comparison in comparisons]
    thresholds = [
        _change_threshold(comparison, evidence, resolution)
        for comparison, evidence in zip(comparisons, all_evidence, strict=True)
    ]
    directions = [
        _find_direction(evidence, threshold) for evidence, threshold in zip(all_evidence, thresholds, strict=True)
    ]
    confirmed, without_neighbors = _compare_neighbors(comparisons, directions)
    claims = [_claimed_speedup(comparison.b) if has_claims else None for comparison in comparisons]
    decimals = max((_decimal_count(claim) for claim in claims if claim is not None), default=0)
    results = []
    for index, (evidence, comparison) in enumerate(zip(all_evidence, comparisons, strict=True)):
        verdict, reason = _decide_verdict(
            evidence,
            directions[index],
            resolution,
            thresholds[index],
            is_confirmed=index in confirmed,
            has_neighbors=index not in without_neighbors,
        )
        claim = claims[index]
        results.append(
            SizeResult(
                point=comparison.point,
                a=side_figures([observation.figure for observation in comparison.a], runs=run_count(comparison.a)),
                b=side_figures([observation.figure for observation in comparison.b], runs=run_count(comparison.b)),
                speedup=evidence.speedup,
                interval=_ratios_from_logarithms(evidence.interval),
                rounding=evidence.rounding,
                compared=evidence.compared,
                basis=evidence.basis,
                verdict=verdict,
                reason=reason,
                threshold=thresholds[index] if evidence.needs_variation_threshold else None,
                claimed_speedup=claim,
                claim_agrees=None if claim is None else _is_claim_consistent(claim, decimals, evidence),
            )
        )
    return results


def _list_comparisons(
    points: Sequence[PointKey], sides: Sequence[tuple[_Observations, _Observations]]
) -> list[_TimeComparison]:
    """Lists the times to compare. For each configuration: the device times of all sizes, then the program times."""
    comparisons: list[_TimeComparison] = []
    pairs = zip(points, sides, strict=True)
    for _, configuration in groupby(pairs, key=lambda pair: msgspec.structs.replace(pair[0], size_bytes=0)):
        program_comparisons = [_TimeComparison(point, a, b, is_device=False) for point, (a, b) in configuration]
        comparisons += [
            _TimeComparison(comparison.point, comparison.a, comparison.b, is_device=True)
            for comparison in program_comparisons
            if have_device_times(comparison.figures)
        ]
        comparisons += program_comparisons
    return comparisons


def thresholds_text(
    points: Sequence[PointKey], sides: Sequence[tuple[_Observations, _Observations]], resolution: float
) -> str:
    """Text of the thresholds with few runs per side: "20 % up to 8 KiB, ... and 5 % above"."""
    comparisons = _list_comparisons(points, sides)
    device = dict.fromkeys(
        _threshold_text(comparison.run_variation, resolution) for comparison in comparisons if comparison.is_device
    )
    program = dict.fromkeys(
        _threshold_text(comparison.run_variation, resolution) for comparison in comparisons if not comparison.is_device
    )
    return f"{' or '.join(device)} (device time), {' or '.join(program)} (time)" if device else " or ".join(program)


def _threshold_text(variation: _VariationLimits, resolution: float) -> str:
    if math.isinf(variation[0][0]):  # only the host backend has one value for all sizes
        return f"{change_text(variation[0][1])} (host backend)"
    texts = [
        f"{change_text(change)} up to {size_text(int(size_bytes))}"
        for size_bytes, change in variation
        if change > resolution
    ]
    resolution_text = change_text(resolution)
    return f"{', '.join(texts)} and {resolution_text} above" if texts else resolution_text


def _change_threshold(comparison: _TimeComparison, evidence: _Evidence, resolution: float) -> float:
    """Returns the relative change that a change must exceed if a side has few runs.

    It is the largest of resolution, run-to-run variation and spread of the iterations: large variation within a run
    suggests large variation between runs. With MIN_RUNS runs it is the resolution, and the direction ignores it.
    """
    if not evidence.needs_variation_threshold:
        return resolution
    variations = (
        variation for up_to_bytes, variation in comparison.run_variation if comparison.point.size_bytes <= up_to_bytes
    )
    return max(resolution, next(variations, 0.0), evidence.spread)


def _find_evidence(comparison: _TimeComparison, alpha: float) -> _Evidence:
    """Estimates the speed-up by the strongest basis: runs, then stretches of iterations, then single figures."""
    quantity: TimeQuantity = "device_time_us" if comparison.is_device else program_time(comparison.figures)
    evidence = _evidence_from_runs(comparison, quantity, alpha)
    if evidence is None and quantity != "time_us":  # samples do not describe `time_us`, see `program_time`
        evidence = _evidence_from_iterations(comparison, quantity, alpha)
    if evidence is None:
        is_stated = quantity != "median_us" and have_device_times(comparison.figures)
        quantities = (quantity,) if is_stated else _PRINTED_QUANTITIES
        evidence = _evidence_from_means(comparison.a, comparison.b, quantities)
    return evidence


def _evidence_from_runs(comparison: _TimeComparison, quantity: TimeQuantity, alpha: float) -> _Evidence | None:
    """Compares the runs of both sides. None if a side has too few runs or a time is missing."""
    runs = min(run_count(comparison.a), run_count(comparison.b))
    if runs < _MIN_RUNS_FOR_INTERVAL:
        return None
    times_a, times_b = _median_per_run(comparison.a, quantity), _median_per_run(comparison.b, quantity)
    if not times_a or not times_b:
        return None
    rounding_error = _rounding_error(comparison, quantity)
    interval = stats.mean_difference(
        stats.run_summary(times_a, rounding_error), stats.run_summary(times_b, rounding_error), alpha=alpha
    )
    return _Evidence(
        basis="runs",
        speedup=math.exp(interval.estimate),
        interval=_drop_wide_interval(interval),
        rounding=None,
        compared=quantity,
        needs_variation_threshold=runs < MIN_RUNS,
    )


def _evidence_from_iterations(comparison: _TimeComparison, quantity: TimeQuantity, alpha: float) -> _Evidence | None:
    """Compares the iterations of both sides by stretches. None if a side has too few samples."""
    iterations_a, iterations_b = _summarize_iterations(comparison.a), _summarize_iterations(comparison.b)
    if not iterations_a or not iterations_b:
        return None
    interval = stats.mean_difference(iterations_a, iterations_b, alpha=alpha)
    if comparison.is_device:
        interval = _center_on_device_times(interval, comparison)
    return _Evidence(
        basis="iterations",
        speedup=math.exp(interval.estimate),
        interval=_drop_wide_interval(interval),
        rounding=None,
        compared=quantity,
        spread=math.expm1(max(iterations_a.spread, iterations_b.spread)),
    )


def _center_on_device_times(interval: stats.Interval, comparison: _TimeComparison) -> stats.Interval:
    """Moves the interval of the samples to the ratio of the device times. They are assumed to vary no more."""
    a_us, b_us = (
        median(observation.figure.device_time_us or 1.0 for observation in side)
        for side in (comparison.a, comparison.b)
    )
    estimate = math.log(a_us / b_us)
    shift = estimate - interval.estimate
    return stats.Interval(estimate, interval.low + shift, interval.high + shift)


def _drop_wide_interval(interval: stats.Interval) -> stats.Interval | None:
    return interval if interval.high - interval.estimate < _MAX_HALF_WIDTH else None


def run_count(observations: Sequence[Observation]) -> int:
    """Number of different runs. All cycles of a run count once."""
    return len({observation.run for observation in observations})


def _median_per_run(observations: _Observations, quantity: TimeQuantity) -> list[float]:
    """Returns one time per run, the median over its cycles, which are not independent. Empty if a time is missing."""
    values_by_run: dict[int, list[float | None]] = {}
    for observation in observations:
        values_by_run.setdefault(observation.run, []).append(value_of(observation.figure, quantity))
    if not all(value for cycle_values in values_by_run.values() for value in cycle_values):
        return []
    return [median(value for value in cycle_values if value) for cycle_values in values_by_run.values()]


def _rounding_error(comparison: _TimeComparison, quantity: TimeQuantity) -> float:
    """Half of one unit in the last printed place, in the unit of the quantity.

    Reading drops trailing zeros, so the figure with the most digits decides.
    """
    values = (value_of(figure, quantity) for figure in comparison.figures)
    return min(stats.half_digit(value) for value in values if value)


def _summarize_iterations(observations: _Observations) -> stats.SampleSummary | None:
    """Summarizes the iterations of all runs and cycles, concatenated, by stretches of consecutive iterations.

    Returns None if a figure has no samples.
    """
    if not all(observation.figure.samples_us for observation in observations):
        return None
    return stats.stretch_summary(
        [time_us for observation in observations for time_us in stats.slowest_rank_us(observation.figure.samples_us)]
    )


def _evidence_from_means(a: _Observations, b: _Observations, quantities: Sequence[TimeQuantity]) -> _Evidence:
    """Returns the speed-up by the quantity that both sides print most precisely, with its rounding bounds."""
    best: _Evidence | None = None
    for quantity in quantities:
        values = [_printed_median(a, quantity), _printed_median(b, quantity)]
        if not all(values):
            continue
        # The speed-up is time of A over time of B, or bandwidth of B over bandwidth of A.
        numerator, denominator = values if quantity.endswith("_us") else reversed(values)
        assert numerator is not None
        assert denominator is not None
        numerator_low, numerator_high = stats.rounding_bounds(numerator)
        denominator_low, denominator_high = stats.rounding_bounds(denominator)
        if numerator_low <= 0 or denominator_low <= 0:
            continue
        bounds = (numerator_low / denominator_high, numerator_high / denominator_low)
        if bounds[0] == 0 or math.isinf(bounds[1]):
            continue  # the ratio over- or underflows
        evidence = _Evidence(
            basis="means", speedup=numerator / denominator, interval=None, rounding=bounds, compared=quantity
        )
        if best is None or _rounding_width(evidence) < _rounding_width(best):
            best = evidence
    reason = "both sides print no common time or bandwidth that exceeds half of its last digit"
    return best or _Evidence(basis="means", speedup=None, interval=None, rounding=None, missing_reason=reason)


def _printed_median(observations: list[Observation], quantity: str) -> float | None:
    """Median of the printed values. None if a value is missing, zero, or derived from other figures."""
    values = [
        float(value)
        for observation in observations
        if quantity not in observation.figure.derived
        and (value := getattr(observation.figure, quantity)) is not None
        and value > 0
    ]
    return median(values) if len(values) == len(observations) else None


def _rounding_width(evidence: _Evidence) -> float:
    assert evidence.rounding is not None
    return math.log(evidence.rounding[1] / evidence.rounding[0])


def _find_direction(evidence: _Evidence, threshold: float) -> int:
    """Returns the direction of the change of one time, without its neighbors: 1 faster, -1 slower, 0 neither.

    The threshold counts only if the evidence needs it.
    """
    log_threshold = math.log1p(threshold)
    if evidence.interval is not None:
        if evidence.needs_variation_threshold and abs(evidence.interval.estimate) <= log_threshold:
            return 0
        return _sign_of_range(evidence.interval.low, evidence.interval.high, 0.0)
    if evidence.rounding is not None:
        low, high = evidence.rounding
        return _sign_of_range(math.log(low), math.log(high), log_threshold)
    return 0


def _sign_of_range(low: float, high: float, threshold: float) -> int:
    """Returns 1 if the whole range is above the threshold, -1 if it is below the negative threshold, otherwise 0."""
    if low > threshold:
        return 1
    return -1 if high < -threshold else 0


def _compare_neighbors(comparisons: Sequence[_TimeComparison], directions: Sequence[int]) -> tuple[set[int], set[int]]:
    """Returns the indices of times that a neighboring size confirms, and of times without a neighboring size."""
    neighbors = []
    for is_device in (True, False):
        indices = [index for index, comparison in enumerate(comparisons) if comparison.is_device is is_device]
        neighbors += [
            (indices[smaller], indices[larger])
            for smaller, larger in adjacent_sizes([comparisons[index].point for index in indices])
        ]
    # The product of two directions is 1 if both are faster or both are slower.
    confirmed = {index for pair in neighbors if directions[pair[0]] * directions[pair[1]] > 0 for index in pair}
    return confirmed, set(range(len(comparisons))) - {index for pair in neighbors for index in pair}


def _decide_verdict(
    evidence: _Evidence, direction: int, resolution: float, threshold: float, *, is_confirmed: bool, has_neighbors: bool
) -> tuple[ChangeVerdict, str]:
    """Decides the verdict on one time and its reason.

    Args:
        evidence: Speed-up of the time.
        direction: Result of `_find_direction`.
        resolution: Largest relative difference that is SAME.
        threshold: Result of `_change_threshold`, at least the resolution.
        is_confirmed: True if a neighboring size changes in the same direction.
        has_neighbors: True if there is a neighboring size.
    """
    resolution_text, threshold_text = change_text(resolution), change_text(threshold)
    if evidence.speedup is None:
        return ChangeVerdict.UNCLEAR, f"{evidence.missing_reason}."
    if direction:
        verdict = ChangeVerdict.FASTER if direction > 0 else ChangeVerdict.SLOWER
        finding = f"beyond {threshold_text}" if evidence.needs_variation_threshold else "the interval excludes 1"
        if is_confirmed:
            return verdict, f"{finding}, and a neighbor agrees."
        if not has_neighbors:
            return verdict, f"{finding}; there is no neighboring size to confirm it."
        return ChangeVerdict.UNCLEAR, f"{finding}, but no neighbor agrees: measure again."
    if evidence.basis == "means":
        return (
            ChangeVerdict.UNCLEAR,
            f"single figures cannot distinguish a difference below {threshold_text} from noise.",
        )
    if evidence.interval is None:
        return ChangeVerdict.UNCLEAR, "the times vary too much for an interval: measure more."
    log_resolution = math.log1p(resolution)
    if -log_resolution <= evidence.interval.low and evidence.interval.high <= log_resolution:
        if evidence.needs_variation_threshold and threshold > resolution:
            return (
                ChangeVerdict.UNCLEAR,
                f"no difference in these runs, but runs may differ by {threshold_text} by chance: measure more runs.",
            )
        return ChangeVerdict.SAME, f"no difference as large as {resolution_text}."
    if evidence.needs_variation_threshold and evidence.interval.excludes_zero:
        return ChangeVerdict.UNCLEAR, f"the difference is below the {threshold_text} that runs may differ by chance."
    return (
        ChangeVerdict.UNCLEAR,
        f"the interval includes both no change and a change above {resolution_text}: measure more runs.",
    )


def _ratios_from_logarithms(interval: stats.Interval | None) -> tuple[float, float] | None:
    return None if interval is None else (math.exp(interval.low), math.exp(interval.high))


def _claimed_speedup(observations_b: Sequence[Observation]) -> float | None:
    """Returns the first speed-up that a row of B states. None if no row does."""
    claims = (observation.row.claimed_speedup for observation in observations_b)
    return next((claim for claim in claims if claim is not None), None)


def _decimal_count(claim: float) -> int:
    return len(f"{claim!r}".removesuffix(".0").partition(".")[2])


def _is_claim_consistent(claim: float, decimals: int, evidence: _Evidence) -> bool:
    """True if a stated speed-up agrees with the log's own figures within the rounding of both.

    All stated speed-ups of a log count as printed with `decimals` digits, because reading drops trailing zeros.
    """
    if evidence.rounding is None:
        return False
    rounding = 0.5 * 10.0**-decimals
    return evidence.rounding[0] <= claim + rounding and claim - rounding <= evidence.rounding[1]
