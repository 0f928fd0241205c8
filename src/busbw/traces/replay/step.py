"""Selects the operations of one step on all ranks.

The bounds of the step are found on one rank, the reference. Matched operations carry the bounds to the other ranks,
because on each rank the step can begin with a different operation.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from busbw.errors import UsageError
from busbw.traces.format import DeviceClock
from busbw.traces.matching import Indices, MatchedOperations
from busbw.traces.model import RankTrace, Trace
from busbw.traces.steps import Steps
from busbw.units import count_text

Times = NDArray[np.int64]
Bounds = tuple[int, int]
"""Index of the first operation of a rank in the step, and of its first operation after the step."""


@dataclass(frozen=True, kw_only=True)
class SelectedStep:
    """Operations to replay."""

    title: str
    """Text for people: "step 3 of 20"."""
    rows: tuple[tuple[MatchedOperations, slice], ...]
    """Rows of the matched operations that belong to the step."""
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
    with_steps = ((index, rank.steps) for index, rank in enumerate(trace.ranks) if rank.steps)
    reference, steps = (0, None) if whole else next(with_steps, (0, None))
    count = len(steps.starts) if steps else 0
    if number is not None and not 1 <= number <= count:
        problem = f"--step {number}: {trace.name} has {count_text(count, 'repeated step')}"
        raise UsageError(problem, remedy="remove --step, or replace it by --all")
    if not steps:
        rows = tuple((one, slice(0, len(one.indices))) for one in matched)
        bounds = tuple((0, len(rank.operations)) for rank in trace.ranks)
        title = "all operations" if whole else "all operations, because no step repeats"
        return SelectedStep(title=title, rows=rows, bounds=bounds)
    number = number or _median_step(trace.ranks[reference], steps)
    reference_bounds = (int(steps.starts[number - 1]), int(steps.ends[number - 1]))
    found = _carry_bounds(trace, matched, number, {reference: reference_bounds})
    return SelectedStep(
        title=f"step {number} of {count}",
        rows=tuple((one, _rows_between(one.indices[:, 0], found[one.ranks[0]])) for one in matched),
        bounds=tuple(found[rank] for rank in range(len(trace.ranks))),
    )


def device_times(rank: RankTrace) -> tuple[Times, Times] | None:
    """Returns start and end of all operations of a rank in ns, 0 if unknown. None if it has no device times."""
    starts, ends = (rank.operations[name].astype(np.int64) for name in ("device_start_ns", "device_end_ns"))
    is_known = (starts > 0) & (ends >= starts)
    if rank.device_clock not in (DeviceClock.HOST, DeviceClock.GPU) or not is_known.any():
        return None
    return np.where(is_known, starts, 0), np.where(is_known, ends, 0)


def _median_step(rank: RankTrace, steps: Steps) -> int:
    """Returns the number of the step with the median time, of the steps that immediately follow another step."""
    times = device_times(rank)
    ends = np.maximum.accumulate(times[1] if times else rank.operations["enqueue_ns"].astype(np.int64))
    following = np.flatnonzero(steps.starts[1:] == steps.ends[:-1]) + 1
    if not len(following):
        return 1
    durations = ends[steps.ends[following] - 1] - ends[steps.starts[following] - 1]
    return int(following[np.argsort(durations, kind="stable")[(len(following) - 1) // 2]]) + 1


def _carry_bounds(
    trace: Trace, matched: Sequence[MatchedOperations], number: int, known: dict[int, Bounds]
) -> dict[int, Bounds]:
    """Returns the bounds on each rank, from the bounds on the reference.

    Bounds are carried from a rank with known bounds to the ranks with common operations. The carried bound of a rank is
    its first operation that is matched with an operation at or after the known bound. If the rank has steps, its bounds
    become the bounds of its step that contains the carried first operation. A rank that no chain of matched operations
    joins to the reference has the bounds of its own step with this number.

    Args:
        trace: The recording.
        matched: Matched operations of the trace.
        number: Number of the step, from 1.
        known: Bounds of the reference. Receives the bounds of the other ranks.
    """
    by_rank: dict[int, list[tuple[MatchedOperations, int]]] = {rank: [] for rank in range(len(trace.ranks))}
    for one in matched:
        for column, rank in enumerate(one.ranks):
            by_rank[rank].append((one, column))
    pending = dict.fromkeys(by_rank)
    while pending:
        # A rank with carried bounds comes first. Without one, no chain joins the next rank to the reference.
        rank = next((one for one in pending if one in known), next(iter(pending)))
        operations = trace.ranks[rank].operations
        if steps := trace.ranks[rank].steps:
            if rank in known:
                first = known[rank][0]
            else:
                first = int(steps.starts[number - 1]) if number <= len(steps.starts) else len(operations)
            for own in np.flatnonzero((steps.starts <= first) & (first < steps.ends)):
                known[rank] = (int(steps.starts[own]), int(steps.ends[own]))
        known.setdefault(rank, (len(operations), len(operations)))
        del pending[rank]
        carried: dict[int, Bounds] = {}
        for one, own_column in by_rank[rank]:
            rows = _rows_between(one.indices[:, own_column], known[rank])
            for column, other in enumerate(one.ranks):
                if other not in known:
                    length = len(trace.ranks[other].operations)
                    first, end = (_first_index(one.indices[row:, column], length) for row in (rows.start, rows.stop))
                    earlier_first, earlier_end = carried.get(other, (length, length))
                    carried[other] = (min(first, earlier_first), min(end, earlier_end))
        known |= carried
    return known


def _first_index(indices: Indices, default: int) -> int:
    """Returns the lowest index. An index of -1 is ignored."""
    return int(indices[indices >= 0].min(initial=default))


def _rows_between(indices: Indices, bounds: Bounds) -> slice:
    """Returns the rows with an index of a rank within the bounds. A row without this rank (-1) has no influence."""
    first, end = (int(np.flatnonzero(indices >= bound).min(initial=len(indices))) for bound in bounds)
    return slice(first, end)
