"""Selects the operations of one step on all ranks.

The bounds of the step are found on one rank, the reference. On each rank the step can begin with a different operation,
so matched operations carry the bounds to the other ranks. `MatchedOperations.indices` has a row for each matched
operation and a column for each rank. A column has -1 if the rank lacks the operation.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from busbw.errors import UsageError
from busbw.traces.alignment import Indices
from busbw.traces.clocks import Times
from busbw.traces.format import DeviceClock
from busbw.traces.matching import MatchedOperations
from busbw.traces.model import RankTrace, Trace
from busbw.traces.steps import Steps
from busbw.units import count_text

Bounds = tuple[int, int]
"""Index of the first operation of a rank in the step, and index of its first operation after the step."""


@dataclass(frozen=True, kw_only=True)
class SelectedStep:
    """Operations to replay."""

    title: str
    """Text for people: "step 3 of 20"."""
    rows: tuple[tuple[MatchedOperations, slice], ...]
    """Rows of `MatchedOperations.indices` that belong to the step."""
    bounds: tuple[Bounds, ...]
    """For each recorded rank."""


def select_step(trace: Trace, number: int | None = None, *, whole: bool = False) -> SelectedStep:
    """Selects a step.

    Args:
        trace: The recording.
        number: Number of the step, from 1. None: the step with the median time.
        whole: True to select all operations instead. If no step repeats, all operations are also selected.

    Raises:
        UsageError: The trace has no such step.
    """
    matched = trace.matching.operations
    reference, steps = 0, None
    ranks_with_steps = [index for index, rank in enumerate(trace.ranks) if rank.steps]
    if ranks_with_steps and not whole:
        reference = ranks_with_steps[0]
        steps = trace.ranks[reference].steps
    count = len(steps.starts) if steps else 0
    if number is not None and not 1 <= number <= count:
        problem = f"--step {number}: {trace.name} has {count_text(count, 'repeated step')}"
        raise UsageError(problem, remedy="remove --step, or replace it by --all")
    if not steps:
        rows = tuple((operations, slice(0, len(operations.indices))) for operations in matched)
        bounds = tuple((0, len(rank.operations)) for rank in trace.ranks)
        title = "all operations" if whole else "all operations, because no step repeats"
        return SelectedStep(title=title, rows=rows, bounds=bounds)
    number = _median_step(trace.ranks[reference], steps) if number is None else number
    reference_bounds = (int(steps.starts[number - 1]), int(steps.ends[number - 1]))
    bounds_by_rank = _carry_bounds(trace, matched, number, reference, reference_bounds)
    return SelectedStep(
        title=f"step {number} of {count}",
        # The rows are those of the first rank with these operations, because ranks may differ at the bounds.
        rows=tuple(
            (operations, _rows_between(operations.indices[:, 0], bounds_by_rank[operations.ranks[0]]))
            for operations in matched
        ),
        bounds=tuple(bounds_by_rank[rank] for rank in range(len(trace.ranks))),
    )


def device_times(rank: RankTrace) -> tuple[Times, Times] | None:
    """Returns start and end of all operations of a rank in ns, 0 if unknown. None if it has no device times."""
    starts, ends = (rank.operations[name].astype(np.int64) for name in ("device_start_ns", "device_end_ns"))
    is_known = (starts > 0) & (ends >= starts)
    if rank.device_clock not in (DeviceClock.HOST, DeviceClock.GPU) or not is_known.any():
        return None
    return np.where(is_known, starts, 0), np.where(is_known, ends, 0)


def _median_step(rank: RankTrace, steps: Steps) -> int:
    """Returns the number, from 1, of the step with the median time.

    Only steps that immediately follow another step have a time: from the last end before the step to its last end.
    """
    times = device_times(rank)
    ends = rank.operations["enqueue_ns"].astype(np.int64) if times is None else times[1]
    latest_ends = np.maximum.accumulate(ends)
    following = np.flatnonzero(steps.starts[1:] == steps.ends[:-1]) + 1
    if not len(following):
        return 1
    durations = latest_ends[steps.ends[following] - 1] - latest_ends[steps.starts[following] - 1]
    shortest_first = following[np.argsort(durations, kind="stable")]
    return int(shortest_first[(len(following) - 1) // 2]) + 1


def _carry_bounds(
    trace: Trace, matched: Sequence[MatchedOperations], number: int, reference: int, reference_bounds: Bounds
) -> dict[int, Bounds]:
    """Returns the bounds on each rank, from the bounds on the reference.

    Bounds are carried from a rank with known bounds to the ranks with common operations, first and end separately. For
    example, the step begins on rank 0 with operation 10. Operations 9, 12 and 13 of rank 0 are matched with operations
    4, 6 and 7 of rank 1. Then the step begins on rank 1 with operation 6: the first one with a match at or after 10.
    If no chain of matched operations joins a rank to the reference, nothing is carried to it (`_bounds_on_rank`).
    """
    bounds = {reference: reference_bounds}
    matched_by_rank: dict[int, list[tuple[MatchedOperations, int]]] = {rank: [] for rank in range(len(trace.ranks))}
    for operations in matched:
        for column, rank in enumerate(operations.ranks):
            matched_by_rank[rank].append((operations, column))
    pending = list(range(len(trace.ranks)))
    while pending:
        # A rank with carried bounds comes first. If no such rank is left, no chain joins the others to the reference.
        rank = next((candidate for candidate in pending if candidate in bounds), pending[0])
        pending.remove(rank)
        # The rank's own step replaces the carried bounds if it contains their first operation.
        bounds[rank] = _bounds_on_rank(trace.ranks[rank], number, bounds.get(rank))
        carried: dict[int, Bounds] = {}
        for operations, own_column in matched_by_rank[rank]:
            step_rows = _rows_between(operations.indices[:, own_column], bounds[rank])
            for column, other in enumerate(operations.ranks):
                if other not in bounds:
                    length = len(trace.ranks[other].operations)
                    # The other rank may lack the row of the bound. Then its next operation is the bound, which may be
                    # after the step. So both searches go on to the last row.
                    first = _first_index(operations.indices[step_rows.start :, column], length)
                    end = _first_index(operations.indices[step_rows.stop :, column], length)
                    earlier_first, earlier_end = carried.get(other, (length, length))
                    carried[other] = (min(first, earlier_first), min(end, earlier_end))
        bounds |= carried
    return bounds


def _bounds_on_rank(rank: RankTrace, number: int, carried: Bounds | None) -> Bounds:
    """Returns the bounds of the step on a rank: those of the rank's own step that contains the carried first operation.

    Without such a step, the result is the carried bounds. If nothing is carried, the result is the rank's own step with
    this number.
    """
    steps = rank.steps
    if carried is None and steps and number <= len(steps.starts):
        return int(steps.starts[number - 1]), int(steps.ends[number - 1])
    if carried is None:
        return len(rank.operations), len(rank.operations)
    if steps:
        for start, end in zip(steps.starts.tolist(), steps.ends.tolist(), strict=True):
            if start <= carried[0] < end:
                return start, end
    return carried


def _first_index(indices: Indices, default: int) -> int:
    """Returns the lowest index. An index of -1 is ignored."""
    return int(indices[indices >= 0].min(initial=default))


def _rows_between(indices: Indices, bounds: Bounds) -> slice:
    """Returns the range of rows of a step on one rank.

    The range begins and ends at the first row with an index at or after the bound. A row without this rank (-1) cannot
    be one of these two rows, but it can be within the range. `indices`: index of the rank's operation in each row.
    """
    first, end = (int(np.flatnonzero(indices >= bound).min(initial=len(indices))) for bound in bounds)
    return slice(first, end)
