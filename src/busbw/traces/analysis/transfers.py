"""Splits matched operations into wait and transfer, and separates late ranks from slow communicators.

A rank that arrives early waits inside the operation for the others. So its duration is wait plus transfer, and the
duration of the last rank is the transfer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from busbw.traces.analysis.calls import RankCalls
from busbw.traces.analysis.intervals import Indices, Mask, Values, uncovered
from busbw.traces.format import Function
from busbw.traces.matching import MatchedOperations
from busbw.traces.model import Trace

ENDING_TOGETHER = (Function.ALL_REDUCE, Function.ALL_GATHER, Function.REDUCE_SCATTER, Function.ALLTOALL)
"""Functions that no rank ends before all ranks have started."""
_ROOTED = (Function.BROADCAST, Function.REDUCE, Function.GATHER, Function.SCATTER)


@dataclass(frozen=True, kw_only=True)
class MatchedCalls:
    """Operations of one communicator and function on all recorded ranks, as arrays [operations, ranks]."""

    communicator: int
    function: int
    ranks: tuple[int, ...]
    """Indices in `Trace.ranks`."""
    calls: Indices
    """Call of each rank. -1: not recorded."""
    row: Indices
    """Row of each operation. -1: in no analyzed step."""
    start_ns: Values
    end_ns: Values
    transfer_ns: Values
    """Per operation. NaN: unknown."""
    is_complete: Mask
    """Per operation: True if all ranks of the communicator were recorded with times."""
    is_aligned: bool
    """True if the starts and ends of the ranks are comparable."""


def match_calls(
    trace: Trace, matched: Sequence[MatchedOperations], calls: Sequence[RankCalls], rows: Sequence[Indices]
) -> Iterator[MatchedCalls]:
    """Yields the collectives with their transfer times.

    Args:
        trace: Trace of the calls.
        matched: Operations across ranks.
        calls: Calls of each rank.
        rows: Row of each call of each rank. -1: in no analyzed step.
    """
    for one in matched:
        if one.function not in (*ENDING_TOGETHER, *_ROOTED) or not len(one.indices):
            continue

        own = [calls[rank] for rank in one.ranks]
        is_aligned = all(rank.is_aligned for rank in own)
        call_matrix = _gather([rank.call_of for rank in own], one.indices, -1).astype(np.int64)
        row = _gather([rows[rank] for rank in one.ranks], call_matrix, -1).astype(np.int64).max(axis=1)
        start = _gather([rank.start_ns for rank in own], call_matrix, np.nan)
        end = _gather([rank.end_ns for rank in own], call_matrix, np.nan)
        duration = _gather([rank.duration_ns for rank in own], call_matrix, np.nan)
        is_whole = len(one.ranks) == trace.communicators[one.communicator].size
        is_complete: Mask = np.full(len(duration), is_whole) & ~np.isnan(duration).any(axis=1)
        if one.function in ENDING_TOGETHER:
            transfer = np.fmin.reduce(duration, axis=1)
        else:
            # The root may end before the others have started, so only all ranks together show the transfer.
            is_complete &= is_aligned
            transfer = np.where(is_complete, end.max(axis=1) - start.max(axis=1), np.nan)
        yield MatchedCalls(
            communicator=one.communicator,
            function=int(one.function),
            ranks=one.ranks,
            calls=call_matrix,
            row=row,
            start_ns=start,
            end_ns=end,
            transfer_ns=transfer,
            is_complete=is_complete,
            is_aligned=is_aligned,
        )


def _gather(values: Sequence[Values | Indices], numbers: NDArray[np.integer], missing: float) -> Values:
    """Returns the values of the ranks with these numbers [operations, ranks]. A negative number has no value."""
    columns = [
        np.where(column >= 0, rank_values[column] if len(rank_values) else missing, missing)
        for rank_values, column in zip(values, numbers.T, strict=True)
    ]
    return np.stack(columns, axis=1)


def transfers_by_row(matched: Sequence[MatchedCalls]) -> dict[int, tuple[float, bool]]:
    """Returns the median transfer time of each row in us, and true if it is only an upper bound.

    Only operations that all ranks recorded count, if such exist.
    """
    names = ("row", "transfer_ns", "is_complete")
    rows, transfers, complete = (np.concatenate([[], *(getattr(one, name) for one in matched)]) for name in names)
    is_known = (rows >= 0) & ~np.isnan(transfers)
    bounds = median_by_key(rows[is_known], transfers[is_known] / 1e3)
    is_known &= complete > 0
    exact = median_by_key(rows[is_known], transfers[is_known] / 1e3)
    return {row: (exact.get(row, bound), row not in exact) for row, bound in bounds.items()}


def median_by_key(keys: Values | Indices, values: Values) -> dict[int, float]:
    """Returns the median of the values of each key."""
    order = np.lexsort((values, keys))
    distinct, first, counts = np.unique(keys[order], return_index=True, return_counts=True)
    ordered = values[order]
    medians = (ordered[first + (counts - 1) // 2] + ordered[first + counts // 2]) / 2
    return dict(zip(map(int, distinct), map(float, medians), strict=True))


class Arrivals(NamedTuple):
    """Waits and own lateness of each rank: arrays [ranks of the trace, steps].

    NaN: unknown. The lateness before the first communication of a rank is unknown.
    """

    waiting_ns: Values
    late_ns: Values


def measure_arrivals(matched: Sequence[MatchedCalls], calls: Sequence[RankCalls], *, clock_error_ns: float) -> Arrivals:
    """Measures waits, and the lateness of each rank that its own computing causes.

    Only the last rank of an operation is late: by the time since the last but one. A rank can also be late because it
    waited elsewhere. So its lateness is at most the time by which its gap since its last communication exceeds the
    median gap of the others. Gaps are differences on one clock.
    """
    step_count = max(len(one.analyzed) for one in calls)
    waits: list[list[tuple[Values, Values, Indices]]] = [[] for _ in calls]
    late: list[list[tuple[Values, Values, Indices]]] = [[] for _ in calls]
    gaps = [_gaps(one) for one in calls]
    is_known = np.zeros(len(calls), dtype=bool)
    for one in matched:
        chosen = one.is_complete & (one.row >= 0) & ~np.isnan(one.start_ns).any(axis=1)
        if not one.is_aligned or one.function not in ENDING_TOGETHER or len(one.ranks) < 2 or not chosen.any():
            continue
        start, call_matrix = one.start_ns[chosen], one.calls[chosen]
        columns = list(enumerate(one.ranks))
        steps = np.stack([calls[rank].step[call_matrix[:, column]] for column, rank in columns], axis=1)
        others = np.stack([gaps[rank][call_matrix[:, column]] for column, rank in columns], axis=1)
        latest, last, operations = start.max(axis=1), start.argmax(axis=1), np.arange(len(start))
        lead = latest - np.sort(start, axis=1)[:, -2]
        last_gap = others[operations, last]
        others[operations, last] = np.nan
        is_gap_known = ~np.isnan(others).all(axis=1)
        excess = np.full(len(start), np.nan)
        excess[is_gap_known] = last_gap[is_gap_known] - np.nanmedian(others[is_gap_known], axis=1)
        own_late = np.clip(np.minimum(lead, excess), 0, None)
        own_late[lead <= clock_error_ns] = 0
        for column, rank in columns:
            is_known[rank] = True
            waits[rank].append((start[:, column], latest, steps[:, column]))
            is_last = (last == column) & ~(own_late <= 0)  # also unknown ones
            late[rank].append((latest[is_last] - own_late[is_last], latest[is_last], steps[is_last, column]))
    waiting_ns, late_ns = (
        np.stack([_per_step(*pair, step_count) for pair in zip(parts, is_known, strict=True)])
        for parts in (waits, late)
    )
    return Arrivals(waiting_ns, late_ns)


def _gaps(calls: RankCalls) -> Values:
    """Returns the time of each call since the last end of a call before its start. NaN: unknown."""
    ends = np.sort(calls.end_ns[~np.isnan(calls.end_ns)])
    gaps = np.full(len(calls.start_ns), np.nan)
    if len(ends):
        previous = np.searchsorted(ends, calls.start_ns, side="right") - 1
        is_known = (previous >= 0) & ~np.isnan(calls.start_ns)
        gaps[is_known] = calls.start_ns[is_known] - ends[previous[is_known]]
    return gaps


def _per_step(parts: list[tuple[Values, Values, Indices]], is_known: bool, step_count: int) -> Values:
    """Returns the union of the intervals per step. Simultaneous operations of two communicators count once."""
    if not is_known:
        return np.full(step_count, np.nan)
    starts, ends, steps = (np.concatenate(values) for values in zip(*parts, strict=True))
    in_step = steps >= 0
    lengths = uncovered(starts[in_step], ends[in_step])
    return np.bincount(steps[in_step].astype(np.int64), weights=lengths, minlength=step_count).astype(np.float64)
