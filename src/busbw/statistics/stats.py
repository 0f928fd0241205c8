"""How sure a difference is: pure functions from figures to intervals. docs/comparison.md has the reasons.

Times are compared by the logarithm of their ratio, so that twice as fast and half as fast are equally far from equal.
Three units of observation, each with its function: quadruples of interleaved blocks (`judge_quadruples`), whole runs
(`mean_difference`), stretches of iterations within one run (`stretch_summary`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import special

Vector: TypeAlias = NDArray[np.float64]
Matrix: TypeAlias = NDArray[np.float64]

_RELABELLINGS = 20_000
"""Random relabellings where there are too many to go through; they bound a level of 0.1 % to about a quarter of it."""
_ALL_UP_TO_QUADRUPLES = 13
"""Up to here all 2^n relabellings are gone through."""
_MIN_LEVEL = 0.95
"""No interval promises less, whatever the rule over all sizes would allow."""

MIN_STRETCHES = 4
_STRETCHES = 16
_MIN_STRETCH = 5
"""Iterations of a stretch: a median of fewer is hardly one."""


def slowest_rank_us(samples_us: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """The time of each iteration: that of its slowest rank, since an operation has ended when its last rank has."""
    return tuple(max(ranks) for ranks in zip(*samples_us, strict=True))


@dataclass(frozen=True)
class Interval:
    """An estimate and where the truth lies, in logarithms of a ratio."""

    estimate: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether there is a difference."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class QuadrupleTest:
    """What quadruples of interleaved blocks say about every row at once."""

    intervals: tuple[Interval | None, ...]
    """Of the median over quadruples, per row; None where there are too few quadruples for any."""
    changed: tuple[bool, ...]
    """The interval excludes zero and a neighbour's does so on the same side."""
    level: float
    """Of each interval by itself; the rule for changes holds over all rows together."""
    quadruples: int


def quadruple_difference(first: Vector, second: Vector, third: Vector, fourth: Vector) -> Vector:
    """Of four blocks in the order of time, X Y Y X: log time of Y less that of X, free of a steady drift."""
    difference: Vector = (np.log(second) + np.log(third) - np.log(first) - np.log(fourth)) / 2
    return difference


def judge_quadruples(
    differences: Matrix, neighbours: Sequence[tuple[int, int]], *, alpha: float, seed: int = 0
) -> QuadrupleTest:
    """Decides which rows differ, from one difference per quadruple (row of the matrix) and table row (column).

    A coin chose for each quadruple which side came first. If the sides do not differ, the coin chose nothing but the
    sign of all its differences; so flipping the signs of whole quadruples shows what chance does, with the correlation
    of sizes, drifts, bursts and several modes of the machine as they are. The statistic is that of the sign test: by
    how many quadruples B was ahead. Its limit is the least for which at most `alpha` of all relabellings would call any
    row changed under the very rule that is applied: the row and a neighbour, both beyond it, on the same side.

    Args:
        differences: Quadruples by rows of the table, as `quadruple_difference` gives them with the coin undone.
        neighbours: Pairs of columns that must agree; a column in no pair stands for itself.
        alpha: The chance to call anything changed when nothing is.
        seed: Of the relabellings.
    """
    quadruples, rows = differences.shape
    paired = {row for pair in neighbours for row in pair}
    pairs = [*neighbours, *((row, row) for row in range(rows) if row not in paired)]
    limit = max(_chance_limit(np.sign(differences), pairs, alpha, seed), _interval_limit(quadruples))
    place = quadruples - (quadruples + limit + 1) // 2  # of the lower end among the sorted differences, from 0
    if limit > quadruples or rows == 0:
        return QuadrupleTest((None,) * rows, (False,) * rows, 0.0, quadruples)
    ordered = np.sort(differences, axis=0)
    intervals = tuple(
        Interval(float(np.median(ordered[:, row])), float(ordered[place, row]), float(ordered[-1 - place, row]))
        for row in range(rows)
    )
    side = [1 if interval.low > 0 else -1 if interval.high < 0 else 0 for interval in intervals]
    agreeing = {row for pair in pairs if side[pair[0]] * side[pair[1]] > 0 for row in pair}
    level = _level(place, quadruples)
    return QuadrupleTest(intervals, tuple(row in agreeing for row in range(rows)), level, quadruples)


def _chance_limit(signs: Matrix, pairs: Sequence[tuple[int, int]], alpha: float, seed: int) -> int:
    """The least lead that chance gives to a row and its neighbour with a probability of at most `alpha`."""
    quadruples = len(signs)
    if not pairs:
        return quadruples + 1
    coins = _relabellings(quadruples, seed)
    leads = coins @ signs.astype(np.float32)
    strongest = np.zeros(len(coins), dtype=np.float32)
    for one, other in pairs:
        a, b = leads[:, one], leads[:, other]
        np.maximum(strongest, np.where(a * b > 0, np.minimum(np.abs(a), np.abs(b)), 0), out=strongest)
    counts = np.bincount(np.rint(strongest).astype(np.int64), minlength=quadruples + 2)
    reached = counts[::-1].cumsum()[::-1]  # how many relabellings give at least this lead
    extra = 0 if len(coins) == 2**quadruples else 1  # the labelling that was drawn is one of the random ones
    allowed = np.flatnonzero((reached + extra) / (len(coins) + extra) <= alpha)
    return int(allowed[0]) if len(allowed) else quadruples + 1


def _relabellings(quadruples: int, seed: int) -> NDArray[np.float32]:
    if quadruples <= _ALL_UP_TO_QUADRUPLES:
        numbers = np.arange(2**quadruples)
        bits = (numbers[:, None] >> np.arange(quadruples)) & 1
    else:
        bits = np.random.default_rng(seed).integers(0, 2, size=(_RELABELLINGS, quadruples))
    return (2 * bits - 1).astype(np.float32)


def _level(place: int, quadruples: int) -> float:
    """With which an interval from the sorted difference number `place` to the one as far from the end holds the median.

    Each difference lies above or below it as a fair coin falls. (scipy.stats takes three times as long to import.)
    """
    return 1 - 2 * float(special.bdtr(place, quadruples, 0.5))


def _interval_limit(quadruples: int) -> int:
    """The least lead for which the interval of a row by itself has the least level."""
    for place in range(quadruples // 2, -1, -1):
        if _level(place, quadruples) >= _MIN_LEVEL:
            return quadruples - 2 * place
    return quadruples + 1


@dataclass(frozen=True)
class SampleSummary:
    """Observations of one side, as far as a mean needs them."""

    mean: float
    variance_of_mean: float
    degrees_of_freedom: float
    spread: float = 0.0
    """Of single observations: the distance of the quartiles."""
    rounding: float = 0.0
    """How far the mean may be off because its observations are printed to so many digits."""


def run_summary(times: Sequence[float], half_digit: float = 0.0) -> SampleSummary:
    """Of independent runs, at least two, by the logarithms of their times.

    Args:
        times: One for each run.
        half_digit: How far rounding may have moved each of them.
    """
    values = np.asarray(times, dtype=np.float64)
    logarithms = np.log(values)
    variance = float(logarithms.var(ddof=1)) / len(values)
    lowest = values - half_digit
    rounding = float(np.log(values / lowest).mean()) if (lowest > 0).all() else math.inf
    return SampleSummary(float(logarithms.mean()), variance, len(values) - 1, rounding=rounding)


def stretch_summary(times_us: Sequence[float]) -> SampleSummary | None:
    """Of the iterations of one run, which are not independent: neighbours share what the machine does just then.

    The run is cut into stretches, and each counts as one observation by its median. Where stretches still resemble
    their neighbours, the variance is raised by what a process with that correlation would need. The mean is the
    logarithm of the median over all iterations. None where there are too few iterations.
    """
    values = np.asarray(times_us, dtype=np.float64)
    values = values[np.isfinite(values) & (values > 0)]
    stretches = min(_STRETCHES, len(values) // _MIN_STRETCH)
    if stretches < MIN_STRETCHES:
        return None
    medians = np.log([float(np.median(part)) for part in np.array_split(values, stretches)])
    centred = medians - medians.mean()
    power = float(centred @ centred)
    correlation = float(centred[1:] @ centred[:-1]) / power if power else 0.0
    # For a first-order process: the variance of a mean grows by (1 + r) / (1 - r), the observations shrink by it.
    inflation = (1 + correlation) / (1 - correlation) if 0 < correlation < 1 else 1.0
    variance = power / (stretches - 1) / stretches * inflation
    low, middle, high = np.log(np.quantile(values, [0.25, 0.5, 0.75]))
    return SampleSummary(float(middle), variance, max(1.0, stretches / inflation - 1), float(high - low))


def mean_difference(a: SampleSummary, b: SampleSummary, *, alpha: float) -> Interval:
    """A's mean less B's with the interval of Welch's test: the logarithm of B's speed over A's.

    It is wider by what rounding leaves open: runs that print the same figure do not agree beyond its last digit.
    """
    estimate = a.mean - b.mean
    variance, rounding = a.variance_of_mean + b.variance_of_mean, a.rounding + b.rounding
    if variance <= 0:
        return Interval(estimate, estimate - rounding, estimate + rounding)
    # Welch and Satterthwaite: the degrees of freedom of a sum of two variances.
    freedom = variance**2 / (
        a.variance_of_mean**2 / a.degrees_of_freedom + b.variance_of_mean**2 / b.degrees_of_freedom
    )
    half = float(special.stdtrit(freedom, 1 - alpha / 2)) * variance**0.5 + rounding
    return Interval(estimate, estimate - half, estimate + half)


def rounding_bounds(value: float) -> tuple[float, float]:
    """What a printed figure may have been before it was rounded to the digits that it shows.

    Zeros at its end are lost in reading, so the bounds may be too wide and are never too narrow.
    """
    half = half_digit(value)
    return value - half, value + half


def half_digit(value: float) -> float:
    """Half of the last digit that a printed figure shows."""
    text = f"{value!r}".removesuffix(".0")
    mantissa, _, exponent = text.partition("e")
    return 0.5 * 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
