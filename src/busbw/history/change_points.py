"""Where a series of measurements over time changed its level, and what is certain about it.

The question is asked of the order alone. If nothing changed, every order of the values is as likely as the one that
was seen. So the largest shift over all places where the series can be cut is held against the largest shifts of the
same values in random orders (a permutation test); it is a change when at most a fraction `false_alarms` of the orders
has one as large. That holds for every distribution of the noise, and the search over all places is paid for. It is
asked twice, each time with half of the fraction: of the values' ranks, in which a single wild run hides no change, and
of their logarithms, which show a large change after a few runs.

What the test does not know: runs that resemble their neighbours in time without a change (a drift, a machine that is
busy in the morning) are not in random order, and are reported as changes. docs/store.md says more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FALSE_ALARMS = 0.01
"""Of the series in which nothing changed, the part in which a change is reported all the same; at most."""

MIN_RUNS = 3
"""On each side of a change: fewer say nothing about a level."""

SMALLEST_SHIFT = 0.02
"""A change of the level by less than this part is not worth a word, however sure it is."""

_WAYS = 2
"""In which the question is asked: of ranks and of logarithms."""

_NORMAL_MAD = 1.4826
"""The standard deviation of a normal distribution over its median distance from the median."""
_OUTLIER_LIMIT = 5

_ORDERS = 1999
_CHUNK = 2_000_000
"""Values shuffled at once: what a few megabytes hold."""


class LevelChange(NamedTuple):
    """A change of the level."""

    at: int
    """Index of the first value of the new level."""
    before: float
    """Median of the level that ended."""
    after: float
    """Median of the level that began."""

    @property
    def shift(self) -> float:
        """The new level over the old, less one: -0.1 is 10 % less."""
        return self.after / self.before - 1


def change_points(
    values: Sequence[float] | NDArray[np.float64],
    *,
    false_alarms: float = FALSE_ALARMS,
    smallest_shift: float = SMALLEST_SHIFT,
) -> list[LevelChange]:
    """The changes of level in a series of positive values, in order.

    The series is cut at the place of the largest shift where that is a change, and each part is looked at in the same
    way. The places are then looked for once more between their neighbours, and those of a small shift are dropped.
    The same values give the same answer: the random orders have a fixed beginning.

    Args:
        values: In order of time; positive.
        false_alarms: For a series without a change the chance that one is reported; at most.
        smallest_shift: As a part of the level before; smaller changes are not reported.
    """
    import numpy as np

    series = np.asarray(values, dtype=np.float64)
    if len(series) < 2 * MIN_RUNS:
        return []
    cuts = sorted(_cuts(series, 0, len(series), false_alarms))
    ends = [0, *cuts, len(series)]
    for number in range(1, len(ends) - 1):
        low, high = ends[number - 1], ends[number + 1]
        ends[number] = low + _largest_shift(_logarithms(series[low:high]))[1]
    return _drop_small_shifts(series, ends, smallest_shift)


def min_runs(false_alarms: float) -> int:
    """With fewer values no change can be found: even one in the middle has not enough orders to be rare among them."""
    count = 2 * MIN_RUNS
    while 2 / math.comb(count, count // 2) > false_alarms / _WAYS:
        count += 1
    return count


def _drop_small_shifts(series: NDArray[np.float64], ends: list[int], smallest_shift: float) -> list[LevelChange]:
    """The changes between the levels; the smallest that is too small goes first, and its levels become one."""
    import numpy as np

    while True:
        levels = [float(np.median(series[low:high])) for low, high in pairwise(ends)]
        changes = [
            LevelChange(at, before, after) for at, before, after in zip(ends[1:-1], levels, levels[1:], strict=False)
        ]
        small = min(changes, key=lambda change: abs(change.shift), default=None)
        if small is None or abs(small.shift) >= smallest_shift:
            return changes
        ends.remove(small.at)


def _cuts(series: NDArray[np.float64], low: int, high: int, level: float) -> Iterator[int]:
    import numpy as np

    if high - low < 2 * MIN_RUNS:
        return
    for scores in (_ranks(series[low:high]), _logarithms(series[low:high])):
        seen, place = _largest_shift(scores)
        if _is_rare(scores, seen, level / _WAYS, np.random.default_rng(high - low)):
            yield low + place
            yield from _cuts(series, low, low + place, level)
            yield from _cuts(series, low + place, high, level)
            return


def _is_rare(scores: NDArray[np.float64], seen: float, level: float, random: np.random.Generator) -> bool:
    """Whether at most `level` of the orders, the one that was seen among them, has a shift as large."""
    import numpy as np

    orders = max(_ORDERS, math.ceil(10 / level) - 1)
    most = math.floor(level * (orders + 1)) - 1
    larger, left = 0, orders
    while left:
        count = min(left, max(1, _CHUNK // len(scores)), 200)
        shuffled = random.permuted(np.tile(scores, (count, 1)), axis=1)
        # A hair less than what was seen, so that rounding does not tell equal shifts apart.
        larger += int(np.count_nonzero(_shifts(shuffled).max(axis=1) >= seen * (1 - 1e-9)))
        left -= count
        if larger > most:
            return False
    return True


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The place of each value among them, from below; equal ones share theirs. Their sum is zero."""
    import numpy as np

    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)  # the rank of the last of each value, from 1
    ranks: NDArray[np.float64] = (last - (counts - 1) / 2)[which] - (len(values) + 1) / 2
    return ranks


def _logarithms(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of the values, those beyond five deviations drawn in to there. Their sum is zero.

    The deviation is that of the values' middle half (the median distance from the median): wild runs do not make it.
    """
    import numpy as np

    logs = np.log(values)
    middle = np.median(logs)
    deviation = _NORMAL_MAD * float(np.median(np.abs(logs - middle))) or float(logs.std())
    drawn_in = np.clip(logs, middle - _OUTLIER_LIMIT * deviation, middle + _OUTLIER_LIMIT * deviation)
    scores: NDArray[np.float64] = drawn_in - drawn_in.mean()
    return scores


def _shifts(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each place where it can be cut: how far the sum before it is from none, in its standard deviations' unit."""
    import numpy as np

    count = scores.shape[-1]
    before = np.arange(MIN_RUNS, count - MIN_RUNS + 1)
    sums = np.cumsum(scores, axis=-1)[..., before - 1]
    shifts: NDArray[np.float64] = np.abs(sums) / np.sqrt(before * (count - before) / count)
    return shifts


def _largest_shift(scores: NDArray[np.float64]) -> tuple[float, int]:
    shifts = _shifts(scores)
    place = int(shifts.argmax())
    return float(shifts[place]), place + MIN_RUNS
