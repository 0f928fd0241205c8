"""Prepares a trace for all analyses: common clock, steps, calls, groups of communicators and matched operations."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from busbw.traces.analysis.calls import EXCHANGE, CallTable, list_calls
from busbw.traces.analysis.groups import group_communicators
from busbw.traces.analysis.intervals import Indices
from busbw.traces.analysis.transfers import MatchedCalls, match_calls
from busbw.traces.analysis.types import CommunicatorGroup
from busbw.traces.clocks import ClockAlignment, align_clocks
from busbw.traces.format import TRANSFERS
from busbw.traces.model import Trace

_MAX_SIZES = 8
"""Maximum number of sizes of point-to-point operations with a row for each size. With more, all sizes share a row,
because the sizes can differ in each step."""


@dataclass(frozen=True, kw_only=True)
class PreparedTrace:
    """A trace with the calls of its analyzed steps. Calls of one group, function and size share a row."""

    trace: Trace
    problems: tuple[str, ...]
    """Problems of the trace, and differences between the ranks."""
    clocks: ClockAlignment
    period: str
    """Interval of values "per step": "step" or "recording"."""
    calls: CallTable
    groups: tuple[CommunicatorGroup, ...]
    rows: Indices
    """Row of each call. -1: in no analyzed step."""
    matched: tuple[MatchedCalls, ...]


def prepare_trace(trace: Trace) -> PreparedTrace:
    """Prepares a trace with at least one rank: all complete steps, or the recording if it has no steps."""
    matched = trace.matching.operations
    clocks = align_clocks(trace, matched)
    calls = list_calls(trace, clocks)
    groups = group_communicators(trace)
    rows = _number_rows(calls, groups)
    return PreparedTrace(
        trace=trace,
        problems=tuple(dict.fromkeys((*trace.problems, *trace.matching.problems))),
        clocks=clocks,
        period="step" if any(rank.steps for rank in trace.ranks) else "recording",
        calls=calls,
        groups=groups,
        rows=rows,
        matched=tuple(match_calls(trace, matched, calls, rows)),
    )


def group_of_communicator(groups: Sequence[CommunicatorGroup]) -> Indices:
    """Returns the group of each communicator."""
    numbers = np.zeros(sum(len(group.communicators) for group in groups), dtype=np.int64)
    for number, group in enumerate(groups):
        numbers[list(group.communicators)] = number
    return numbers


def _number_rows(calls: CallTable, groups: Sequence[CommunicatorGroup]) -> Indices:
    """Returns the row of each call, from 0. -1: in no analyzed step."""
    # One number for both: function 3 in group 2 is 2 * 256 + 3.
    groups_and_functions = group_of_communicator(groups)[calls.communicator] * 256 + calls.function
    distinct_sizes, size_numbers = np.unique(calls.size_bytes, return_inverse=True)
    common_number = len(distinct_sizes)  # stands for all sizes of calls with too many sizes
    is_pairwise = np.isin(calls.function, (*TRANSFERS, EXCHANGE))
    for group_and_function in np.unique(groups_and_functions[is_pairwise]):
        chosen = groups_and_functions == group_and_function
        if len(np.unique(size_numbers[chosen])) > _MAX_SIZES:
            size_numbers[chosen] = common_number
    keys = groups_and_functions * (common_number + 1) + size_numbers
    in_step = calls.step >= 0
    rows = np.full(len(in_step), -1, dtype=np.int64)
    _, rows[in_step] = np.unique(keys[in_step], return_inverse=True)
    return rows
