"""Splits matched operations into wait and transfer, and separates late ranks from slow communicators.

A rank that arrives early waits inside the operation for the others. So the duration on this rank is wait plus transfer,
and the duration on the last rank is the transfer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from busbw.traces.analysis.calls import CallTable
from busbw.traces.analysis.intervals import Indices, Mask, Values, measure_uncovered
from busbw.traces.format import ROOTED, SYNCHRONIZING
from busbw.traces.matching import MatchedOperations
from busbw.traces.model import Trace

_MAX_SECTIONS, _MIN_SECTION_CALLS = 16, 8
"""Maximum number of sections of a recording without steps, and minimum calls of a rank in each but the last."""


@dataclass(frozen=True, kw_only=True)
class MatchedCalls:
    """Operations of one communicator and function on all recorded ranks, as arrays [operations, ranks]."""

    communicator: int
    function: int
    ranks: tuple[int, ...]
    """Indices in `Trace.ranks`."""
    calls: Indices
    """Call of each rank in the `CallTable`. -1: not recorded."""
    row: Indices
    """Row of each operation in the table of operations (rows.py). -1: in no analyzed step."""
    start_ns: Values
    transfer_ns: Values
    """Per operation. NaN: unknown."""
    is_complete: Mask
    """Per operation: True if all ranks of the communicator were recorded with times."""
    is_aligned: bool
    """True if the starts and ends of the ranks are comparable."""


def match_calls(
    trace: Trace, matched: Sequence[MatchedOperations], calls: CallTable, rows: Indices
) -> Iterator[MatchedCalls]:
    """Yields the collectives with their transfer times.

    `rows`: row of each call in the table of operations; -1: in no analyzed step.
    """
    for operations in matched:
        if operations.function not in (*SYNCHRONIZING, *ROOTED):
            continue
        calls_by_rank = [
            _take(calls.ranks[rank].call_of, operations_of_rank, -1)
            for rank, operations_of_rank in zip(operations.ranks, operations.indices.T, strict=True)
        ]
        call_matrix = np.stack(calls_by_rank, axis=1)
        if not (call_matrix >= 0).any():
            continue
        is_aligned = all(calls.ranks[rank].is_aligned for rank in operations.ranks)
        row = _take(rows, call_matrix, -1).max(axis=1)
        start_ns, end_ns, duration_ns = (
            _take(column, call_matrix, np.nan) for column in (calls.start_ns, calls.end_ns, calls.duration_ns)
        )
        are_all_recorded = len(operations.ranks) == trace.communicators[operations.communicator].size
        is_complete: Mask = ~np.isnan(duration_ns).any(axis=1) & are_all_recorded
        if operations.function in SYNCHRONIZING:
            transfer_ns = np.fmin.reduce(duration_ns, axis=1)  # the duration on the last rank
        else:
            # A rank may end before the others have started, so only all ranks together show the transfer.
            is_complete &= is_aligned
            transfer_ns = np.where(is_complete, end_ns.max(axis=1) - start_ns.max(axis=1), np.nan)
        yield MatchedCalls(
            communicator=operations.communicator,
            function=int(operations.function),
            ranks=operations.ranks,
            calls=call_matrix,
            row=row,
            start_ns=start_ns,
            transfer_ns=transfer_ns,
            is_complete=is_complete,
            is_aligned=is_aligned,
        )


def _take(values: Values | Indices, indices: NDArray[np.integer], missing: float) -> Any:
    """Returns the values at these indices, and `missing` for negative indices."""
    if not len(values):
        return np.full(indices.shape, missing)
    return np.where(indices >= 0, values[indices], missing)


def transfers_by_row(matched: Sequence[MatchedCalls]) -> dict[int, tuple[float, bool]]:
    """Returns the median transfer time of each row in us, and true if it is only an upper bound.

    If all ranks recorded some operations of a row, only these operations count.
    """
    if not matched:
        return {}
    rows = np.concatenate([matched_calls.row for matched_calls in matched])
    transfers_us = np.concatenate([matched_calls.transfer_ns for matched_calls in matched]) / 1e3
    is_known = (rows >= 0) & ~np.isnan(transfers_us)
    is_exact = is_known & np.concatenate([matched_calls.is_complete for matched_calls in matched])
    bounds = median_by_key(rows[is_known], transfers_us[is_known])
    exact = median_by_key(rows[is_exact], transfers_us[is_exact])
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

    NaN: unknown. For example, the lateness before the first communication of a rank is unknown.
    """

    waiting_ns: Values
    late_ns: Values
    late_in_sections_ns: Values
    """As `late_ns`, in each analyzed step. Without steps: in each section of the recording."""
    communicators: tuple[tuple[int, ...], ...]
    """Ranks of each communicator that is measured, as indices in `Trace.ranks`."""


def measure_arrivals(matched: Sequence[MatchedCalls], calls: CallTable, *, clock_error_ns: float) -> Arrivals:
    """Measures how long each rank waits, and how late it is because of its own computing.

    Only the last rank of an operation is late. Two limits apply to its lateness:

    - the time from the start of the last but one rank to the start of the last rank
    - the gap of the last rank, less the median gap of the other ranks

    A gap is the time since the last communication of a rank, by its own clock. Time that a rank has waited in another
    operation is not part of its gap. So the second limit excludes lateness that such a wait causes.
    """
    step_count = max(len(rank.analyzed) for rank in calls.ranks)
    has_steps = any(rank.steps for rank in calls.ranks)
    # For each rank: intervals in which the rank waits, and in which it delays the others.
    waits: list[list[tuple[Values, Values, Indices]]] = [[] for _ in calls.ranks]
    late: list[list[tuple[Values, Values, Indices]]] = [[] for _ in calls.ranks]
    late_sections: list[list[tuple[Values, Values, Indices]]] = [[] for _ in calls.ranks]
    communicators: list[tuple[int, ...]] = []
    gaps = np.concatenate([_gaps(calls.start_ns[rank.span], calls.end_ns[rank.span]) for rank in calls.ranks])
    for matched_calls in matched:
        chosen = matched_calls.is_complete & (matched_calls.row >= 0) & ~np.isnan(matched_calls.start_ns).any(axis=1)
        if (
            not matched_calls.is_aligned
            or matched_calls.function not in SYNCHRONIZING
            or len(matched_calls.ranks) < 2
            or not chosen.any()
        ):
            continue
        communicators.append(matched_calls.ranks)
        start_ns, call_matrix = matched_calls.start_ns[chosen], matched_calls.calls[chosen]
        steps = calls.step[call_matrix]
        span = calls.ranks[matched_calls.ranks[0]].span
        section_calls = max((span.stop - span.start) / _MAX_SECTIONS, _MIN_SECTION_CALLS)
        sections = ((call_matrix[:, 0] - span.start) // section_calls).astype(np.int64)
        latest_ns, last = start_ns.max(axis=1), start_ns.argmax(axis=1)
        own_late_ns = _own_lateness(start_ns, gaps[call_matrix], clock_error_ns)
        for column, rank in enumerate(matched_calls.ranks):
            waits[rank].append((start_ns[:, column], latest_ns, steps[:, column]))
            # An unknown lateness (NaN) counts as late: its interval makes the lateness in this step unknown.
            is_late = (last == column) & ((own_late_ns > 0) | np.isnan(own_late_ns))
            own_latest_ns = latest_ns[is_late]
            own_starts_ns, own_steps = own_latest_ns - own_late_ns[is_late], steps[is_late, column]
            late[rank].append((own_starts_ns, own_latest_ns, own_steps))
            late_sections[rank].append((own_starts_ns, own_latest_ns, own_steps if has_steps else sections[is_late]))
    late_in_sections_ns = [_per_step(parts, step_count if has_steps else _MAX_SECTIONS) for parts in late_sections]
    for rank_calls, rank_late_ns in zip(calls.ranks, late_in_sections_ns, strict=True):
        if has_steps:
            rank_late_ns[: len(rank_calls.analyzed)][~rank_calls.analyzed] = np.nan
            rank_late_ns[len(rank_calls.analyzed) :] = np.nan
    return Arrivals(
        waiting_ns=np.stack([_per_step(parts, step_count) for parts in waits]),
        late_ns=np.stack([_per_step(parts, step_count) for parts in late]),
        late_in_sections_ns=np.stack(late_in_sections_ns),
        communicators=tuple(communicators),
    )


def _own_lateness(start_ns: Values, gaps_ns: Values, clock_error_ns: float) -> Values:
    """Returns, for each operation, how late the last rank is because of its own computing. NaN: unknown.

    `start_ns` and `gaps_ns` (time since the last communication of a rank) are arrays [operations, ranks]. No rank
    counts as late up to a delay of `clock_error_ns`.
    """
    operations, last = np.arange(len(start_ns)), start_ns.argmax(axis=1)
    delay = start_ns.max(axis=1) - np.sort(start_ns, axis=1)[:, -2]
    last_gap = gaps_ns[operations, last]
    gaps_of_others = gaps_ns.copy()
    gaps_of_others[operations, last] = np.nan
    is_gap_known = ~np.isnan(gaps_of_others).all(axis=1)
    excess_gap = np.full(len(start_ns), np.nan)
    excess_gap[is_gap_known] = last_gap[is_gap_known] - np.nanmedian(gaps_of_others[is_gap_known], axis=1)
    lateness: Values = np.clip(np.minimum(delay, excess_gap), 0, None)
    lateness[delay <= clock_error_ns] = 0
    return lateness


def _gaps(starts_ns: Values, ends_ns: Values) -> Values:
    """Returns, for each call of a rank, the time from the last end of an earlier call to its start. NaN: unknown."""
    ends = np.sort(ends_ns[~np.isnan(ends_ns)])
    gaps = np.full(len(starts_ns), np.nan)
    if len(ends):
        previous = np.searchsorted(ends, starts_ns, side="right") - 1
        is_known = (previous >= 0) & ~np.isnan(starts_ns)
        gaps[is_known] = starts_ns[is_known] - ends[previous[is_known]]
    return gaps


def _per_step(parts: list[tuple[Values, Values, Indices]], step_count: int) -> Values:
    """Returns the length of the union of intervals in each step, so that simultaneous operations count once.

    NaN if there are no parts, or if a start in the step is NaN. A part is (starts, ends, steps) of some intervals.
    """
    if not parts:
        return np.full(step_count, np.nan)
    starts, ends, steps = (np.concatenate(values) for values in zip(*parts, strict=True))
    in_step = steps >= 0
    uncovered_lengths = measure_uncovered(starts[in_step], ends[in_step])  # their sum is the length of the union
    lengths = np.bincount(steps[in_step].astype(np.int64), weights=uncovered_lengths, minlength=step_count)
    return lengths.astype(np.float64)
