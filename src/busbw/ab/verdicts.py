"""From quadruples of blocks to a comparison."""

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
    """Four blocks in the order of time."""

    order: str
    """'ABBA' or 'BAAB'."""
    blocks: tuple[Block, Block, Block, Block]

    def of(self, side: str) -> list[Block]:
        """The two blocks of a side."""
        return [block for letter, block in zip(self.order, self.blocks, strict=True) if letter == side]


@dataclass(frozen=True)
class AbVerdicts:
    """What the quadruples say."""

    results: tuple[SizeResult, ...]
    level: float
    """Of each interval by itself; 0 where there are none."""
    undecidable: frozenset[PointKey] = frozenset()
    """Points that stay without a verdict however many quadruples come."""

    @property
    def is_decided(self) -> bool:
        """Whether no further quadruple could add a verdict."""
        return all(
            result.verdict is not ChangeVerdict.UNCLEAR or result.point in self.undecidable for result in self.results
        )


def compared(points: Sequence[PointKey], quadruples: Sequence[Quadruple]) -> TimeQuantity:
    """What the speed-ups are of: the device's time where every block has it at every point, otherwise the median.

    The device's time is between the first and the last of many operations. A sample of a single one holds an event,
    some microsecond, which is much of a short one and the same on both sides.
    """
    blocks = [block for quadruple in quadruples for block in quadruple.blocks]
    figures = [block[point] for block in blocks for point in points if point in block]
    return "device_time_us" if have_device_times(figures) else "median_us"


def speedups(points: Sequence[PointKey], quadruples: Sequence[Quadruple]) -> stats.Matrix:
    """Log of B's speed over A's, per quadruple and point."""
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
    """A verdict for each point.

    Args:
        points: What is compared.
        quadruples: All of them so far.
        alpha: The chance to call any point changed when none is.
        resolution: The smallest relative change that matters.
        unfit: Points at which A differed from itself when the noise was measured; they get no verdict.
    """
    matrix = speedups(points, quadruples)
    quantity = compared(points, quadruples)
    measured = [i for i in range(len(points)) if len(matrix) and np.isfinite(matrix[:, i]).all()]
    kept = [points[i] for i in measured]
    neighbours = [*adjacent_sizes(kept), *both_placements(kept)]
    judged = stats.judge_quadruples(matrix[:, measured], neighbours, alpha=alpha)
    paired = {index for pair in neighbours for index in pair}
    by_point = {
        point: (interval, changed, index not in paired)
        for index, (point, interval, changed) in enumerate(zip(kept, judged.intervals, judged.changed, strict=True))
    }
    results = []
    for point in points:
        interval, changed, alone = by_point.get(point, (None, False, False))
        verdict, reason = _verdict(interval, changed, alone, resolution, is_measured=point in by_point)
        if point in unfit:
            verdict, reason = ChangeVerdict.UNCLEAR, "A differed from itself here when the noise was measured."
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
    # A point that lacks a time in one quadruple lacks it for good.
    missing = frozenset(points) - frozenset(kept) if quadruples else frozenset()
    return AbVerdicts(tuple(results), judged.level, unfit | missing)


def _verdict(
    interval: stats.Interval | None, changed: bool, alone: bool, resolution: float, *, is_measured: bool
) -> tuple[ChangeVerdict, str]:
    if not is_measured:
        return ChangeVerdict.UNCLEAR, "not every block has a time for it."
    if interval is None:
        return ChangeVerdict.UNCLEAR, "too few quadruples for an interval."
    if changed:
        who = "there is no neighbour to ask" if alone else "a neighbour agrees"
        return (
            ChangeVerdict.FASTER if interval.low > 0 else ChangeVerdict.SLOWER
        ), f"the interval excludes 1, and {who}."
    step = math.log1p(resolution)
    if -step <= interval.low and interval.high <= step:
        return ChangeVerdict.SAME, f"no difference as large as {resolution * 100:g} %."
    if interval.excludes_zero:
        return ChangeVerdict.UNCLEAR, "the interval excludes 1, but no neighbour agrees."
    return ChangeVerdict.UNCLEAR, f"the interval holds both no change and more than {resolution * 100:g} %."


def _figures(point: PointKey, quadruples: Sequence[Quadruple], side: str) -> SideFigures:
    return side_figures([block[point] for each in quadruples for block in each.of(side) if point in block])


def noise(points: Sequence[PointKey], quadruples: Sequence[Quadruple]) -> dict[PointKey, float]:
    """By how much a quadruple of A against itself is off, per point: the median over quadruples, as a share."""
    matrix = np.abs(speedups(points, quadruples))
    return {
        point: math.expm1(float(np.median(matrix[:, i])))
        for i, point in enumerate(points)
        if len(matrix) and np.isfinite(matrix[:, i]).all()
    }
