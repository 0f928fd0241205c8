"""Names ranks that are late, and communicators that are slower than others with the same role."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from busbw.traces.analysis.chance import MAX_CHANCE, chance_of_majority
from busbw.traces.analysis.groups import members_text
from busbw.traces.analysis.intervals import Values
from busbw.traces.analysis.prepare import PreparedTrace
from busbw.traces.analysis.transfers import median_by_key
from busbw.traces.analysis.types import CommunicatorGroup, Finding, OperationRow, RankRow
from busbw.traces.format import SYNCHRONIZING
from busbw.traces.model import Trace
from busbw.units import count_text, milliseconds_text

_MIN_LATE_RATIO = 3.0
"""Minimum lateness of a late rank, relative to the median of the other ranks. Even a healthy rank is sometimes last."""
_MIN_SLOW_RATIO = 1.2
"""Minimum ratio of the transfer time of a communicator to the transfer time of similar communicators."""
_MIN_COST = 0.001
"""Minimum cost of a finding, as a fraction of the step."""


def find_late_ranks(
    ranks: Sequence[RankRow],
    period_us: float | None,
    period: str,
    clock_error_us: float,
    *,
    chance_of: Callable[[int], float],
) -> Iterator[Finding]:
    """Yields the ranks that delay the others, the latest first. The cost of a finding is `RankRow.late_us`.

    `period_us`: mean duration of a period, None if unknown. `period`: "step" or "recording". `chance_of`: probability
    that a rank, by its index in `ranks`, is so late by chance.
    """
    known = [(index, rank, rank.late_us) for index, rank in enumerate(ranks) if rank.late_us is not None]
    if len(known) < 2:
        return  # there is nothing to compare with
    for index, rank, late_us in sorted(known, key=lambda item: -item[2]):
        others = [other_us for _, other, other_us in known if other is not rank]
        min_us = max(_MIN_LATE_RATIO * float(np.median(others)), clock_error_us, _MIN_COST * (period_us or 0))
        # The chance that any of the ranks is so late is up to the sum of their chances.
        if late_us > min_us and len(known) * chance_of(index) < MAX_CHANCE:
            name = f"rank {rank.rank} on {rank.host}" if rank.host else f"rank {rank.rank}"
            often = f", in {rank.late_steps:.0%} of the steps" if rank.late_steps and period != "recording" else ""
            lateness = f"delays the others by up to {milliseconds_text(late_us)} per {period}{often}"
            yield Finding(
                kind="late rank",
                text=f"{name} {lateness}",
                remedy=f"let {name} arrive with the others",
                cost_us=late_us,
            )


def find_slow_communicators(
    prepared: PreparedTrace, rows: Sequence[OperationRow], period_us: float | None
) -> Iterator[Finding]:
    """Yields the communicators with a longer transfer time than the other communicators of their group.

    Communicators are compared if their ranks are distributed alike to nodes, because a transfer between nodes takes
    longer than one inside a node.
    """
    trace, groups = prepared.trace, prepared.groups
    # Transfer times in us and their medians, by index of the operation row and communicator.
    times: dict[int, dict[int, Values]] = {}
    medians: dict[int, dict[int, float]] = {}
    for matched in prepared.matched:
        if matched.function not in SYNCHRONIZING:
            continue
        is_chosen = matched.is_complete & (matched.row >= 0)
        chosen_rows, chosen_us = matched.row[is_chosen], matched.transfer_ns[is_chosen] / 1e3
        for row_index, median_us in median_by_key(chosen_rows, chosen_us).items():
            medians.setdefault(row_index, {})[matched.communicator] = median_us
            times.setdefault(row_index, {})[matched.communicator] = chosen_us[chosen_rows == row_index]
    host_by_rank: dict[int | None, str] = {rank.rank: rank.host for rank in trace.ranks}
    for group in groups:
        for alike in _split_by_nodes(trace, group, host_by_rank):
            for communicator in alike:
                comparison = _compare_transfers(communicator, alike, times, medians, rows)
                own_us, others_us = comparison.own_us, comparison.others_us
                cost_us = own_us - others_us
                is_slow = others_us > 0 and own_us > _MIN_SLOW_RATIO * others_us
                # The chance that any of the communicators is so slow is up to the sum of their chances.
                chance = len(alike) * chance_of_majority(comparison.longer_count, comparison.operation_count)
                if is_slow and cost_us > _MIN_COST * (period_us or 0) and chance < MAX_CHANCE:
                    members = members_text(trace.communicators[communicator])
                    own_ranks = trace.communicators[communicator].members
                    hosts = sorted({host for rank in own_ranks if (host := host_by_rank.get(rank))})
                    on_host = f" on {hosts[0]}" if len(hosts) == 1 else ""
                    more_nodes = "" if hosts else ", or more nodes than the similar ones"
                    text = (
                        f"transfers of {group.label} among ranks {members}{on_host} "
                        f"take {own_us / others_us:.2f} times as long as in "
                        f"{count_text(len(alike) - 1, 'similar communicator')}, for all its ranks: "
                        f"a slow link or GPU{more_nodes}, not a late rank; "
                        f"cost up to {milliseconds_text(cost_us)} per {prepared.period}"
                    )
                    remedy = f"make ranks {members} of {group.label} as fast as the similar ones"
                    yield Finding(kind="slow communicator", text=text, remedy=remedy, cost_us=cost_us)


def _split_by_nodes(
    trace: Trace, group: CommunicatorGroup, host_by_rank: Mapping[int | None, str]
) -> Iterator[list[int]]:
    """Yields the communicators of a group, by the numbers of ranks on their nodes. Unknown hosts count as one."""
    alike: dict[tuple[int, ...], list[int]] = {}
    for communicator in group.communicators:
        rank_counts = Counter(host_by_rank.get(rank, "") for rank in trace.communicators[communicator].members)
        alike.setdefault(tuple(sorted(rank_counts.values())), []).append(communicator)
    yield from alike.values()


class _Comparison(NamedTuple):
    """Transfer times of a communicator and of similar ones, for the operation rows that both have."""

    own_us: float
    """Per step: sum over the rows of the median."""
    others_us: float
    """As `own_us`, of the median of the other communicators."""
    longer_count: int
    """Number of own operations that take longer than the median of the other communicators."""
    operation_count: int
    """Number of own operations."""


def _compare_transfers(
    communicator: int,
    alike: Sequence[int],
    times: Mapping[int, Mapping[int, Values]],
    medians: Mapping[int, Mapping[int, float]],
    rows: Sequence[OperationRow],
) -> _Comparison:
    """Compares the transfer times of a communicator with those of the others in `alike`.

    `times`, `medians`: transfer times in us and their medians, by index of the operation row and communicator.
    """
    own_us = others_us = 0.0
    longer_count = operation_count = 0
    for row_index, median_by_communicator in medians.items():
        others = [
            median_by_communicator[other]
            for other in alike
            if other != communicator and other in median_by_communicator
        ]
        if communicator in median_by_communicator and others:
            own, other_median_us = times[row_index][communicator], float(np.median(others))
            calls_per_step = rows[row_index].calls_per_step
            own_us += median_by_communicator[communicator] * calls_per_step
            others_us += other_median_us * calls_per_step
            longer_count += int((own > other_median_us).sum())
            operation_count += len(own)
    return _Comparison(own_us, others_us, longer_count, operation_count)
