"""Communication, overlap between groups of communicators, waits and lateness of each rank."""

from collections.abc import Sequence

import numpy as np

from busbw.traces.analysis.calls import CallTable, RankCalls
from busbw.traces.analysis.intervals import Depths, Values, measure_depths
from busbw.traces.analysis.prepare import group_of_communicator
from busbw.traces.analysis.transfers import Arrivals
from busbw.traces.analysis.types import CommunicatorGroup, RankRow


def measure_ranks(
    calls: CallTable, groups: Sequence[CommunicatorGroup], arrivals: Arrivals, period_us: float | None
) -> tuple[tuple[RankRow, ...], Values]:
    """Measures each rank. Also returns `CommunicatorGroup.alone_us` of each group, NaN if unknown.

    `period_us`: mean duration of a step, None if unknown.
    """
    measured = [_measure_depths(calls, rank.span, groups) for rank in calls.ranks]
    rows = []
    for rank, depth, waiting_ns, late_ns in zip(
        calls.ranks, measured, arrivals.waiting_ns, arrivals.late_ns, strict=True
    ):
        # The arrays have the steps of the rank with the most steps. The mean wait is known only if all waits are known.
        # The mean lateness is that of the steps with a known lateness.
        waits = waiting_ns[: len(rank.analyzed)][rank.analyzed]
        is_known = len(waits) > 0 and not np.isnan(waits).any()
        late = late_ns[: len(rank.analyzed)][rank.analyzed]
        late = late[~np.isnan(late)]
        communication_us = depth.busy / 1e3 / rank.step_count if depth else None
        rows.append(
            RankRow(
                rank=rank.trace.rank,
                host=rank.trace.host,
                communication_us=communication_us,
                overlap=depth.overlapped / depth.busy if depth and depth.busy else None,
                idle_us=max(period_us - communication_us, 0) if period_us and communication_us is not None else None,
                waiting_us=float(waits.mean()) / 1e3 if is_known else None,
                late_us=float(late.mean()) / 1e3 if len(late) else None,
                late_steps=float((late > 0).mean()) if len(late) else None,
            )
        )
    return tuple(rows), _mean_alone_us(calls.ranks, groups, measured)


def _measure_depths(calls: CallTable, span: slice, groups: Sequence[CommunicatorGroup]) -> Depths | None:
    """Measures how long the groups of a rank communicate alone and together, in the analyzed steps.

    None if no call in these steps has device times.
    """
    starts_ns, ends_ns = calls.start_ns[span], calls.end_ns[span]
    chosen = (calls.step[span] >= 0) & ~np.isnan(starts_ns)
    if not chosen.any():
        return None
    sets = group_of_communicator(groups)[calls.communicator[span][chosen]]
    return measure_depths(starts_ns[chosen], ends_ns[chosen], sets, len(groups))


def _mean_alone_us(
    calls: Sequence[RankCalls], groups: Sequence[CommunicatorGroup], measured: Sequence[Depths | None]
) -> Values:
    """Returns, for each group, the time per step in which no other group communicates: mean over the group's ranks."""
    known = [(rank.step_count, depth) for rank, depth in zip(calls, measured, strict=True) if depth]
    if not known:
        return np.full(len(groups), np.nan)
    alone_us = np.array([depth.alone / 1e3 / step_count for step_count, depth in known])
    rank_counts = np.array([depth.total > 0 for _, depth in known]).sum(axis=0)
    mean_us: Values = alone_us.sum(axis=0) / np.maximum(rank_counts, 1)
    return mean_us
