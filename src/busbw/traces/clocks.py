"""Aligns the clocks of ranks by operations that end on all ranks together."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from busbw.traces.format import SYNCHRONIZING, DeviceClock
from busbw.traces.matching import MatchedOperations
from busbw.traces.model import RankTrace, Trace
from busbw.units import count_text

Times = NDArray[np.int64]

_MIN_SAMPLES = 8
"""Minimum number of common ends for the conversion between two clocks."""
_MAX_SAMPLES = 4096
"""Maximum number of common ends, for each function of a communicator. More would not make the result more exact."""
_BINS = 32
"""Number of bins of samples. The drift is the median of the slopes between the medians of the bins."""
_ERROR_QUANTILE = 0.95
"""The error of a pair of clocks is this quantile of their differences after the conversion."""
_MAX_DRIFT_ERROR_RATIO = 0.8
"""A drift is used only if it reduces the error below this share of the error without drift."""


@dataclass(frozen=True)
class ClockMap:
    """Conversion of the times of one clock to another."""

    pivot_ns: int
    """A time of the first clock. Only the time since then is multiplied by the rate.

    A double cannot hold a Unix time with the precision of a nanosecond.
    """
    result_ns: int
    """Time of the other clock at the pivot."""
    rate: float = 1.0
    """Speed of the other clock relative to the first clock."""

    def convert(self, times_ns: NDArray[np.integer]) -> Times:
        """Returns the times of the other clock."""
        elapsed = times_ns.astype(np.int64) - self.pivot_ns
        drift_ns: Times = np.rint(elapsed * (self.rate - 1)).astype(np.int64)
        return elapsed + drift_ns + self.result_ns

    def then(self, following: "ClockMap") -> "ClockMap":
        """Returns the conversion by this map and by the following one."""
        result_ns = int(following.convert(np.array([self.result_ns]))[0])
        return ClockMap(self.pivot_ns, result_ns, self.rate * following.rate)

    def inverse(self) -> "ClockMap":
        """Returns the conversion in the other direction."""
        return ClockMap(self.result_ns, self.pivot_ns, 1 / self.rate)


class _RankClock(NamedTuple):
    """The clock that a rank reads."""

    name: Hashable | None
    """Equal for ranks with the same clock. None: the rank has only durations."""
    from_rank: ClockMap
    """Conversion of the times of the rank to this clock."""


class _Link(NamedTuple):
    """Relation of two clocks that operations with ranks on both clocks show."""

    to_other: ClockMap
    """Conversion of the times of the first clock of the pair to the second clock."""
    error_ns: float
    """Quantile `_ERROR_QUANTILE` of the absolute differences that remain after the conversion."""


@dataclass(frozen=True, kw_only=True)
class ClockAlignment:
    """Conversion of the times of all ranks to a common clock: the clock of the first rank that has one."""

    maps: tuple[ClockMap | None, ...]
    """Conversions for the device times of each rank. None: the clock of the rank cannot be aligned.

    If a rank has no device times, the conversion is for its `enqueue_ns`. The conversion of a rank with
    `DeviceClock.GPU` is not valid for `enqueue_ns`, which has another clock.
    """
    error_ns: float | None
    """Largest estimated error of a clock, relative to the first rank. None: the clocks are not aligned.

    A clock is aligned along a path of pairs of clocks, and its error is the sum over these pairs. Each pair adds the
    95th percentile of its remaining absolute differences. The sum over several pairs is no percentile and no bound.
    """
    basis: str
    """Sentence with the method and its assumption."""


def align_clocks(trace: Trace, matched: Sequence[MatchedOperations]) -> ClockAlignment:
    """Estimates offset and drift of each clock from the ends of operations that need data of all ranks."""
    clocks = [_clock_of(index, rank) for index, rank in enumerate(trace.ranks)]
    names = {clock.name for clock in clocks if clock.name is not None}
    start = next((clock for clock in clocks if clock.name is not None), _RankClock(None, ClockMap(0, 0)))
    samples = _samples(trace, matched, clocks)
    links = {pair: link for pair, times in samples.items() if (link := _fit(*times)) is not None}
    to_start_by_name, errors = _connect(start.name, links)
    # Each conversion goes from the rank to its clock, to the clock of the first rank, and to the first rank.
    maps: list[ClockMap | None] = []
    for clock in clocks:
        to_start = to_start_by_name.get(clock.name)
        maps.append(None if to_start is None else clock.from_rank.then(to_start).then(start.from_rank.inverse()))
    error_ns: float | None = None
    aligned_count, unaligned_count = len(to_start_by_name), len(names) - len(to_start_by_name)
    if not names:
        basis = "the clocks are not aligned: the ranks have durations only"
    elif len(names) == 1:
        error_ns, basis = 0.0, "all ranks with a clock read the same one"
    elif aligned_count < 2:
        basis = "the clocks are not aligned: they have too few common operations with device times"
    else:
        unaligned = f"; not aligned: {count_text(unaligned_count, 'clock')} with too few of them"
        error_ns = max(errors.values())
        basis = (
            f"{aligned_count} clocks are aligned by operations that need data of all ranks and should end on all of"
            f" them together{unaligned if unaligned_count else ''}; the error is a sum of 95th percentiles of the"
            " remaining differences, one for each pair of clocks on the way to the first rank"
        )
    return ClockAlignment(maps=tuple(maps), error_ns=error_ns, basis=basis)


def _clock_of(index: int, rank: RankTrace) -> _RankClock:
    """Returns the clock of a rank.

    A GPU has a clock of its own. Ranks of one host share its clock, if the start of their times on this clock is known.
    """
    if rank.device_clock == DeviceClock.DURATION:
        return _RankClock(None, ClockMap(0, 0))
    if rank.device_clock == DeviceClock.GPU or not rank.host or not rank.start_ns:
        return _RankClock(index, ClockMap(0, 0))
    return _RankClock(rank.host, ClockMap(0, rank.start_ns))


def _samples(
    trace: Trace, matched: Sequence[MatchedOperations], clocks: Sequence[_RankClock]
) -> dict[tuple[Hashable, Hashable], tuple[Times, Times]]:
    """Returns, for pairs of clocks, the times of both clocks at which the same operations ended."""
    samples = defaultdict[tuple[Hashable, Hashable], list[tuple[Times, Times]]](list)
    for operations in matched:
        columns: dict[Hashable, int] = {}  # column of the first rank with operations, for each clock
        for column, index in enumerate(operations.ranks):
            name = clocks[index].name
            if name is not None and len(trace.ranks[index].operations):
                columns.setdefault(name, column)
        if operations.function not in SYNCHRONIZING or len(columns) < 2:
            continue
        row_count = len(operations.indices)
        rows = operations.indices[np.linspace(0, row_count - 1, min(row_count, _MAX_SAMPLES)).astype(int)]
        ends = {}
        for name, column in columns.items():
            index = operations.ranks[column]
            values = trace.ranks[index].operations["device_end_ns"][rows[:, column]]
            is_known = (values > 0) & (rows[:, column] >= 0)
            ends[name] = (clocks[index].from_rank.convert(values), is_known)
        # Each clock of the operation is compared with the first clock.
        (first, (first_ends, is_first_known)), *others = ends.items()
        for name, (times, is_known) in others:
            is_both_known = is_known & is_first_known
            samples[name, first].append((times[is_both_known], first_ends[is_both_known]))
    return {
        pair: (np.concatenate([times for times, _ in parts]), np.concatenate([first_ends for _, first_ends in parts]))
        for pair, parts in samples.items()
    }


def _fit(times: Times, others: Times) -> _Link | None:
    """Fits the conversion from the clock of `times` to the clock of `others`. None: too few samples."""
    if len(times) < _MIN_SAMPLES:
        return None
    order = np.argsort(times)
    pivot_ns, shift_ns = int(np.median(times)), int(np.median(others - times))
    elapsed = (times[order] - pivot_ns).astype(float)
    differences = (others[order] - times[order] - shift_ns).astype(float)
    slope = _slope(elapsed, differences)
    fits = []
    for drift in (0.0, slope):
        offset = float(np.median(differences - drift * elapsed))
        error_ns = float(np.quantile(np.abs(differences - drift * elapsed - offset), _ERROR_QUANTILE))
        fits.append(_Link(ClockMap(pivot_ns, pivot_ns + shift_ns + round(offset), 1 + drift), error_ns))
    constant, drifting = fits
    is_drift_useful = drifting.error_ns < _MAX_DRIFT_ERROR_RATIO * constant.error_ns
    return drifting if is_drift_useful else constant


def _slope(elapsed: NDArray[np.float64], differences: NDArray[np.float64]) -> float:
    """Returns the median of the slopes between all pairs of bins, which outliers change little."""
    bins = min(_BINS, len(elapsed))
    x = np.array([np.median(part) for part in np.array_split(elapsed, bins)])
    y = np.array([np.median(part) for part in np.array_split(differences, bins)])
    left, right = np.triu_indices(bins, 1)
    is_apart = x[right] > x[left]
    slopes = (y[right] - y[left])[is_apart] / (x[right] - x[left])[is_apart]
    return float(np.median(slopes)) if len(slopes) else 0.0


def _connect(
    start: Hashable | None, links: dict[tuple[Hashable, Hashable], _Link]
) -> tuple[dict[Hashable | None, ClockMap], dict[Hashable | None, float]]:
    """Returns the conversion of each clock to the start clock, and the error in ns.

    Dijkstra's algorithm finds the path of links with the smallest sum of errors. Clocks without a path are missing.
    """
    # For each clock: its neighbors, each with the link from the neighbor to this clock.
    neighbors = defaultdict[Hashable | None, list[tuple[Hashable, _Link]]](list)
    for (name, other), link in links.items():
        neighbors[other].append((name, link))
        neighbors[name].append((other, _Link(link.to_other.inverse(), link.error_ns)))
    maps: dict[Hashable | None, ClockMap] = {}
    errors: dict[Hashable | None, float] = {}
    tie_breaker = count()  # decides between equal errors, because names and maps have no order
    queue: list[tuple[float, int, Hashable | None, ClockMap]] = [(0.0, next(tie_breaker), start, ClockMap(0, 0))]
    while queue:
        error_ns, _, name, to_start = heappop(queue)
        if name is None or name in maps:
            continue
        maps[name], errors[name] = to_start, error_ns
        for neighbor, link in neighbors[name]:
            if neighbor not in maps:
                neighbor_to_start = link.to_other.then(to_start)
                heappush(queue, (error_ns + link.error_ns, next(tie_breaker), neighbor, neighbor_to_start))
    return maps, errors
