"""Speed-ups and verdicts from quadruples of blocks.

Statistics work on a matrix: one row per quadruple, one column per point, values log(speed of B / speed of A). Neighbors
of a point are the next smaller and larger size, and the other placement. A point counts as changed if its interval and
the interval of a neighbor exclude 0 on the same side. A point without neighbors needs only its own interval.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from busbw.ab.blocks import Block, median_us
from busbw.compare.figures import PointFigures, have_device_times, side_figures
from busbw.compare.pairing import adjacent_sizes, both_placements
from busbw.compare.result import ChangeVerdict, PointKey, SideFigures, SizeResult, TimeQuantity
from busbw.statistics import stats


@dataclass(frozen=True)
class Quadruple:
    """Four consecutive blocks, two of each side."""

    order: str
    """Sides of the blocks: 'ABBA' or 'BAAB'."""
    blocks: tuple[Block, Block, Block, Block]

    def blocks_of(self, side: str) -> list[Block]:
        """Returns the two blocks of a side."""
        return [block for letter, block in zip(self.order, self.blocks, strict=True) if letter == side]


@dataclass(frozen=True)
class AbVerdicts:
    """Results of all points."""

    results: tuple[SizeResult, ...]
    level: float
    """Confidence level of each single interval, as a fraction. 0 without intervals."""
    undecidable: frozenset[PointKey] = frozenset()
    """Points that more quadruples cannot decide."""

    @property
    def is_decided(self) -> bool:
        """True if further quadruples cannot add a verdict."""
        return all(
            result.verdict is not ChangeVerdict.UNCLEAR or result.point in self.undecidable for result in self.results
        )


def select_quantity(points: Sequence[PointKey], quadruples: Sequence[Quadruple]) -> TimeQuantity:
    """Selects the compared time: the device time if all figures of the blocks have it, otherwise the median.

    The median is of single operations, each with about 1 us for its CUDA event. This constant part is the same for A
    and B, so it hides differences between short operations. The device time is of many operations, so it is better.
    """
    blocks = [block for quadruple in quadruples for block in quadruple.blocks]
    figures = [block[point] for block in blocks for point in points if point in block]
    return "device_time_us" if have_device_times(PointFigures(figures)) else "median_us"


def log_speedups(points: Sequence[PointKey], quadruples: Sequence[Quadruple]) -> stats.Matrix:
    """Returns log(speed of B / speed of A), with one row per quadruple and one column per point."""
    quantity = select_quantity(points, quadruples)
    rows = []
    for quadruple in quadruples:
        times = [np.array([_time_us(block, point, quantity) for point in points]) for block in quadruple.blocks]
        # log(middle time / outer time). Times are the inverse of speeds, so this is log(outer speed / middle speed).
        log_middle_to_outer = stats.quadruple_difference(*times)
        is_b_in_middle = quadruple.order == "ABBA"
        rows.append(-log_middle_to_outer if is_b_in_middle else log_middle_to_outer)
    return np.array(rows).reshape(len(quadruples), len(points))


def _time_us(block: Block, point: PointKey, quantity: TimeQuantity) -> float:
    if point not in block:
        return math.nan
    time = block[point].device_time_us if quantity == "device_time_us" else median_us(block[point])
    if time is None or time <= 0:
        return math.nan
    return time


def judge(
    points: Sequence[PointKey],
    quadruples: Sequence[Quadruple],
    *,
    alpha: float,
    resolution: float,
    noisy: frozenset[PointKey] = frozenset(),
) -> AbVerdicts:
    """Judges each point.

    Args:
        points: Points to compare.
        quadruples: All quadruples of A and B so far.
        alpha: Maximum probability that any point is called changed if none is.
        resolution: Smallest relative change that matters.
        noisy: Points at which A differed from itself in the noise measurement. They stay UNCLEAR.
    """
    matrix = log_speedups(points, quadruples)
    quantity = select_quantity(points, quadruples)
    measured_columns = _measured_columns(matrix)
    measured = [points[column] for column in measured_columns]
    neighbors = [*adjacent_sizes(measured), *both_placements(measured)]  # pairs of indexes in `measured`
    judged = stats.judge_quadruples(matrix[:, measured_columns], neighbors, alpha=alpha)
    indexes_with_neighbor = {index for pair in neighbors for index in pair}
    results = []
    for point in points:
        verdict, reason = ChangeVerdict.UNCLEAR, "not every block has a time for this point."
        interval = None
        if point in measured:
            index = measured.index(point)
            interval = judged.intervals[index]
            verdict, reason = _decide_verdict(
                interval,
                is_changed=judged.changed[index],
                has_neighbor=index in indexes_with_neighbor,
                resolution=resolution,
            )
        if point in noisy:
            verdict, reason = ChangeVerdict.UNCLEAR, "A differed from itself here in the noise measurement."
        result = SizeResult(
            point=point,
            a=_figures(point, quadruples, "A"),
            b=_figures(point, quadruples, "B"),
            speedup=None if interval is None else math.exp(interval.estimate),
            interval=interval.ratios if interval else None,
            compared=quantity,
            basis="blocks",
            verdict=verdict,
            reason=reason,
        )
        results.append(result)
    # More quadruples do not help a point that lacks a time in one of them, because the test uses all quadruples.
    incomplete = frozenset(points) - frozenset(measured) if quadruples else frozenset()
    return AbVerdicts(tuple(results), judged.level, noisy | incomplete)


def _measured_columns(matrix: stats.Matrix) -> list[int]:
    """Columns with a finite value in every row. Empty without rows."""
    return [column for column in range(matrix.shape[1]) if len(matrix) and np.isfinite(matrix[:, column]).all()]


def _decide_verdict(
    interval: stats.Interval | None, *, is_changed: bool, has_neighbor: bool, resolution: float
) -> tuple[ChangeVerdict, str]:
    """Returns the verdict on a measured point, and its reason. `interval` is of log(speed of B / speed of A)."""
    if interval is None:
        return ChangeVerdict.UNCLEAR, "too few quadruples for an interval."
    if is_changed:
        verdict = ChangeVerdict.FASTER if interval.low > 0 else ChangeVerdict.SLOWER
        confirmation = "a neighbor agrees" if has_neighbor else "there is no neighbor to confirm it"
        return verdict, f"the interval excludes 1, and {confirmation}."
    log_resolution = math.log1p(resolution)
    if -log_resolution <= interval.low and interval.high <= log_resolution:
        return ChangeVerdict.SAME, f"no difference as large as {resolution * 100:g} %."
    if interval.excludes_zero:
        return ChangeVerdict.UNCLEAR, "the interval excludes 1, but no neighbor agrees."
    return ChangeVerdict.UNCLEAR, f"the interval includes both no change and a change above {resolution * 100:g} %."


def _figures(point: PointKey, quadruples: Sequence[Quadruple], side: str) -> SideFigures:
    blocks = [block for quadruple in quadruples for block in quadruple.blocks_of(side)]
    return side_figures(PointFigures(block[point] for block in blocks if point in block))


def noise(points: Sequence[PointKey], quadruples: Sequence[Quadruple]) -> dict[PointKey, float]:
    """Median relative difference of A against itself over the quadruples, for each point with a time in all blocks."""
    matrix = np.abs(log_speedups(points, quadruples))
    return {points[column]: math.expm1(float(np.median(matrix[:, column]))) for column in _measured_columns(matrix)}
