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

Times = NDArray[np.int64]

_MIN_SAMPLES = 8
"""Minimum number of common ends for the conversion between two clocks."""
_MAX_SAMPLES = 4096
"""Maximum for each function of a communicator. More would not reduce the error: the variation of the ends."""
_BINS = 32
"""Number of bins of samples for the drift. The drift is a median of slopes between the medians of bins."""
_ERROR_QUANTILE = 0.95
"""Share of the differences that the stated error bounds."""
_MAX_DRIFT_ERROR_RATIO = 0.8
"""A drift is used only if it reduces the error below this share of the error without drift."""


@dataclass(frozen=True)
class ClockMap:
    """Conversion of the times of one clock to another."""

    pivot_ns: int
    """A time of the first clock. Only the time since the pivot is multiplied, which keeps the precision of 1 ns."""
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


@dataclass(frozen=True, kw_only=True)
class ClockAlignment:
    """Conversion of the times of all ranks to a common clock: the clock of the first rank."""

    maps: tuple[ClockMap | None, ...]
    """Map of each rank for its device times, or for `enqueue_ns` without device times. None: the clock is not aligned.

    For `DeviceClock.GPU`, `enqueue_ns` has another clock, for which the map is not valid.
    """
    error_ns: float | None
    """Bound of 95 % of the differences between a rank and the first rank. None: the clocks are not aligned."""
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
    maps: list[ClockMap | None] = []
    for clock in clocks:
        to_start = to_start_by_name.get(clock.name)
        maps.append(None if to_start is None else clock.from_rank.then(to_start).then(start.from_rank.inverse()))
    if len(names) == 1:
        return ClockAlignment(maps=tuple(maps), error_ns=0.0, basis="all ranks with a clock read the same one")
    aligned_count = len(to_start_by_name)
    if aligned_count < 2:
        basis = "the clocks are not aligned: they have too few common operations with device times"
        return ClockAlignment(maps=tuple(maps), error_ns=None, basis=basis)
    left_out = f"; {len(names) - aligned_count} others have too few" if len(names) > aligned_count else ""
    basis = (
        f"{aligned_count} clocks are aligned by operations that need data of all ranks and should end on all of them"
        f" together; the error is the 95th percentile of the remaining differences{left_out}"
    )
    return ClockAlignment(maps=tuple(maps), error_ns=max(errors.values()), basis=basis)


def _clock_of(index: int, rank: RankTrace) -> _RankClock:
    """Returns the clock of a rank. Ranks of one host share its clock, if the start of their times is known."""
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
    for one in matched:
        # A later entry replaces an earlier one. So the reversed order selects the first rank of each clock.
        columns = {
            clocks[index].name: column
            for column, index in reversed(list(enumerate(one.ranks)))
            if clocks[index].name is not None and len(trace.ranks[index].operations)
        }
        if one.function not in SYNCHRONIZING or len(columns) < 2:
            continue
        sample_count = min(len(one.indices), _MAX_SAMPLES)
        rows = one.indices[np.linspace(0, len(one.indices) - 1, sample_count).astype(int)]
        ends = {}
        for name, column in columns.items():
            rank = trace.ranks[one.ranks[column]]
            ends_ns = rank.operations["device_end_ns"][rows[:, column]]
            is_known = (ends_ns > 0) & (rows[:, column] >= 0)
            ends[name] = (clocks[one.ranks[column]].from_rank.convert(ends_ns), is_known)
        (first, (first_ends, is_first_known)), *others = reversed(ends.items())
        for name, (other_ends, is_known) in others:
            are_both_known = is_known & is_first_known
            samples[name, first].append((other_ends[are_both_known], first_ends[are_both_known]))
    return {
        pair: (np.concatenate([one for one, _ in parts]), np.concatenate([other for _, other in parts]))
        for pair, parts in samples.items()
    }


def _fit(times: Times, others: Times) -> tuple[ClockMap, float] | None:
    """Returns the conversion from one clock to another, and its error in ns. None: too few samples."""
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
        fits.append((ClockMap(pivot_ns, pivot_ns + shift_ns + round(offset), 1 + drift), error_ns))
    (constant, constant_error_ns), (drifting, drifting_error_ns) = fits
    if drifting_error_ns < _MAX_DRIFT_ERROR_RATIO * constant_error_ns:
        return drifting, drifting_error_ns
    return constant, constant_error_ns


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
    start: Hashable | None, links: dict[tuple[Hashable, Hashable], tuple[ClockMap, float]]
) -> tuple[dict[Hashable | None, ClockMap], dict[Hashable | None, float]]:
    """Returns the conversion of each clock to the first clock, and its error.

    The path of links to the first clock has the least sum of errors (Dijkstra's algorithm).
    """
    neighbors = defaultdict[Hashable | None, list[tuple[Hashable, ClockMap, float]]](list)
    for (name, other), (link, error_ns) in links.items():
        neighbors[other].append((name, link, error_ns))
        neighbors[name].append((other, link.inverse(), error_ns))
    maps: dict[Hashable | None, ClockMap] = {}
    errors: dict[Hashable | None, float] = {}
    number = count()  # decides between equal errors, because names and maps have no order
    queue: list[tuple[float, int, Hashable | None, ClockMap]] = [(0.0, next(number), start, ClockMap(0, 0))]
    while queue:
        error_ns, _, name, to_start = heappop(queue)
        if name is None or name in maps:
            continue
        maps[name], errors[name] = to_start, error_ns
        for neighbor, link, link_error_ns in neighbors[name]:
            if neighbor not in maps:
                heappush(queue, (error_ns + link_error_ns, next(number), neighbor, link.then(to_start)))
    return maps, errors
