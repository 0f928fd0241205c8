"""From the figures of two sides at each common point to speed-ups, intervals and verdicts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from busbw import stats
from busbw.compare.figures import side_figures, time_us
from busbw.compare.pairing import Observation, adjacent_sizes
from busbw.compare.result import Basis, Point, Quantity, SizeResult, Verdict
from busbw.logs import Figure
from busbw.units import size_text

FAMILY_ALPHA = 0.01
"""The chance to call any point changed when none is."""
LEAST_RUNS = 3
"""Runs of each side from which on runs are the unit; two give an interval that excludes nothing."""

_RUN_TO_RUN = ((8 << 10, 0.20), (1 << 20, 0.10))
"""How far two runs of the same thing may lie apart by chance, up to that size, where only one of each is known: two
logs of one machine with 4 H200 and the same settings differ by up to 16 % up to 8 KiB, by up to 10 % up to 1 MiB, and
by at most 1.1 % above (docs/comparison.md). Larger sizes have the resolution alone."""

_RUN_TO_RUN_ON_HOST = 1.25
"""The same where the ranks run on processors: starts of one program were up to 2.2 times apart on a shared machine with
two processors, by whether the ranks shared one of them (docs/comparison.md)."""

_WIDEST = math.log(1000)
"""An interval that reaches further than a factor of 1000 from its estimate says nothing, and is not shown."""

_PRINTED: tuple[Quantity, ...] = ("time_us", "algbw_gbps", "busbw_gbps")


@dataclass(frozen=True)
class _Evidence:
    """What is known at one point before neighbours are asked."""

    basis: Basis
    speedup: float | None
    interval: stats.Interval | None
    rounding: tuple[float, float] | None
    compared: Quantity = "median_us"
    spread: float = 0.0
    """Of the iterations of the run that varies more, where each side is one run; as a share."""
    lacking: str = ""
    """Why there is no speed-up, where there is none."""


def judge(
    points: Sequence[Point],
    sides: Sequence[tuple[list[Observation], list[Observation]]],
    *,
    resolution: float,
    has_claims: bool = False,
) -> list[SizeResult]:
    """A result for each point, in their order; `sides` holds what A and B have of it.

    `has_claims`: speed-ups that B's rows claim are of B over this A.
    """
    alpha = FAMILY_ALPHA / max(1, len(points))
    evidence = [_evidence(a, b, alpha) for a, b in sides]
    on_host = any(found.on_host for side in sides for found in (*side[0], *side[1]))
    steps = [_step(point, each, resolution, on_host) for point, each in zip(points, evidence, strict=True)]
    leaning = [_leaning(each, step) for each, step in zip(evidence, steps, strict=True)]
    agreeing, alone = _agreement(points, leaning)
    claims = [_claim(b) if has_claims else None for _, b in sides]
    decimals = max((_decimals(claim) for claim in claims if claim is not None), default=0)
    results = []
    for i, (each, (a, b)) in enumerate(zip(evidence, sides, strict=True)):
        verdict, reason = _verdict(
            each, leaning[i], resolution, steps[i], agrees=i in agreeing, stands_alone=i in alone
        )
        claim = claims[i]
        results.append(
            SizeResult(
                point=points[i],
                a=side_figures([each.figure for each in a]),
                b=side_figures([each.figure for each in b]),
                speedup=each.speedup,
                interval=_exp(each.interval),
                rounding=each.rounding,
                compared=each.compared,
                basis=each.basis,
                verdict=verdict,
                reason=reason,
                claimed_speedup=claim,
                claim_agrees=None if claim is None else _claim_follows(claim, decimals, each),
            )
        )
    return results


def resolutions_text(resolution: float, *, on_host: bool) -> str:
    """What a change must exceed where one run of each side is known: "20 % up to 8 KiB, ... and 5 % above"."""
    if on_host:
        return f"a factor of {1 + _RUN_TO_RUN_ON_HOST:g} (ranks on processors)"
    floors = [f"{share * 100:g} % up to {size_text(size)}" for size, share in _RUN_TO_RUN if share > resolution]
    percent = f"{resolution * 100:g} %"
    return f"{', '.join(floors)} and {percent} above" if floors else percent


def _step(point: Point, evidence: _Evidence, resolution: float, on_host: bool) -> float:
    """The relative change that counts at this point.

    A machine whose iterations vary much within a run has runs that vary, too.
    """
    if evidence.basis in ("runs", "blocks"):
        return resolution
    by_size = (share for size, share in _RUN_TO_RUN if point.size_bytes <= size)
    floor = _RUN_TO_RUN_ON_HOST if on_host else next(by_size, 0.0)
    return max(resolution, floor, evidence.spread)


def _evidence(a: list[Observation], b: list[Observation], alpha: float) -> _Evidence:
    if min(len(a), len(b)) >= LEAST_RUNS:
        logs_a, logs_b = _log_times(a), _log_times(b)
        if logs_a is not None and logs_b is not None:
            interval = stats.mean_difference(stats.run_summary(logs_a), stats.run_summary(logs_b), alpha=alpha)
            return _Evidence("runs", math.exp(interval.estimate), _useful(interval), None)
    if len(a) == len(b) == 1:
        stretches_a, stretches_b = _stretches(a[0].figure), _stretches(b[0].figure)
        if stretches_a and stretches_b:
            interval = stats.mean_difference(stretches_a, stretches_b, alpha=alpha)
            spread = math.expm1(max(stretches_a.spread, stretches_b.spread))
            return _Evidence("iterations", math.exp(interval.estimate), _useful(interval), None, spread=spread)
    return _from_means(a, b)


def _useful(interval: stats.Interval) -> stats.Interval | None:
    return interval if interval.high - interval.estimate < _WIDEST else None


def _log_times(found: list[Observation]) -> list[float] | None:
    times = [time_us(each.figure) for each in found]
    return [math.log(time) for time in times if time] if all(times) else None


def _stretches(figure: Figure) -> stats.Summary | None:
    return stats.stretch_summary(stats.slowest_rank_us(figure.samples_us)) if figure.samples_us else None


def _from_means(a: list[Observation], b: list[Observation]) -> _Evidence:
    """The ratio of the quantity that both sides print most exactly, and what its digits leave open."""
    best: _Evidence | None = None
    for name in _PRINTED:
        values = [_printed(a, name), _printed(b, name)]
        if not all(values):
            continue
        slow, fast = values if name == "time_us" else reversed(values)
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


def _leaning(evidence: _Evidence, change: float) -> int:
    """1: faster as far as this point goes, -1: slower, 0: neither."""
    step = math.log1p(change)
    if evidence.interval is not None:
        interval = evidence.interval
        side = 1 if interval.low > 0 else -1 if interval.high < 0 else 0
        # Iterations of one run say nothing of how far two runs of the same thing lie apart.
        return side if evidence.basis != "iterations" or abs(interval.estimate) > step else 0
    if evidence.rounding is not None:
        return 1 if math.log(evidence.rounding[0]) > step else -1 if math.log(evidence.rounding[1]) < -step else 0
    return 0


def _agreement(points: Sequence[Point], leaning: Sequence[int]) -> tuple[set[int], set[int]]:
    """The points with a neighbour that leans the same way, and those without any neighbour."""
    pairs = adjacent_sizes(points)
    agreeing = {index for pair in pairs if leaning[pair[0]] * leaning[pair[1]] > 0 for index in pair}
    return agreeing, set(range(len(points))) - {index for pair in pairs for index in pair}


def _verdict(
    evidence: _Evidence, leaning: int, resolution: float, change: float, *, agrees: bool, stands_alone: bool
) -> tuple[Verdict, str]:
    percent, far = f"{resolution * 100:.3g} %", f"{change * 100:.3g} %"
    if evidence.speedup is None:
        return Verdict.UNCLEAR, f"{evidence.lacking}."
    if leaning:
        direction = Verdict.FASTER if leaning > 0 else Verdict.SLOWER
        what = f"beyond {far}" if evidence.basis in ("means", "iterations") else "the interval excludes 1"
        if agrees:
            return direction, f"{what}, and a neighbour agrees."
        if stands_alone:
            return direction, f"{what}; there is no neighbouring size to confirm it."
        return Verdict.UNCLEAR, f"{what}, but no neighbour agrees: measure again."
    if evidence.basis == "means":
        return Verdict.UNCLEAR, f"single figures cannot tell a difference below {far} from noise."
    if evidence.interval is None:
        return Verdict.UNCLEAR, "it varies too much for an interval: measure more."
    step = math.log1p(resolution)
    if -step <= evidence.interval.low and evidence.interval.high <= step:
        return Verdict.SAME, f"no difference as large as {percent}."
    if evidence.basis == "iterations" and evidence.interval.excludes_zero:
        return Verdict.UNCLEAR, f"these two runs differ, but by less than the {far} that runs may differ by chance."
    return Verdict.UNCLEAR, f"the interval holds both no change and more than {percent}: measure more runs."


def _exp(interval: stats.Interval | None) -> tuple[float, float] | None:
    return None if interval is None else (math.exp(interval.low), math.exp(interval.high))


def _claim(b: Sequence[Observation]) -> float | None:
    return next((each.row.claimed_speedup for each in b if each.row.claimed_speedup is not None), None)


def _decimals(claim: float) -> int:
    return len(f"{claim!r}".removesuffix(".0").partition(".")[2])


def _claim_follows(claim: float, decimals: int, evidence: _Evidence) -> bool:
    """Whether the claim is what the log's own figures give, each taken to the digits that are printed.

    Claims of one log are printed to one number of digits, which is that of the longest; 1.80 is read as 1.8.
    """
    if evidence.rounding is None:
        return False
    half = 0.5 * 10.0**-decimals
    return evidence.rounding[0] <= claim + half and claim - half <= evidence.rounding[1]
