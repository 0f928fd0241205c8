"""Timeline of one step: when each rank waits and transfers in each group of communicators."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from busbw.traces.analysis.intervals import Values, merge
from busbw.traces.analysis.prepare import PreparedTrace, group_of_communicator
from busbw.traces.analysis.transfers import ENDING_TOGETHER
from busbw.traces.analysis.types import TraceAnalysis

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
    """Number of ranks of the trace. The timeline may show fewer."""


def make_timeline(prepared: PreparedTrace, analysis: TraceAnalysis) -> Timeline | None:
    """Returns the timeline of the analyzed step with the median duration. None without device times.

    Ranks that are late come first, then the lowest ones. Without a common clock, only one rank is shown.
    """
    timed = [index for index, one in enumerate(prepared.calls) if not np.isnan(one.start_ns).all()]
    if not timed:
        return None
    reference = prepared.calls[timed[0]]
    if reference.steps is None:
        number, begin_ns, end_ns = 0, np.nanmin(reference.start_ns), np.nanmax(reference.end_ns)
        title = "Timeline of the recording"
    else:
        durations = reference.step_durations_ns
        if not np.isfinite(durations).any():
            return None
        number = int(np.nanargmin(np.abs(durations - np.nanmedian(durations))))
        begin_ns = reference.step_starts_ns[number]
        end_ns = begin_ns + durations[number]
        title = f"Timeline of step {number + 1}"
    chosen = timed[:1]
    if reference.is_aligned:
        timed = [index for index in timed if prepared.calls[index].is_aligned]
        ordered = sorted(timed, key=lambda index: -(analysis.ranks[index].late_us or 0))
        late = [index for index in ordered if analysis.ranks[index].late_us][: MAX_RANKS // 2]
        chosen = sorted([*late, *(index for index in timed if index not in late)][:MAX_RANKS])
    lanes = _lanes(prepared, chosen, float(begin_ns), float(end_ns))
    return Timeline(
        title=title, duration_ms=float(end_ns - begin_ns) / 1e6, lanes=tuple(lanes), rank_count=len(prepared.calls)
    )


def _lanes(prepared: PreparedTrace, ranks: Sequence[int], begin_ns: float, end_ns: float) -> Iterator[Lane]:
    group_of = group_of_communicator(prepared.groups)
    wait_ends = _wait_ends(prepared, ranks)
    max_gap_ms = (end_ns - begin_ns) / 1e6 * _RESOLUTION
    for rank in ranks:
        calls = prepared.calls[rank]
        groups = group_of[calls.communicator]
        is_visible = (calls.end_ns > begin_ns) & (calls.start_ns < end_ns)
        for group in np.unique(groups[is_visible]):
            chosen = is_visible & (groups == group)
            start, wait_end, end = (
                (np.clip(times[chosen], begin_ns, end_ns) - begin_ns) / 1e6
                for times in (calls.start_ns, wait_ends[rank], calls.end_ns)
            )
            is_waiting = wait_end > start
            yield Lane(
                rank=calls.trace.rank,
                group=int(group),
                waits=merge(start[is_waiting], wait_end[is_waiting], max_gap_ms),
                transfers=merge(wait_end, end, max_gap_ms),
            )


def _wait_ends(prepared: PreparedTrace, ranks: Sequence[int]) -> dict[int, Values]:
    """Returns the time at which each call of these ranks ends to wait for others: its start if that is unknown."""
    wait_ends = {rank: prepared.calls[rank].start_ns.copy() for rank in ranks}
    for one in prepared.matched:
        if one.is_aligned and one.function in ENDING_TOGETHER:
            latest = one.start_ns[one.is_complete].max(axis=1)
            for column, rank in enumerate(one.ranks):
                if rank in wait_ends:
                    calls = one.calls[one.is_complete, column]
                    # A clock error can place the last start after the end of this rank.
                    wait_ends[rank][calls] = np.minimum(latest, prepared.calls[rank].end_ns[calls])
    return wait_ends
