"""Timeline of one step: when each rank waits and transfers in each group of communicators."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from busbw.traces.analysis.intervals import Values, merge
from busbw.traces.analysis.prepare import PreparedTrace, group_of_communicator
from busbw.traces.analysis.types import TraceAnalysis
from busbw.traces.format import SYNCHRONIZING

MAX_RANKS = 8
"""Maximum number of ranks in a timeline."""
_RESOLUTION = 1 / 1500
"""Gaps below this fraction of the step are closed, because they are not visible."""


@dataclass(frozen=True, kw_only=True)
class Lane:
    """Operations of one rank in one group of communicators. Starts and ends are in ms since the start of the step."""

    rank: int
    group: int
    waits: tuple[Values, Values]
    """Waits for later ranks."""
    transfers: tuple[Values, Values]


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """One step of some ranks."""

    title: str
    duration_ms: float
    lanes: tuple[Lane, ...]
    """Ordered by rank and group."""
    rank_count: int
    """Number of ranks of the trace. The timeline may show fewer ranks."""


def make_timeline(prepared: PreparedTrace, analysis: TraceAnalysis) -> Timeline | None:
    """Returns the timeline of the analyzed step with the median duration. None without device times.

    Late ranks are chosen first, then the ranks with the lowest numbers. Without a common clock, only one rank is shown.
    """
    calls = prepared.calls
    timed = [index for index, rank in enumerate(calls.ranks) if not np.isnan(calls.start_ns[rank.span]).all()]
    with_job_steps = [index for index in timed if calls.ranks[index].has_job_steps]
    if not with_job_steps:
        return None
    reference = calls.ranks[with_job_steps[0]]
    if reference.steps is None:  # no rank has steps: `has_job_steps` is true for all, and the recording is one step
        begin_ns, end_ns = np.nanmin(calls.start_ns[reference.span]), np.nanmax(calls.end_ns[reference.span])
        title = "Timeline of the recording"
    else:
        durations = reference.step_durations_ns
        if not np.isfinite(durations).any():
            return None
        number = int(np.nanargmin(np.abs(durations - np.nanmedian(durations))))
        begin_ns = reference.step_starts_ns[number]
        end_ns = begin_ns + durations[number]
        title = f"Timeline of step {number + 1}"
    chosen = with_job_steps[:1]
    if reference.is_aligned:
        chosen = _choose_ranks(analysis, [index for index in timed if calls.ranks[index].is_aligned])
    lanes = _lanes(prepared, chosen, float(begin_ns), float(end_ns))
    return Timeline(
        title=title, duration_ms=float(end_ns - begin_ns) / 1e6, lanes=tuple(lanes), rank_count=len(calls.ranks)
    )


def _choose_ranks(analysis: TraceAnalysis, candidates: Sequence[int]) -> list[int]:
    """Returns indices of up to `MAX_RANKS` ranks: late ranks for up to half, then the ranks with the lowest numbers."""
    latest_first = sorted(candidates, key=lambda index: -(analysis.ranks[index].late_us or 0))
    late = [index for index in latest_first if analysis.ranks[index].late_us][: MAX_RANKS // 2]
    others = [index for index in candidates if index not in late]
    return sorted([*late, *others][:MAX_RANKS])


def _lanes(prepared: PreparedTrace, rank_indices: Sequence[int], begin_ns: float, end_ns: float) -> Iterator[Lane]:
    calls = prepared.calls
    wait_ends_ns = _wait_ends(prepared)
    max_gap_ms = (end_ns - begin_ns) / 1e6 * _RESOLUTION
    for rank in (calls.ranks[index] for index in rank_indices):
        groups = group_of_communicator(prepared.groups)[calls.communicator[rank.span]]
        is_visible = (calls.end_ns[rank.span] > begin_ns) & (calls.start_ns[rank.span] < end_ns)
        times_ns = np.stack([calls.start_ns[rank.span], wait_ends_ns[rank.span], calls.end_ns[rank.span]])
        times_ms = (np.clip(times_ns, begin_ns, end_ns) - begin_ns) / 1e6
        for group in np.unique(groups[is_visible]):
            start_ms, wait_end_ms, end_ms = times_ms[:, is_visible & (groups == group)]
            is_waiting = wait_end_ms > start_ms
            yield Lane(
                rank=rank.trace.rank,
                group=int(group),
                waits=merge(start_ms[is_waiting], wait_end_ms[is_waiting], max_gap_ms),
                transfers=merge(wait_end_ms, end_ms, max_gap_ms),
            )


def _wait_ends(prepared: PreparedTrace) -> Values:
    """Returns the time at which the wait of each call for other ranks ends. If unknown: the start of the call."""
    calls = prepared.calls
    wait_ends_ns: Values = calls.start_ns.copy()
    for matched_calls in prepared.matched:
        if matched_calls.is_aligned and matched_calls.function in SYNCHRONIZING:
            complete = matched_calls.calls[matched_calls.is_complete]
            latest = matched_calls.start_ns[matched_calls.is_complete].max(axis=1)
            # A clock error can place the last start after the end of the call of a rank.
            wait_ends_ns[complete] = np.minimum(latest[:, np.newaxis], calls.end_ns[complete])
    return wait_ends_ns
