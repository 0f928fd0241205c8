"""Names ranks that are late, and communicators that are slower than others with the same role."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from busbw.traces.analysis.groups import members_text
from busbw.traces.analysis.prepare import PreparedTrace
from busbw.traces.analysis.transfers import median_by_key
from busbw.traces.analysis.types import Finding, OperationRow, RankRow
from busbw.traces.format import SYNCHRONIZING
from busbw.units import count_text, milliseconds_text

_MIN_LATE_RATIO = 3.0
"""Minimum lateness of a late rank, relative to the median of the other ranks. Even a healthy rank is sometimes last."""
_MIN_SLOW_RATIO = 1.2
"""Minimum ratio of the transfer time of a communicator to the transfer time of similar communicators."""
_MIN_COST = 0.001
"""Minimum cost of a finding, as a fraction of the step."""


def find_late_ranks(
    ranks: Sequence[RankRow], period_us: float | None, period: str, clock_error_us: float
) -> Iterator[Finding]:
    """Yields the ranks that delay the others, the latest first. The cost of a finding is the lateness per period.

    `period_us`: mean duration of a period, None if unknown. `period`: "step" or "recording".
    """
    known = [(rank, rank.late_us) for rank in ranks if rank.late_us is not None]
    if len(known) < 2:
        return  # there is nothing to compare with
    for rank, late_us in sorted(known, key=lambda pair: -pair[1]):
        others = [other_us for other, other_us in known if other is not rank]
        min_us = max(_MIN_LATE_RATIO * float(np.median(others)), clock_error_us, _MIN_COST * (period_us or 0))
        if late_us > min_us:
            name = f"rank {rank.rank} on {rank.host}" if rank.host else f"rank {rank.rank}"
            often = f", in {rank.late_steps:.0%} of the steps" if rank.late_steps and period != "recording" else ""
            lateness = f"arrives {milliseconds_text(late_us)} late per {period}{often}"
            yield Finding(
                kind="late rank",
                text=f"{name} {lateness}; the others wait for it",
                remedy=f"let {name} arrive with the others",
                cost_us=late_us,
            )


def find_slow_communicators(
    prepared: PreparedTrace, rows: Sequence[OperationRow], period_us: float | None
) -> Iterator[Finding]:
    """Yields the communicators with a longer transfer time than the other communicators of their group."""
    trace, groups = prepared.trace, prepared.groups
    medians: dict[int, dict[int, float]] = {}  # transfer times in us, by index of the operation row and communicator
    for matched in prepared.matched:
        if matched.function not in SYNCHRONIZING:
            continue
        is_chosen = matched.is_complete & (matched.row >= 0)
        for row_index, median_us in median_by_key(matched.row[is_chosen], matched.transfer_ns[is_chosen] / 1e3).items():
            medians.setdefault(row_index, {})[matched.communicator] = median_us
    for group in groups:
        for communicator in group.communicators:
            own_us, others_us = _compare_transfers(communicator, medians, rows)
            cost_us = own_us - others_us
            if others_us and own_us > _MIN_SLOW_RATIO * others_us and cost_us > _MIN_COST * (period_us or 0):
                members = members_text(trace.communicators[communicator])
                own_ranks = trace.communicators[communicator].members
                hosts = sorted({rank.host for rank in trace.ranks if rank.rank in own_ranks and rank.host})
                on_host = f" on {hosts[0]}" if len(hosts) == 1 else ""
                text = (
                    f"transfers of {group.label} among ranks {members}{on_host} "
                    f"take {own_us / others_us:.2f} times as long as in "
                    f"{count_text(len(group.communicators) - 1, 'similar communicator')}, for all its ranks: "
                    f"a slow link or GPU, not a late rank; cost {milliseconds_text(cost_us)} per {prepared.period}"
                )
                remedy = f"make ranks {members} of {group.label} as fast as the similar ones"
                yield Finding(kind="slow communicator", text=text, remedy=remedy, cost_us=cost_us)


def _compare_transfers(
    communicator: int, medians: Mapping[int, Mapping[int, float]], rows: Sequence[OperationRow]
) -> tuple[float, float]:
    """Returns the transfer times per step of a communicator and of the other communicators, in us.

    Both are sums over the operation rows that the communicator and at least one other communicator have. The time of
    the other communicators in a row is their median.
    """
    own_us = others_us = 0.0
    for row_index, by_communicator in medians.items():
        others = [median_us for other, median_us in by_communicator.items() if other != communicator]
        if communicator in by_communicator and others:
            calls_per_step = rows[row_index].calls_per_step
            own_us += by_communicator[communicator] * calls_per_step
            others_us += float(np.median(others)) * calls_per_step
    return own_us, others_us
