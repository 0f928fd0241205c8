"""From the figures of two sides at each common point to speed-ups, intervals and verdicts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median

import msgspec

from busbw.compare.figures import side_figures
from busbw.compare.pairing import Observation, adjacent_sizes
from busbw.compare.quantities import have_device_times, paid_time, value_of
from busbw.compare.result import Basis, ChangeVerdict, PointKey, SizeResult, TimeQuantity
from busbw.logs import Figure
from busbw.statistics import stats
from busbw.statistics.run_variation import VARIATIONS
from busbw.units import size_text

FAMILY_ALPHA = 0.01
"""The chance to call any point changed when none is."""
MIN_RUNS = 4
"""Runs of each side from which on they tell by themselves how far runs lie apart by chance: where each start falls into
one of two states, three of A in the one and three of B in the other are too frequent (docs/comparison.md). Cycles of
one run count as one."""
_MIN_FOR_INTERVAL = 3
"""Runs of each side from which on there is an interval of runs; two give one that excludes nothing."""

_Floors = tuple[tuple[float, float], ...]
"""Up to which size what relative change may be chance, the smallest size first."""
_WITHOUT_LAUNCHING: _Floors = ((8 << 10, 0.20), (1 << 20, 0.10))
"""How far two runs of the same thing may lie apart by chance, where fewer than `MIN_RUNS` of a side are known: the
device's time, and times of which nothing is known of launching. docs/comparison.md has what it was taken from, and
`scatter` what launching adds. Larger sizes have the resolution alone."""

_WIDEST = math.log(1000)
"""An interval that reaches further than a factor of 1000 from its estimate says nothing, and is not shown."""

_PRINTED: tuple[TimeQuantity, ...] = ("time_us", "algbw_gbps", "busbw_gbps")


_Observations = list[Observation]


@dataclass(frozen=True)
class _ComparedTime:
    """What gets a result: a time of a point, as both sides have it."""

    point: PointKey
    a: _Observations
    b: _Observations
    is_device: bool
    """Whether it is the device's time, and not what a program pays."""

    @property
    def floors(self) -> _Floors:
        """By how much its runs may lie apart: the greatest of what they were launched by."""
        ways = {each.launch_mode for each in (*self.a, *self.b) if each.launch_mode}
        if self.is_device or not ways:
            return _WITHOUT_LAUNCHING
        factor, up_to_bytes = max((VARIATIONS[way].factor, VARIATIONS[way].up_to_bytes or math.inf) for way in ways)
        return ((up_to_bytes, round(factor - 1, 9)),)

    @property
    def figures(self) -> list[Figure]:
        """Of both sides."""
        return [each.figure for each in (*self.a, *self.b)]


@dataclass(frozen=True)
class _Evidence:
    """What is known at one point before neighbours are asked."""

    basis: Basis
    speedup: float | None
    interval: stats.Interval | None
    rounding: tuple[float, float] | None
    compared: TimeQuantity = "median_us"
    has_floor: bool = True
    """Whether a change counts only beyond what runs differ by chance: where too few runs are known to tell."""
    spread: float = 0.0
    """Of the iterations of the side that varies more, where they are the unit; as a share."""
    lacking: str = ""
    """Why there is no speed-up, where there is none."""


def judge(
    points: Sequence[PointKey],
    sides: Sequence[tuple[list[Observation], list[Observation]]],
    *,
    resolution: float,
    has_claims: bool = False,
) -> list[SizeResult]:
    """The results of each point, in their order; `sides` holds what A and B have of it.

    Where both sides have the device's time of an operation that is compared, and what a program pays is by itself.

    `has_claims`: speed-ups that B's rows claim are of B over this A.
    """
    items = _items(points, sides)
    alpha = FAMILY_ALPHA / max(1, len(items))
    evidence = [_evidence(item, alpha) for item in items]
    steps = [_resolution_at(item, each, resolution) for item, each in zip(items, evidence, strict=True)]
    leaning = [_direction(each, step) for each, step in zip(evidence, steps, strict=True)]
    agreeing, alone = _agreement(items, leaning)
    claims = [_claim(item.b) if has_claims else None for item in items]
    decimals = max((_decimals(claim) for claim in claims if claim is not None), default=0)
    results = []
    for i, (each, item) in enumerate(zip(evidence, items, strict=True)):
        verdict, reason = _verdict(
            each, leaning[i], resolution, steps[i], agrees=i in agreeing, stands_alone=i in alone
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
    """By configuration: the device's times of all sizes, then what a program pays."""
    found: list[_ComparedTime] = []
    pairs = zip(points, sides, strict=True)
    for _, members in groupby(pairs, key=lambda pair: msgspec.structs.replace(pair[0], size_bytes=0)):
        paid = [_ComparedTime(point, a, b, is_device=False) for point, (a, b) in members]
        found += [_ComparedTime(item.point, item.a, item.b, True) for item in paid if have_device_times(item.figures)]
        found += paid
    return found


def resolutions_text(
    points: Sequence[PointKey], sides: Sequence[tuple[_Observations, _Observations]], resolution: float
) -> str:
    """What a change must exceed where few runs of a side are known: "20 % up to 8 KiB, ... and 5 % above"."""
    items = _items(points, sides)
    device = dict.fromkeys(_floors_text(item.floors, resolution) for item in items if item.is_device)
    paid = dict.fromkeys(_floors_text(item.floors, resolution) for item in items if not item.is_device)
    return f"{' or '.join(device)} (device time), {' or '.join(paid)} (time)" if device else " or ".join(paid)


def _floors_text(floors: _Floors, resolution: float) -> str:
    if math.isinf(floors[0][0]):
        return f"a factor of {1 + floors[0][1]:g} (ranks on processors)"
    texts = [f"{share * 100:g} % up to {size_text(int(size))}" for size, share in floors if share > resolution]
    percent = f"{resolution * 100:g} %"
    return f"{', '.join(texts)} and {percent} above" if texts else percent


def _resolution_at(item: _ComparedTime, evidence: _Evidence, resolution: float) -> float:
    """The relative change that counts at this point.

    A machine whose iterations vary much within a run has runs that vary, too.
    """
    if not evidence.has_floor:
        return resolution
    by_size = (share for size, share in item.floors if item.point.size_bytes <= size)
    return max(resolution, next(by_size, 0.0), evidence.spread)


def _evidence(item: _ComparedTime, alpha: float) -> _Evidence:
    a, b = item.a, item.b
    quantity: TimeQuantity = "device_time_us" if item.is_device else paid_time(item.figures)
    if (fewest := min(starts(a), starts(b))) >= _MIN_FOR_INTERVAL:
        times_a, times_b = _times(a, quantity), _times(b, quantity)
        if times_a and times_b:
            half = _half_digit(item, quantity)
            summaries = [stats.run_summary(times, half) for times in (times_a, times_b)]
            interval = stats.mean_difference(*summaries, alpha=alpha)
            estimate, has_floor = math.exp(interval.estimate), fewest < MIN_RUNS
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
    """The samples' interval around the ratio of the devices' times, of which samples have as much scatter and more."""
    a_us, b_us = (median(each.figure.device_time_us or 1.0 for each in found) for found in (item.a, item.b))
    estimate = math.log(a_us / b_us)
    shift = estimate - interval.estimate
    return stats.Interval(estimate, interval.low + shift, interval.high + shift)


def _useful(interval: stats.Interval) -> stats.Interval | None:
    return interval if interval.high - interval.estimate < _WIDEST else None


def starts(found: Sequence[Observation]) -> int:
    """How many runs there are, each with all its cycles."""
    return len({each.run for each in found})


def _times(found: _Observations, quantity: TimeQuantity) -> list[float]:
    """One for each run; of its cycles, which share what its start decided, the median. Empty where one has none."""
    by_run: dict[int, list[float | None]] = {}
    for each in found:
        by_run.setdefault(each.run, []).append(value_of(each.figure, quantity))
    if not all(value for cycles in by_run.values() for value in cycles):
        return []
    return [median(value for value in cycles if value) for cycles in by_run.values()]


def _half_digit(item: _ComparedTime, quantity: TimeQuantity) -> float:
    """Of a point's figures; zeros at their end are lost in reading, so the longest tells how many digits there are."""
    values = (value_of(figure, quantity) for figure in item.figures)
    return min(stats.half_digit(value) for value in values if value)


def _stretches(found: _Observations) -> stats.SampleSummary | None:
    """Of all iterations, one run and cycle after the other."""
    if not all(each.figure.samples_us for each in found):
        return None
    return stats.stretch_summary([time for each in found for time in stats.slowest_rank_us(each.figure.samples_us)])


def _from_means(a: _Observations, b: _Observations, quantities: Sequence[TimeQuantity]) -> _Evidence:
    """The ratio of the quantity that both sides print most exactly, and what its digits leave open."""
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
            continue  # figures so far apart have no ratio
        found = _Evidence("means", slow / fast, None, bounds, name)
        if best is None or _width(found) < _width(best):
            best = found
    lacking = "no time and no bandwidth that both sides print is above zero by more than its last digit"
    return best or _Evidence("means", None, None, None, lacking=lacking)


def _printed(found: list[Observation], name: str) -> float | None:
    """What the log itself prints; what only follows from its other figures adds nothing."""
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
    """1: faster as far as this point goes, -1: slower, 0: neither."""
    step = math.log1p(change)
    if evidence.interval is not None:
        interval = evidence.interval
        side = 1 if interval.low > 0 else -1 if interval.high < 0 else 0
        return side if not evidence.has_floor or abs(interval.estimate) > step else 0
    if evidence.rounding is not None:
        return 1 if math.log(evidence.rounding[0]) > step else -1 if math.log(evidence.rounding[1]) < -step else 0
    return 0


def _agreement(items: Sequence[_ComparedTime], leaning: Sequence[int]) -> tuple[set[int], set[int]]:
    """The items with a neighbour that leans the same way, and those without any neighbour."""
    pairs = []
    for is_device in (True, False):
        own = [index for index, item in enumerate(items) if item.is_device is is_device]
        pairs += [(own[one], own[other]) for one, other in adjacent_sizes([items[index].point for index in own])]
    agreeing = {index for pair in pairs if leaning[pair[0]] * leaning[pair[1]] > 0 for index in pair}
    return agreeing, set(range(len(items))) - {index for pair in pairs for index in pair}


def _verdict(
    evidence: _Evidence, leaning: int, resolution: float, change: float, *, agrees: bool, stands_alone: bool
) -> tuple[ChangeVerdict, str]:
    percent, far = f"{resolution * 100:.3g} %", f"{change * 100:.3g} %"
    if evidence.speedup is None:
        return ChangeVerdict.UNCLEAR, f"{evidence.lacking}."
    if leaning:
        direction = ChangeVerdict.FASTER if leaning > 0 else ChangeVerdict.SLOWER
        what = f"beyond {far}" if evidence.has_floor else "the interval excludes 1"
        if agrees:
            return direction, f"{what}, and a neighbour agrees."
        if stands_alone:
            return direction, f"{what}; there is no neighbouring size to confirm it."
        return ChangeVerdict.UNCLEAR, f"{what}, but no neighbour agrees: measure again."
    if evidence.basis == "means":
        return ChangeVerdict.UNCLEAR, f"single figures cannot tell a difference below {far} from noise."
    if evidence.interval is None:
        return ChangeVerdict.UNCLEAR, "it varies too much for an interval: measure more."
    step = math.log1p(resolution)
    if -step <= evidence.interval.low and evidence.interval.high <= step:
        if evidence.has_floor and change > resolution:
            return (
                ChangeVerdict.UNCLEAR,
                f"alike in these runs, but runs may differ by {far} by chance: measure more runs.",
            )
        return ChangeVerdict.SAME, f"no difference as large as {percent}."
    if evidence.has_floor and evidence.interval.excludes_zero:
        return ChangeVerdict.UNCLEAR, f"these runs differ, but by less than the {far} that runs may differ by chance."
    return ChangeVerdict.UNCLEAR, f"the interval holds both no change and more than {percent}: measure more runs."


def _exp(interval: stats.Interval | None) -> tuple[float, float] | None:
    return None if interval is None else (math.exp(interval.low), math.exp(interval.high))


def _claim(b: Sequence[Observation]) -> float | None:
    return next((each.row.claimed_speedup for each in b if each.row.claimed_speedup is not None), None)


def _decimals(claim: float) -> int:
    return len(f"{claim!r}".removesuffix(".0").partition(".")[2])


def _claim_agrees(claim: float, decimals: int, evidence: _Evidence) -> bool:
    """Whether the claim is what the log's own figures give, each taken to the digits that are printed.

    Claims of one log are printed to one number of digits, which is that of the longest; 1.80 is read as 1.8.
    """
    if evidence.rounding is None:
        return False
    half = 0.5 * 10.0**-decimals
    return evidence.rounding[0] <= claim + half and claim - half <= evidence.rounding[1]
