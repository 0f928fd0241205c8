"""Speed-ups, intervals and verdicts from the figures of two sides at each common point."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median

import msgspec

from busbw.compare.figures import side_figures
from busbw.compare.pairing import Observation, adjacent_sizes
from busbw.compare.quantities import have_device_times, program_time, value_of
from busbw.compare.result import Basis, ChangeVerdict, PointKey, SizeResult, TimeQuantity
from busbw.logs import Figure
from busbw.statistics import stats
from busbw.statistics.run_variation import VARIATIONS
from busbw.units import size_text

FAMILY_ALPHA = 0.01
"""Probability that any point is called changed if none is."""
MIN_RUNS = 4
"""Minimum number of runs per side for a verdict from the runs' own variation. A start can be in one of two states.
With three runs per side, all of A in one state and all of B in the other happens too often (docs/comparison.md). Cycles
of one run count as one run."""
_MIN_FOR_INTERVAL = 3
"""Minimum number of runs per side for an interval over runs. An interval from two runs is too wide to decide."""

_Floors = tuple[tuple[float, float], ...]
"""(Size in bytes, relative change that may be chance up to this size), smallest size first."""
_WITHOUT_LAUNCHING: _Floors = ((8 << 10, 0.20), (1 << 20, 0.10))
"""Chance difference of two runs of the same command, for fewer than `MIN_RUNS` runs per side. It applies to device
times and to times with an unknown launch mode. docs/comparison.md has the source; `run_variation` has the part that
launching adds. For larger sizes only the resolution counts."""

_MAX_HALF_WIDTH = math.log(1000)
"""Maximum half-width of an interval, as a logarithm: a factor of 1000. Wider intervals are not shown."""

_PRINTED: tuple[TimeQuantity, ...] = ("time_us", "algbw_gbps", "busbw_gbps")


_Observations = list[Observation]


@dataclass(frozen=True)
class _ComparedTime:
    """One kind of time at one point, with the observations of both sides."""

    point: PointKey
    a: _Observations
    b: _Observations
    is_device: bool
    """True for the device time, false for the time that a program spends."""

    @property
    def floors(self) -> _Floors:
        """Chance differences of two runs: the maximum over the launch modes of both sides."""
        modes = {each.launch_mode for each in (*self.a, *self.b) if each.launch_mode}
        if self.is_device or not modes:
            return _WITHOUT_LAUNCHING
        factor, up_to_bytes = max((VARIATIONS[mode].factor, VARIATIONS[mode].up_to_bytes or math.inf) for mode in modes)
        return ((up_to_bytes, round(factor - 1, 9)),)

    @property
    def figures(self) -> list[Figure]:
        """Figures of both sides."""
        return [each.figure for each in (*self.a, *self.b)]


@dataclass(frozen=True)
class _Evidence:
    """Evidence at one point, without its neighbors."""

    basis: Basis
    speedup: float | None
    interval: stats.Interval | None
    rounding: tuple[float, float] | None
    compared: TimeQuantity = "median_us"
    has_floor: bool = True
    """True if a change must exceed the chance difference of runs, because too few runs are known."""
    spread: float = 0.0
    """Relative spread of the iterations of the side that varies more. Only for the basis `iterations`."""
    missing_reason: str = ""
    """Reason for a missing speed-up."""


def judge(
    points: Sequence[PointKey],
    sides: Sequence[tuple[list[Observation], list[Observation]]],
    *,
    resolution: float,
    has_claims: bool = False,
) -> list[SizeResult]:
    """Judges each point.

    If both sides have device times, device time and program time get separate results.

    Args:
        points: Points that both sides have.
        sides: Observations of A and B for each point.
        resolution: Smallest relative change that matters.
        has_claims: True if the speed-ups that B's rows state are relative to this A.
    """
    items = _items(points, sides)
    alpha = FAMILY_ALPHA / max(1, len(items))
    evidence = [_evidence(item, alpha) for item in items]
    thresholds = [_resolution_at(item, each, resolution) for item, each in zip(items, evidence, strict=True)]
    directions = [_direction(each, change) for each, change in zip(evidence, thresholds, strict=True)]
    agreeing, alone = _agreement(items, directions)
    claims = [_claim(item.b) if has_claims else None for item in items]
    decimals = max((_decimals(claim) for claim in claims if claim is not None), default=0)
    results = []
    for i, (each, item) in enumerate(zip(evidence, items, strict=True)):
        verdict, reason = _verdict(
            each, directions[i], resolution, thresholds[i], agrees=i in agreeing, stands_alone=i in alone
        )
        claim = claims[i]
        results.append(
            SizeResult(
                point=item.point,
                a=side_figures([each.figure for each in item.a], runs=starts(item.a)),
                b=side_figures([each.figure for each in item.b], runs=starts(item.b)),
                speedup=each.speedup,
                interval=_exp(each.interval),
                rounding=each.rounding,
                compared=each.compared,
                basis=each.basis,
                verdict=verdict,
                reason=reason,
                claimed_speedup=claim,
                claim_agrees=None if claim is None else _claim_agrees(claim, decimals, each),
            )
        )
    return results


def _items(points: Sequence[PointKey], sides: Sequence[tuple[_Observations, _Observations]]) -> list[_ComparedTime]:
    """Lists the times to compare. Each configuration has the device times of all sizes, then the program times."""
    found: list[_ComparedTime] = []
    pairs = zip(points, sides, strict=True)
    for _, members in groupby(pairs, key=lambda pair: msgspec.structs.replace(pair[0], size_bytes=0)):
        program = [_ComparedTime(point, a, b, is_device=False) for point, (a, b) in members]
        found += [
            _ComparedTime(item.point, item.a, item.b, True) for item in program if have_device_times(item.figures)
        ]
        found += program
    return found


def resolutions_text(
    points: Sequence[PointKey], sides: Sequence[tuple[_Observations, _Observations]], resolution: float
) -> str:
    """Text of the changes that count with few runs per side: "20 % up to 8 KiB, ... and 5 % above"."""
    items = _items(points, sides)
    device = dict.fromkeys(_floors_text(item.floors, resolution) for item in items if item.is_device)
    program = dict.fromkeys(_floors_text(item.floors, resolution) for item in items if not item.is_device)
    return f"{' or '.join(device)} (device time), {' or '.join(program)} (time)" if device else " or ".join(program)


def _floors_text(floors: _Floors, resolution: float) -> str:
    if math.isinf(floors[0][0]):
        return f"a factor of {1 + floors[0][1]:g} (host backend)"
    texts = [f"{share * 100:g} % up to {size_text(int(size))}" for size, share in floors if share > resolution]
    percent = f"{resolution * 100:g} %"
    return f"{', '.join(texts)} and {percent} above" if texts else percent


def _resolution_at(item: _ComparedTime, evidence: _Evidence, resolution: float) -> float:
    """Relative change that counts at this point.

    It is at least the spread of the iterations, because large variation within a run suggests variation between runs.
    """
    if not evidence.has_floor:
        return resolution
    by_size = (share for size, share in item.floors if item.point.size_bytes <= size)
    return max(resolution, next(by_size, 0.0), evidence.spread)


def _evidence(item: _ComparedTime, alpha: float) -> _Evidence:
    a, b = item.a, item.b
    quantity: TimeQuantity = "device_time_us" if item.is_device else program_time(item.figures)
    if (runs := min(starts(a), starts(b))) >= _MIN_FOR_INTERVAL:
        times_a, times_b = _times(a, quantity), _times(b, quantity)
        if times_a and times_b:
            half = _half_digit(item, quantity)
            summaries = [stats.run_summary(times, half) for times in (times_a, times_b)]
            interval = stats.mean_difference(*summaries, alpha=alpha)
            estimate, has_floor = math.exp(interval.estimate), runs < MIN_RUNS
            return _Evidence("runs", estimate, _useful(interval), None, quantity, has_floor=has_floor)
    if quantity != "time_us":
        stretches_a, stretches_b = _stretches(a), _stretches(b)
        if stretches_a and stretches_b:
            interval = stats.mean_difference(stretches_a, stretches_b, alpha=alpha)
            if item.is_device:
                interval = _recentred(interval, item)
            spread = math.expm1(max(stretches_a.spread, stretches_b.spread))
            return _Evidence(
                "iterations", math.exp(interval.estimate), _useful(interval), None, quantity, spread=spread
            )
    return _from_means(a, b, (quantity,) if have_device_times(item.figures) else _PRINTED)


def _recentred(interval: stats.Interval, item: _ComparedTime) -> stats.Interval:
    """Moves the samples' interval to the ratio of the device times. Samples vary at least as much as device times."""
    a_us, b_us = (median(each.figure.device_time_us or 1.0 for each in found) for found in (item.a, item.b))
    estimate = math.log(a_us / b_us)
    shift = estimate - interval.estimate
    return stats.Interval(estimate, interval.low + shift, interval.high + shift)


def _useful(interval: stats.Interval) -> stats.Interval | None:
    return interval if interval.high - interval.estimate < _MAX_HALF_WIDTH else None


def starts(found: Sequence[Observation]) -> int:
    """Number of runs, each with all its cycles."""
    return len({each.run for each in found})


def _times(found: _Observations, quantity: TimeQuantity) -> list[float]:
    """Returns the median over the cycles of each run, as cycles are not independent. Empty if a time is missing."""
    by_run: dict[int, list[float | None]] = {}
    for each in found:
        by_run.setdefault(each.run, []).append(value_of(each.figure, quantity))
    if not all(value for cycles in by_run.values() for value in cycles):
        return []
    return [median(value for value in cycles if value) for cycles in by_run.values()]


def _half_digit(item: _ComparedTime, quantity: TimeQuantity) -> float:
    """Half of the last printed digit. Reading drops trailing zeros, so the figure with the most digits decides."""
    values = (value_of(figure, quantity) for figure in item.figures)
    return min(stats.half_digit(value) for value in values if value)


def _stretches(found: _Observations) -> stats.SampleSummary | None:
    """Summary of all iterations, runs and cycles concatenated. None if a figure has no samples."""
    if not all(each.figure.samples_us for each in found):
        return None
    return stats.stretch_summary([time for each in found for time in stats.slowest_rank_us(each.figure.samples_us)])


def _from_means(a: _Observations, b: _Observations, quantities: Sequence[TimeQuantity]) -> _Evidence:
    """Returns the ratio of the quantity that both sides print most precisely, with its rounding bounds."""
    best: _Evidence | None = None
    for name in quantities:
        values = [_printed(a, name), _printed(b, name)]
        if not all(values):
            continue
        slow, fast = values if name.endswith("_us") else reversed(values)
        assert slow is not None
        assert fast is not None
        (slow_low, slow_high), (fast_low, fast_high) = stats.rounding_bounds(slow), stats.rounding_bounds(fast)
        if slow_low <= 0 or fast_low <= 0:
            continue
        bounds = (slow_low / fast_high, slow_high / fast_low)
        if bounds[0] == 0 or math.isinf(bounds[1]):
            continue  # the ratio over- or underflows
        found = _Evidence("means", slow / fast, None, bounds, name)
        if best is None or _width(found) < _width(best):
            best = found
    reason = "both sides print no common time or bandwidth that exceeds half of its last digit"
    return best or _Evidence("means", None, None, None, missing_reason=reason)


def _printed(found: list[Observation], name: str) -> float | None:
    """Median of the printed values. None if a value is missing, zero, or derived from other figures."""
    values = [
        float(value)
        for each in found
        if name not in each.figure.derived and (value := getattr(each.figure, name)) is not None and value > 0
    ]
    return median(values) if len(values) == len(found) else None


def _width(evidence: _Evidence) -> float:
    assert evidence.rounding is not None
    return math.log(evidence.rounding[1] / evidence.rounding[0])


def _direction(evidence: _Evidence, change: float) -> int:
    """Direction of this point's change, without its neighbors: 1 faster, -1 slower, 0 neither."""
    step = math.log1p(change)
    if evidence.interval is not None:
        interval = evidence.interval
        side = 1 if interval.low > 0 else -1 if interval.high < 0 else 0
        return side if not evidence.has_floor or abs(interval.estimate) > step else 0
    if evidence.rounding is not None:
        return 1 if math.log(evidence.rounding[0]) > step else -1 if math.log(evidence.rounding[1]) < -step else 0
    return 0


def _agreement(items: Sequence[_ComparedTime], directions: Sequence[int]) -> tuple[set[int], set[int]]:
    """Returns the indices of items with a neighbor of the same direction, and of items without neighbors."""
    pairs = []
    for is_device in (True, False):
        own = [index for index, item in enumerate(items) if item.is_device is is_device]
        pairs += [(own[one], own[other]) for one, other in adjacent_sizes([items[index].point for index in own])]
    agreeing = {index for pair in pairs if directions[pair[0]] * directions[pair[1]] > 0 for index in pair}
    return agreeing, set(range(len(items))) - {index for pair in pairs for index in pair}


def _verdict(
    evidence: _Evidence, direction: int, resolution: float, change: float, *, agrees: bool, stands_alone: bool
) -> tuple[ChangeVerdict, str]:
    percent, limit = f"{resolution * 100:.3g} %", f"{change * 100:.3g} %"
    if evidence.speedup is None:
        return ChangeVerdict.UNCLEAR, f"{evidence.missing_reason}."
    if direction:
        verdict = ChangeVerdict.FASTER if direction > 0 else ChangeVerdict.SLOWER
        finding = f"beyond {limit}" if evidence.has_floor else "the interval excludes 1"
        if agrees:
            return verdict, f"{finding}, and a neighbor agrees."
        if stands_alone:
            return verdict, f"{finding}; there is no neighboring size to confirm it."
        return ChangeVerdict.UNCLEAR, f"{finding}, but no neighbor agrees: measure again."
    if evidence.basis == "means":
        return ChangeVerdict.UNCLEAR, f"single figures cannot distinguish a difference below {limit} from noise."
    if evidence.interval is None:
        return ChangeVerdict.UNCLEAR, "the times vary too much for an interval: measure more."
    step = math.log1p(resolution)
    if -step <= evidence.interval.low and evidence.interval.high <= step:
        if evidence.has_floor and change > resolution:
            return (
                ChangeVerdict.UNCLEAR,
                f"no difference in these runs, but runs may differ by {limit} by chance: measure more runs.",
            )
        return ChangeVerdict.SAME, f"no difference as large as {percent}."
    if evidence.has_floor and evidence.interval.excludes_zero:
        return ChangeVerdict.UNCLEAR, f"the difference is below the {limit} that runs may differ by chance."
    return (
        ChangeVerdict.UNCLEAR,
        f"the interval includes both no change and a change above {percent}: measure more runs.",
    )


def _exp(interval: stats.Interval | None) -> tuple[float, float] | None:
    return None if interval is None else (math.exp(interval.low), math.exp(interval.high))


def _claim(b: Sequence[Observation]) -> float | None:
    return next((each.row.claimed_speedup for each in b if each.row.claimed_speedup is not None), None)


def _decimals(claim: float) -> int:
    return len(f"{claim!r}".removesuffix(".0").partition(".")[2])


def _claim_agrees(claim: float, decimals: int, evidence: _Evidence) -> bool:
    """True if a stated speed-up agrees with the log's own figures within the rounding of both.

    All stated speed-ups of a log count as printed with `decimals` digits, because reading drops trailing zeros.
    """
    if evidence.rounding is None:
        return False
    half = 0.5 * 10.0**-decimals
    return evidence.rounding[0] <= claim + half and claim - half <= evidence.rounding[1]
