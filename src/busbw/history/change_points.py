"""Detection of level changes in a series of measurements over time, with a bounded rate of false alarms.

A cut divides the series into two parts, and its separation measures how much their levels differ. The method is a
permutation test: without a change, every order of the values is equally likely. The largest separation over all cuts is
compared with the largest separations of the same values in random orders. The cut is a change if at most a fraction
`false_alarms` of the orders has a separation as large. This limits the rate of false alarms for every distribution of
the noise. The limit holds for the search over all cuts, because each order is searched in the same way.

The test runs on two scores of the values, each time with half of `false_alarms`. Ranks, the positions in the sorted
values, are robust against single outliers. Logarithms show a large change after few runs.

Limitation: the test assumes independent runs. A slow drift or a machine that is busy every morning is reported as a
change. docs/guides/run-store.md has more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from busbw.statistics import NORMAL_MAD

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FALSE_ALARMS = 0.01
"""Maximum fraction of series without a change for which a change is reported."""

MIN_RUNS = 3
"""Minimum number of runs on each side of a change."""

SMALLEST_SHIFT = 0.02
"""Smallest reported relative change of the level."""

_TEST_COUNT = 2
"""Number of tests that share `false_alarms`: on ranks (positions in the sorted values) and on logarithms."""

_OUTLIER_LIMIT = 5
"""Standard deviations from the median beyond which logarithms are clipped."""

_MIN_ORDERS = 2000
"""Minimum number of orders in a test: the observed order and random orders."""
_MIN_PERMITTED_ORDERS = 10
"""Minimum number of orders that may have a separation as large as the observed one in a significant test.

The number of orders follows: at 0.1 % false alarms, 10 permitted orders need 10,000 orders. With fewer permitted
orders, the choice of the random orders would decide a test near the limit."""
_MAX_CHUNK_VALUES = 2_000_000
"""Maximum number of values shuffled at once, to limit memory to some tens of megabytes."""
_MAX_CHUNK_ORDERS = 200
"""Maximum number of orders shuffled at once. A small number lets the test of an insignificant cut end early."""


class LevelChange(NamedTuple):
    """A change of the level."""

    first_index: int
    """Index of the first value of the new level."""
    before: float
    """Median of the level that ended."""
    after: float
    """Median of the level that began."""

    @property
    def shift(self) -> float:
        """Relative change of the median: -0.1 is 10 % less."""
        return self.after / self.before - 1


def change_points(
    values: Sequence[float] | NDArray[np.float64],
    *,
    false_alarms: float = FALSE_ALARMS,
    smallest_shift: float = SMALLEST_SHIFT,
) -> list[LevelChange]:
    """Returns the changes of level in a series, the earliest first.

    The series is cut at the largest separation if that is significant, and both parts are tested in the same way. Each
    cut is then located again between its neighbors, and cuts with a small change of the median are dropped. The random
    orders have a fixed seed, so equal values give equal results.

    Args:
        values: Positive values in order of time.
        false_alarms: Maximum probability that a change is reported for a series without one.
        smallest_shift: Smallest reported change, relative to the level before it.
    """
    import numpy as np

    series = np.asarray(values, dtype=np.float64)
    if len(series) < 2 * MIN_RUNS:
        return []
    cuts = sorted(_find_cuts(series, 0, len(series), false_alarms))
    bounds = [0, *cuts, len(series)]
    # A cut was found in a part that may have contained further changes. Now its neighbors bound the part of its search.
    for index in range(1, len(bounds) - 1):
        low, high = bounds[index - 1], bounds[index + 1]
        _, cut = _largest_separation(_logarithms(series[low:high]))
        bounds[index] = low + cut
    return _drop_small_shifts(series, bounds, smallest_shift)


def min_runs(false_alarms: float) -> int:
    """Minimum number of values with which a change can be significant at this rate of false alarms."""
    count = 2 * MIN_RUNS
    # A change in the middle has the largest possible separation. Of all divisions into two halves, only two have this
    # separation: all low values first, or all high values first. So the share of these two is the smallest fraction
    # that the test can find.
    while 2 / math.comb(count, count // 2) > false_alarms / _TEST_COUNT:
        count += 1
    return count


def _drop_small_shifts(series: NDArray[np.float64], bounds: list[int], smallest_shift: float) -> list[LevelChange]:
    """Returns the changes between the levels. Drops the cut with the smallest change until all others are large enough.

    Args:
        series: The values.
        bounds: 0, the cuts in order, and the number of values. Dropped cuts are removed from the list.
        smallest_shift: Smallest reported relative change.
    """
    import numpy as np

    while True:
        levels = [float(np.median(series[low:high])) for low, high in pairwise(bounds)]
        cuts = bounds[1:-1]
        changes = [LevelChange(cut, before, after) for cut, (before, after) in zip(cuts, pairwise(levels), strict=True)]
        smallest = min(changes, key=lambda change: abs(change.shift), default=None)
        if smallest is None or abs(smallest.shift) >= smallest_shift:
            return changes
        bounds.remove(smallest.first_index)


def _find_cuts(series: NDArray[np.float64], low: int, high: int, false_alarms: float) -> Iterator[int]:
    """Yields the significant cuts of `series[low:high]`, unsorted. Tests logarithms only if ranks show no cut."""
    import numpy as np

    if high - low < 2 * MIN_RUNS:
        return
    for scores in (_ranks(series[low:high]), _logarithms(series[low:high])):
        observed, cut = _largest_separation(scores)
        random = np.random.default_rng(seed=high - low)  # a fixed seed, so that equal values give equal results
        if _is_significant(scores, observed, false_alarms / _TEST_COUNT, random):
            yield low + cut
            yield from _find_cuts(series, low, low + cut, false_alarms)
            yield from _find_cuts(series, low + cut, high, false_alarms)
            return


def _is_significant(
    scores: NDArray[np.float64], observed: float, false_alarms: float, random: np.random.Generator
) -> bool:
    """True if at most a fraction `false_alarms` of the orders has a separation of `observed` or more.

    The observed order counts as one of the orders. Stops as soon as more orders have such a separation.
    """
    import numpy as np

    order_count = max(_MIN_ORDERS, math.ceil(_MIN_PERMITTED_ORDERS / false_alarms))
    permitted_count = math.floor(false_alarms * order_count)
    large_count, remaining = 1, order_count - 1  # the observed order is the first one
    while remaining:
        count = min(remaining, max(1, _MAX_CHUNK_VALUES // len(scores)), _MAX_CHUNK_ORDERS)
        shuffled = random.permuted(np.tile(scores, (count, 1)), axis=1)
        # The tolerance makes equal separations count as equal despite rounding.
        large_count += int(np.count_nonzero(_separations(shuffled).max(axis=1) >= observed * (1 - 1e-9)))
        remaining -= count
        if large_count > permitted_count:
            return False
    return True


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the centered ranks of the values; equal values share their mean rank. The sum of all ranks is zero."""
    import numpy as np

    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last_ranks = np.cumsum(counts)  # the rank of the last of each value, from 1
    shared_ranks = last_ranks - (counts - 1) / 2
    centered: NDArray[np.float64] = shared_ranks[inverse] - (len(values) + 1) / 2  # the mean of all ranks
    return centered


def _logarithms(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the centered logarithms of the values, clipped at `_OUTLIER_LIMIT` deviations. Their sum is zero.

    The median absolute deviation estimates the deviation, because outliers do not affect it. If more than half of the
    values are equal, it is zero, and the standard deviation is used instead.
    """
    import numpy as np

    logs = np.log(values)
    middle = np.median(logs)
    deviation = NORMAL_MAD * float(np.median(np.abs(logs - middle)))
    if deviation == 0:
        deviation = float(logs.std())
    clipped = np.clip(logs, middle - _OUTLIER_LIMIT * deviation, middle + _OUTLIER_LIMIT * deviation)
    scores: NDArray[np.float64] = clipped - clipped.mean()
    return scores


def _separations(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the separation of each possible cut: the sum of the scores before the cut, relative to its usual size.

    The usual size is the standard deviation of this sum in random orders, apart from a factor that is equal for all
    cuts. The sum of all scores must be zero.
    """
    import numpy as np

    count = scores.shape[-1]
    before = np.arange(MIN_RUNS, count - MIN_RUNS + 1)
    sums = np.cumsum(scores, axis=-1)[..., before - 1]
    separations: NDArray[np.float64] = np.abs(sums) / np.sqrt(before * (count - before) / count)
    return separations


def _largest_separation(scores: NDArray[np.float64]) -> tuple[float, int]:
    """Returns the largest separation and its cut: the number of values before the cut."""
    separations = _separations(scores)
    index = int(separations.argmax())
    return float(separations[index]), index + MIN_RUNS
