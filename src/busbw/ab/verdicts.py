"""Speed-ups and verdicts from quadruples of blocks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from busbw.ab.blocks import Block, median_us
from busbw.compare.figures import side_figures
from busbw.compare.pairing import adjacent_sizes, both_placements
from busbw.compare.quantities import have_device_times
from busbw.compare.result import ChangeVerdict, PointKey, SideFigures, SizeResult, TimeQuantity
from busbw.statistics import stats


@dataclass(frozen=True)
class Quadruple:
    """Four consecutive blocks."""

    order: str
    """Sides of the blocks: 'ABBA' or 'BAAB'."""
    blocks: tuple[Block, Block, Block, Block]

    def of(self, side: str) -> list[Block]:
        """Returns the two blocks of a side."""
        return [block for letter, block in zip(self.order, self.blocks, strict=True) if letter == side]


@dataclass(frozen=True)
class AbVerdicts:
    """Results of all points."""

    results: tuple[SizeResult, ...]
    level: float
    """Confidence level of each single interval. 0 without intervals."""
    undecidable: frozenset[PointKey] = frozenset()
    """Points that more quadruples cannot decide."""

    @property
    def is_decided(self) -> bool:
        """True if further quadruples cannot add a verdict."""
        return all(
            result.verdict is not ChangeVerdict.UNCLEAR or result.point in self.undecidable for result in self.results
        )


def compared(points: Sequence[PointKey], quadruples: Sequence[Quadruple]) -> TimeQuantity:
    """Selects the compared time: the device time if every block has it at every point, otherwise the median.

    The device time is measured over many operations. A sample of a single operation includes about a microsecond for
    an event on both sides, which hides differences of short operations.
    """
    blocks = [block for quadruple in quadruples for block in quadruple.blocks]
    figures = [block[point] for block in blocks for point in points if point in block]
    return "device_time_us" if have_device_times(figures) else "median_us"


def speedups(points: Sequence[PointKey], quadruples: Sequence[Quadruple]) -> stats.Matrix:
    """Logarithm of B's speed over A's. One row per quadruple, one column per point."""
    quantity = compared(points, quadruples)
    rows = []
    for quadruple in quadruples:
        times = [np.array([_time_us(block, point, quantity) for point in points]) for block in quadruple.blocks]
        difference = stats.quadruple_difference(*times)
        rows.append(-difference if quadruple.order == "ABBA" else difference)
    return np.array(rows).reshape(len(quadruples), len(points))


def _time_us(block: Block, point: PointKey, quantity: TimeQuantity) -> float:
    if point not in block:
        return math.nan
    time = block[point].device_time_us if quantity == "device_time_us" else median_us(block[point])
    return time if time and time > 0 else math.nan


def judge(
    points: Sequence[PointKey],
    quadruples: Sequence[Quadruple],
    *,
    alpha: float,
    resolution: float,
    unfit: frozenset[PointKey] = frozenset(),
) -> AbVerdicts:
    """Judges each point.

    Args:
        points: Points to compare.
        quadruples: All of them so far.
        alpha: Probability that any point is called changed if none is.
        resolution: Smallest relative change that matters.
        unfit: Points at which A differed from itself in the noise measurement. They stay UNCLEAR.
    """
    matrix = speedups(points, quadruples)
    quantity = compared(points, quadruples)
    measured = [i for i in range(len(points)) if len(matrix) and np.isfinite(matrix[:, i]).all()]
    kept = [points[i] for i in measured]
    neighbors = [*adjacent_sizes(kept), *both_placements(kept)]
    judged = stats.judge_quadruples(matrix[:, measured], neighbors, alpha=alpha)
    paired = {index for pair in neighbors for index in pair}
    by_point = {
        point: (interval, changed, index not in paired)
        for index, (point, interval, changed) in enumerate(zip(kept, judged.intervals, judged.changed, strict=True))
    }
    results = []
    for point in points:
        interval, changed, alone = by_point.get(point, (None, False, False))
        verdict, reason = _verdict(interval, changed, alone, resolution, is_measured=point in by_point)
        if point in unfit:
            verdict, reason = ChangeVerdict.UNCLEAR, "A differed from itself here in the noise measurement."
        results.append(
            SizeResult(
                point=point,
                a=_figures(point, quadruples, "A"),
                b=_figures(point, quadruples, "B"),
                speedup=None if interval is None else math.exp(interval.estimate),
                interval=None if interval is None else (math.exp(interval.low), math.exp(interval.high)),
                compared=quantity,
                basis="blocks",
                verdict=verdict,
                reason=reason,
            )
        )
    # A point without a time in one quadruple is never decided, because all quadruples are used.
    missing = frozenset(points) - frozenset(kept) if quadruples else frozenset()
    return AbVerdicts(tuple(results), judged.level, unfit | missing)


def _verdict(
    interval: stats.Interval | None, changed: bool, alone: bool, resolution: float, *, is_measured: bool
) -> tuple[ChangeVerdict, str]:
    if not is_measured:
        return ChangeVerdict.UNCLEAR, "not every block has a time for this point."
    if interval is None:
        return ChangeVerdict.UNCLEAR, "too few quadruples for an interval."
    if changed:
        confirmation = "there is no neighbor to confirm it" if alone else "a neighbor agrees"
        return (
            ChangeVerdict.FASTER if interval.low > 0 else ChangeVerdict.SLOWER
        ), f"the interval excludes 1, and {confirmation}."
    step = math.log1p(resolution)
    if -step <= interval.low and interval.high <= step:
        return ChangeVerdict.SAME, f"no difference as large as {resolution * 100:g} %."
    if interval.excludes_zero:
        return ChangeVerdict.UNCLEAR, "the interval excludes 1, but no neighbor agrees."
    return ChangeVerdict.UNCLEAR, f"the interval includes both no change and a change above {resolution * 100:g} %."


def _figures(point: PointKey, quadruples: Sequence[Quadruple], side: str) -> SideFigures:
    return side_figures([block[point] for each in quadruples for block in each.of(side) if point in block])


def noise(points: Sequence[PointKey], quadruples: Sequence[Quadruple]) -> dict[PointKey, float]:
    """Median relative difference of A against itself over the quadruples, per point."""
    matrix = np.abs(speedups(points, quadruples))
    return {
        point: math.expm1(float(np.median(matrix[:, i])))
        for i, point in enumerate(points)
        if len(matrix) and np.isfinite(matrix[:, i]).all()
    }
