"""Decides FASTER, SLOWER, SAME or UNCLEAR for each point that two logs have in common.

A point is one size of one configuration, with one or two times: device time and program time. For each time,
`judge_points` finds these facts, from which `_decide_verdict` decides:

1. the evidence (`find_evidence`): the speed-up with an interval, from the strongest basis that the logs allow,
2. the threshold (`_change_threshold`): the relative change that FASTER and SLOWER must exceed if a side has few runs
   (fewer than MIN_RUNS),
3. the direction of the change (`_find_direction`), which must be equal at a neighboring size, if there is one.

With MIN_RUNS runs per side the interval alone decides: even a change below the resolution is FASTER or SLOWER.

Run-to-run variation is the chance difference between two runs of the same command. Few runs cannot show it, so the
threshold includes a value from earlier measurements.
"""

import math
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec

from busbw.compare.evidence import Evidence, TimeComparison, VariationLimits, find_evidence
from busbw.compare.figures import PointFigures, have_device_times, side_figures
from busbw.compare.pairing import adjacent_sizes
from busbw.compare.result import ChangeVerdict, PointKey, SizeResult, change_text
from busbw.units import size_text

FAMILY_ALPHA = 0.01
"""Probability that at least one interval excludes 1 although no time has changed. Each time gets an equal share."""


class _Change(NamedTuple):
    """Facts about the change of one compared time."""

    comparison: TimeComparison
    evidence: Evidence
    threshold: float
    """Result of `_change_threshold`, at least the resolution."""
    direction: int
    """Result of `_find_direction`: 1 faster, -1 slower, 0 neither."""


def judge_points(
    points: Sequence[PointKey],
    sides: Sequence[tuple[PointFigures, PointFigures]],
    *,
    resolution: float,
    has_claims: bool = False,
) -> list[SizeResult]:
    """Returns one result per point, or two if both sides have device times: device time and program time.

    Args:
        points: Points that both sides have.
        sides: Figures of A and B for each point.
        resolution: Largest relative difference that is SAME, and minimum of the threshold with few runs.
        has_claims: True if the speed-ups that B's rows state are relative to this A.
    """
    comparisons = _list_comparisons(points, sides)
    alpha = FAMILY_ALPHA / max(1, len(comparisons))
    changes = [_find_change(comparison, alpha, resolution) for comparison in comparisons]
    confirmed, with_neighbors = _compare_neighbors(changes)
    claims = [comparison.b.claimed_speedup if has_claims else None for comparison in comparisons]
    decimals = max((_decimal_count(claim) for claim in claims if claim is not None), default=0)
    results = []
    for index, (change, claim) in enumerate(zip(changes, claims, strict=True)):
        comparison, evidence = change.comparison, change.evidence
        verdict, reason = _decide_verdict(
            change, resolution, is_confirmed=index in confirmed, has_neighbors=index in with_neighbors
        )
        results.append(
            SizeResult(
                point=comparison.point,
                a=side_figures(comparison.a, runs=comparison.a.run_count),
                b=side_figures(comparison.b, runs=comparison.b.run_count),
                speedup=evidence.speedup,
                interval=evidence.interval.ratios if evidence.interval else None,
                rounding=evidence.rounding,
                compared=evidence.compared,
                basis=evidence.basis,
                verdict=verdict,
                reason=reason,
                threshold=change.threshold if evidence.needs_variation_threshold else None,
                claimed_speedup=claim,
                claim_agrees=_is_claim_consistent(claim, decimals, evidence.rounding),
            )
        )
    return results


def _list_comparisons(
    points: Sequence[PointKey], sides: Sequence[tuple[PointFigures, PointFigures]]
) -> list[TimeComparison]:
    """Lists the times to compare. For each configuration: the device times of all sizes, then the program times."""
    comparisons: list[TimeComparison] = []
    pairs = zip(points, sides, strict=True)
    for _, configuration in groupby(pairs, key=lambda pair: msgspec.structs.replace(pair[0], size_bytes=0)):
        program_comparisons = [TimeComparison(point, a, b, is_device=False) for point, (a, b) in configuration]
        comparisons += [
            TimeComparison(comparison.point, comparison.a, comparison.b, is_device=True)
            for comparison in program_comparisons
            if have_device_times(comparison.a, comparison.b)
        ]
        comparisons += program_comparisons
    return comparisons


def _find_change(comparison: TimeComparison, alpha: float, resolution: float) -> _Change:
    evidence = find_evidence(comparison, alpha)
    threshold = _change_threshold(comparison, evidence, resolution)
    return _Change(comparison, evidence, threshold, _find_direction(evidence, threshold))


def thresholds_text(
    points: Sequence[PointKey], sides: Sequence[tuple[PointFigures, PointFigures]], resolution: float
) -> str:
    """Text of the thresholds with few runs per side: "20 % up to 8 KiB, ... and 5 % above"."""
    device_texts: dict[str, None] = {}  # an ordered set
    program_texts: dict[str, None] = {}
    for comparison in _list_comparisons(points, sides):
        texts = device_texts if comparison.is_device else program_texts
        texts[_threshold_text(comparison.run_variation, resolution)] = None
    program_text = " or ".join(program_texts)
    return f"{' or '.join(device_texts)} (device time), {program_text} (time)" if device_texts else program_text


def _threshold_text(variation: VariationLimits, resolution: float) -> str:
    """Text such as "20 % up to 8 KiB, 10 % up to 1 MiB and 5 % above", with the resolution at the end."""
    up_to_bytes, first_change = variation[0]
    if math.isinf(up_to_bytes):  # only the host backend has one value for all sizes
        return f"{change_text(first_change)} (host backend)"
    texts = [
        f"{change_text(change)} up to {size_text(int(size_bytes))}"
        for size_bytes, change in variation
        if change > resolution
    ]
    resolution_text = change_text(resolution)
    return f"{', '.join(texts)} and {resolution_text} above" if texts else resolution_text


def _change_threshold(comparison: TimeComparison, evidence: Evidence, resolution: float) -> float:
    """Returns the relative change that FASTER and SLOWER must exceed if a side has few runs.

    This is the maximum of resolution, run-to-run variation and spread of the iterations: large variation within a run
    suggests large variation between runs. With MIN_RUNS runs this is the resolution, which `_find_direction` ignores.
    """
    if not evidence.needs_variation_threshold:
        return resolution
    variations = (
        variation for up_to_bytes, variation in comparison.run_variation if comparison.point.size_bytes <= up_to_bytes
    )
    return max(resolution, next(variations, 0.0), evidence.spread)


def _find_direction(evidence: Evidence, threshold: float) -> int:
    """Returns the direction of the change of one time, without its neighbors: 1 faster, -1 slower, 0 neither.

    `Evidence.interval` has logarithms, so 0 is no change. With few runs its estimate must also exceed the threshold.
    `Evidence.rounding` has ratios, and the whole range must exceed the threshold.
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


def _compare_neighbors(changes: Sequence[_Change]) -> tuple[set[int], set[int]]:
    """Returns the indices of changes that a neighboring size confirms, and of changes with any neighboring size."""
    confirmed: set[int] = set()
    with_neighbors: set[int] = set()
    for is_device in (True, False):
        indices = [index for index, change in enumerate(changes) if change.comparison.is_device is is_device]
        for smaller, larger in adjacent_sizes([changes[index].comparison.point for index in indices]):
            pair = {indices[smaller], indices[larger]}
            with_neighbors |= pair
            pair_directions = {changes[index].direction for index in pair}
            if pair_directions in ({1}, {-1}):
                confirmed |= pair
    return confirmed, with_neighbors


def _decide_verdict(
    change: _Change, resolution: float, *, is_confirmed: bool, has_neighbors: bool
) -> tuple[ChangeVerdict, str]:
    """Decides the verdict on one time and its reason.

    Args:
        change: Speed-up, threshold and direction of the time.
        resolution: Largest relative difference that is SAME.
        is_confirmed: True if a neighboring size changes in the same direction.
        has_neighbors: True if there is a neighboring size.
    """
    evidence = change.evidence
    resolution_text, threshold_text = change_text(resolution), change_text(change.threshold)
    if evidence.speedup is None:
        return ChangeVerdict.UNCLEAR, f"{evidence.missing_reason}."
    if change.direction:
        verdict = ChangeVerdict.FASTER if change.direction > 0 else ChangeVerdict.SLOWER
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
        if evidence.needs_variation_threshold and change.threshold > resolution:
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


def _decimal_count(claim: float) -> int:
    """Returns the number of decimals that a stated speed-up was printed with, except trailing zeros: 2 for 1.25."""
    return len(f"{claim!r}".removesuffix(".0").partition(".")[2])


def _is_claim_consistent(claim: float | None, decimals: int, printed_range: tuple[float, float] | None) -> bool | None:
    """True if a stated speed-up agrees with the log's printed figures within the rounding of both.

    None without a stated speed-up, or if the speed-up was not computed from printed figures (`printed_range`).

    All stated speed-ups are assumed to have `decimals` printed decimals, because reading drops trailing zeros.
    """
    if claim is None or printed_range is None:
        return None
    rounding = 0.5 * 10.0**-decimals
    return printed_range[0] <= claim + rounding and claim - rounding <= printed_range[1]
