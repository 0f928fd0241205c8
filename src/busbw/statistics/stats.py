"""Confidence intervals of differences, as pure functions. docs/explanation/comparison.md explains the methods.

Times are compared by the logarithm of their ratio, so that twice as fast and half as fast are equally far from equal.
A block is one start of the engine. A quadruple is four consecutive blocks of the compared sides A and B, in the order
A B B A or B A A B. One observation is a quadruple (`judge_quadruples`), a whole run (`run_summary`), or a stretch of
consecutive iterations of one run (`stretch_summary`). `mean_difference` compares two summaries. A table row is the
comparison of one size in one placement.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]
Matrix: TypeAlias = NDArray[np.float64]

_RANDOM_RELABELINGS = 20_000
"""Number of random relabelings (see `judge_quadruples`), if there are too many relabelings to enumerate.

An estimated probability of 0.1 % then has an error of about a quarter."""
_MAX_ENUMERATED_QUADRUPLES = 13
"""Up to this number of quadruples, all 2^n relabelings are enumerated."""
_MIN_LEVEL = 0.95
"""Minimum confidence level of each interval, even if `alpha` of `judge_quadruples` permits less."""

MIN_STRETCHES = 4
"""Minimum number of stretches for a variance."""
_MAX_STRETCHES = 16
"""Maximum number of stretches. A stretch is a range of consecutive iterations of one run."""
_MIN_STRETCH_ITERATIONS = 5
"""The median of fewer iterations is not reliable."""


def slowest_rank_us(samples_us: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Returns the time of each iteration from the times per rank: an operation ends with its last rank."""
    return tuple(max(rank_times) for rank_times in zip(*samples_us, strict=True))


@dataclass(frozen=True)
class Interval:
    """Estimate with its confidence interval, as logarithms of a ratio."""

    estimate: float
    low: float
    high: float

    @property
    def ratios(self) -> tuple[float, float]:
        """Bounds of the ratio."""
        return math.exp(self.low), math.exp(self.high)

    @property
    def excludes_zero(self) -> bool:
        """True if the difference is significant."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class QuadrupleTest:
    """Result of the test on quadruples of interleaved blocks, for all table rows together."""

    intervals: tuple[Interval | None, ...]
    """Interval of the median over quadruples, per row. None if there are too few quadruples."""
    changed: tuple[bool, ...]
    """True per row if the intervals of the row and of a neighbor exclude zero on the same side.

    A row without neighbors needs only its own interval. `alpha` of `judge_quadruples` holds for all rows together."""
    level: float
    """Confidence level of each single interval. 0 without intervals."""


def quadruple_difference(first: Vector, second: Vector, third: Vector, fourth: Vector) -> Vector:
    """Returns log(time of Y / time of X), the mean of both pairs of blocks in X Y Y X. A linear drift cancels out."""
    difference: Vector = (np.log(second) + np.log(third) - np.log(first) - np.log(fourth)) / 2
    return difference


def judge_quadruples(
    differences: Matrix, neighbors: Sequence[tuple[int, int]], *, alpha: float, seed: int = 0
) -> QuadrupleTest:
    """Decides which table rows differ between the sides, by a permutation test on signs.

    The lead of a side in a row is the statistic of the sign test: the number of quadruples in which that side is faster
    minus the number in which it is slower. A change is reported if the lead in a row and in its neighbor reaches a
    limit for the same side. A row in no pair needs only its own lead.

    A relabeling flips the signs of all differences in any number of whole quadruples, as if these had the opposite
    order of sides. The order is random, so all relabelings are equally probable if the sides do not differ. Then the
    leads of all relabelings are the distribution under chance. Relabelings preserve the correlation of sizes, drifts,
    bursts and the modes of the machine.

    The limit is the smallest lead for which at most `alpha` of all relabelings report any change. The limit is larger
    if the intervals would otherwise have a level below `_MIN_LEVEL`.

    Args:
        differences: Logarithms of the ratio of both sides, with one matrix row per quadruple and one column per table
            row. The intervals have the same sign.
        neighbors: Pairs of columns that must agree. A column in no pair is tested alone.
        alpha: Probability of reporting any change if the sides do not differ.
        seed: Seed of the random relabelings.
    """
    quadruples, rows = differences.shape
    paired = {row for pair in neighbors for row in pair}
    pairs_with_itself = [(row, row) for row in range(rows) if row not in paired]
    pairs = [*neighbors, *pairs_with_itself]
    limit = max(_chance_limit(np.sign(differences), pairs, alpha, seed), _interval_limit(quadruples))
    if limit > quadruples or rows == 0:
        return QuadrupleTest((None,) * rows, (False,) * rows, 0.0)
    # A row's interval excludes zero if one side is faster in at least this number of quadruples. Without ties this is a
    # lead of `limit`, because faster - slower = limit and faster + slower = quadruples. With ties (difference 0) fewer
    # suffice for such a lead, so the intervals are stricter than the limit.
    min_faster_count = math.ceil((quadruples + limit) / 2)
    low_index = quadruples - min_faster_count  # index of the lower bound in the sorted differences
    ordered = np.sort(differences, axis=0)
    intervals = tuple(
        Interval(float(np.median(ordered[:, row])), float(ordered[low_index, row]), float(ordered[-1 - low_index, row]))
        for row in range(rows)
    )
    agreeing_pairs = [pair for pair in pairs if _show_same_change(intervals[pair[0]], intervals[pair[1]])]
    changed_rows = {row for pair in agreeing_pairs for row in pair}
    level = _level(low_index, quadruples)
    return QuadrupleTest(intervals, tuple(row in changed_rows for row in range(rows)), level)


def _show_same_change(first: Interval, second: Interval) -> bool:
    """True if both intervals exclude zero on the same side."""
    return (first.low > 0 and second.low > 0) or (first.high < 0 and second.high < 0)


def _chance_limit(signs: Matrix, pairs: Sequence[tuple[int, int]], alpha: float, seed: int) -> int:
    """Returns the smallest lead that any pair of rows reaches by chance with a probability of at most `alpha`.

    Returns the number of quadruples plus 1, which no lead reaches, if there is no such lead.
    """
    quadruples = len(signs)
    if not pairs:
        return quadruples + 1
    relabelings = _relabelings(quadruples, seed)
    leads = relabelings @ signs.astype(np.float32)
    # Per relabeling, the largest lead that both rows of any pair reach for the same side.
    max_common_leads = np.zeros(len(relabelings), dtype=np.float32)
    for row, neighbor in pairs:
        row_leads, neighbor_leads = leads[:, row], leads[:, neighbor]
        smaller_leads = np.minimum(np.abs(row_leads), np.abs(neighbor_leads))
        common_leads = np.where(row_leads * neighbor_leads > 0, smaller_leads, 0)
        np.maximum(max_common_leads, common_leads, out=max_common_leads)
    counts = np.bincount(np.rint(max_common_leads).astype(np.int64), minlength=quadruples + 2)
    reached = counts[::-1].cumsum()[::-1]  # by lead: number of relabelings with at least this lead
    # All relabelings together include the measured one. Random relabelings may not, so the measured one is added.
    added = 0 if len(relabelings) == 2**quadruples else 1
    allowed = np.flatnonzero((reached + added) / (len(relabelings) + added) <= alpha)
    return int(allowed[0]) if len(allowed) else quadruples + 1


def _relabelings(quadruples: int, seed: int) -> NDArray[np.float32]:
    """Returns one relabeling per row, with 1 or -1 per quadruple: all of them, or random ones."""
    if quadruples <= _MAX_ENUMERATED_QUADRUPLES:
        # Relabeling number n has the binary digits of n: with 3 quadruples, 6 is 110, which gives -1, 1, 1.
        numbers = np.arange(2**quadruples)
        bits = (numbers[:, None] >> np.arange(quadruples)) & 1
    else:
        bits = np.random.default_rng(seed).integers(0, 2, size=(_RANDOM_RELABELINGS, quadruples))
    return (2 * bits - 1).astype(np.float32)


def _level(low_index: int, quadruples: int) -> float:
    """Returns the confidence level of the median's interval from sorted difference `low_index` to `-1 - low_index`.

    Each difference is below the median with probability 1/2, so the number of those below is binomially distributed.
    The import is local, because scipy is slow to import and most commands compute no interval. scipy.special has this
    distribution, and takes a third of the import time of scipy.stats.
    """
    from scipy import special

    return 1 - 2 * float(special.bdtr(low_index, quadruples, 0.5))


def _interval_limit(quadruples: int) -> int:
    """Returns the smallest lead for which a single row's interval has at least the level `_MIN_LEVEL`.

    Returns the number of quadruples plus 1 if there is no such lead.
    """
    for low_index in range(quadruples // 2, -1, -1):
        if _level(low_index, quadruples) >= _MIN_LEVEL:
            return quadruples - 2 * low_index  # `judge_quadruples` computes `low_index` from this lead
    return quadruples + 1


@dataclass(frozen=True)
class SampleSummary:
    """Typical time of one side, with the variance of this estimate. All fields are of logarithms of times."""

    mean: float
    """Mean over the runs, or the median over the iterations of one run."""
    variance_of_mean: float
    degrees_of_freedom: float
    spread: float = 0.0
    """Interquartile range of the iterations of one run. 0 in a summary of several runs."""
    rounding: float = 0.0
    """Maximum error of the mean due to the rounding of printed observations. Infinite if a time may have been 0."""


def run_summary(times: Sequence[float], max_rounding_error: float = 0.0) -> SampleSummary:
    """Summarizes at least two independent runs by the logarithms of their times.

    Args:
        times: One time per run.
        max_rounding_error: Maximum rounding error of each time.
    """
    values = np.asarray(times, dtype=np.float64)
    logarithms = np.log(values)
    variance = float(logarithms.var(ddof=1)) / len(values)
    min_values = values - max_rounding_error
    rounding = float(np.log(values / min_values).mean()) if (min_values > 0).all() else math.inf
    return SampleSummary(float(logarithms.mean()), variance, len(values) - 1, rounding=rounding)


def stretch_summary(times_us: Sequence[float]) -> SampleSummary | None:
    """Summarizes the iterations of one run, which are correlated because consecutive ones share the machine's state.

    The run is divided into stretches, and the median of each is one observation. If consecutive stretches are still
    correlated, the variance is increased accordingly. The mean is the logarithm of the median over all iterations. None
    if there are too few iterations.
    """
    values = np.asarray(times_us, dtype=np.float64)
    values = values[np.isfinite(values) & (values > 0)]
    stretches = min(_MAX_STRETCHES, len(values) // _MIN_STRETCH_ITERATIONS)
    if stretches < MIN_STRETCHES:
        return None
    log_medians = np.log([float(np.median(stretch)) for stretch in np.array_split(values, stretches)])
    centered = log_medians - log_medians.mean()
    sum_of_squares = float(centered @ centered)
    correlation = float(centered[1:] @ centered[:-1]) / sum_of_squares if sum_of_squares else 0.0
    # Assumes a first-order autoregressive process. If neighbors have the correlation r, the factor (1 + r) / (1 - r)
    # multiplies the variance of the mean and divides the number of effective observations.
    inflation = (1 + correlation) / (1 - correlation) if 0 < correlation < 1 else 1.0
    variance_of_mean = sum_of_squares / (stretches - 1) / stretches * inflation
    log_median = math.log(float(np.median(values)))
    degrees_of_freedom = max(1.0, stretches / inflation - 1)
    return SampleSummary(log_median, variance_of_mean, degrees_of_freedom, log_quartile_range(values))


def log_quartile_range(times_us: Sequence[float] | Vector) -> float:
    """Returns the interquartile range of the logarithms of the times above 0. 0 without such a time."""
    values = np.asarray(times_us, dtype=np.float64)
    values = values[np.isfinite(values) & (values > 0)]
    if not len(values):
        return 0.0
    low, high = np.log(np.quantile(values, [0.25, 0.75]))
    return float(high - low)


def mean_difference(a: SampleSummary, b: SampleSummary, *, alpha: float) -> Interval:
    """Returns the logarithm of B's speed over A's, with the interval of Welch's test.

    The summaries are of log times, so this is A's mean minus B's. The interval is extended by the rounding error,
    because equal printed figures agree only to their last digit.
    """
    from scipy import special

    estimate = a.mean - b.mean
    variance = a.variance_of_mean + b.variance_of_mean
    rounding = a.rounding + b.rounding
    if variance <= 0:
        return Interval(estimate, estimate - rounding, estimate + rounding)
    # Welch-Satterthwaite equation: degrees of freedom of a sum of two variances.
    degrees_of_freedom = variance**2 / (
        a.variance_of_mean**2 / a.degrees_of_freedom + b.variance_of_mean**2 / b.degrees_of_freedom
    )
    half_width = float(special.stdtrit(degrees_of_freedom, 1 - alpha / 2)) * variance**0.5 + rounding
    return Interval(estimate, estimate - half_width, estimate + half_width)


def rounding_bounds(value: float) -> tuple[float, float]:
    """Returns the bounds of a printed figure before it was rounded.

    Trailing zeros are lost when a log is read, so the bounds can be too wide but never too narrow.
    """
    max_error = half_digit(value)
    return value - max_error, value + max_error


def half_digit(value: float) -> float:
    """Returns half of one unit in the last printed place of a figure: 0.005 for 1.23."""
    mantissa, _, exponent = repr(value).removesuffix(".0").partition("e")
    decimals = len(mantissa.partition(".")[2])
    last_place = int(exponent or 0) - decimals
    return 0.5 * 10.0**last_place
