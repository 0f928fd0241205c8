"""Rows of the table of operations: calls with one function and size in one group of communicators."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from busbw.collectives import collectives
from busbw.traces.analysis.calls import EXCHANGE, UNKNOWN_SIZE, RankCalls, function_name
from busbw.traces.analysis.intervals import Indices, Values
from busbw.traces.analysis.transfers import MatchedCalls
from busbw.traces.analysis.types import CommunicatorGroup, OperationRow
from busbw.traces.format import DATATYPE_NAMES, UNKNOWN_BYTE, Algorithm, Function, Protocol
from busbw.units import bandwidth_gbps

_MAX_SIZES = 8
"""Point-to-point operations of more sizes share a row, because their sizes can differ in each step."""
_ALGORITHM_NAMES = {int(one): one.name.lower() for one in Algorithm if one != Algorithm.UNKNOWN}
_PROTOCOL_NAMES = {int(one): one.name.lower() for one in Protocol if one != Protocol.UNKNOWN}
_PAIRWISE = (Function.SEND, Function.RECV, EXCHANGE)


def number_rows(
    calls: Sequence[RankCalls], groups: Sequence[CommunicatorGroup], communicator_count: int
) -> tuple[list[Indices], int]:
    """Returns the row of each call of each rank, and the number of rows. -1: in no analyzed step."""
    group_of = np.zeros(communicator_count, dtype=np.int64)
    for index, group in enumerate(groups):
        group_of[list(group.communicators)] = index
    steps, functions, sizes = (
        _join([getattr(one, name) for one in calls]) for name in ("step", "function", "size_bytes")
    )
    roles = group_of[_join([one.communicator for one in calls])] * 256 + functions
    distinct_sizes, size_numbers = np.unique(sizes, return_inverse=True)
    is_pairwise = np.isin(functions, _PAIRWISE)
    for role in np.unique(roles[is_pairwise]):
        chosen = roles == role
        if len(np.unique(size_numbers[chosen])) > _MAX_SIZES:
            size_numbers[chosen] = len(distinct_sizes)
    in_step = steps >= 0
    rows = np.full(len(steps), -1, dtype=np.int64)
    keys, rows[in_step] = np.unique((roles * (len(distinct_sizes) + 1) + size_numbers)[in_step], return_inverse=True)
    ends = np.cumsum([len(one.step) for one in calls])
    return np.split(rows, ends[:-1]), len(keys)


def summarize_rows(
    calls: Sequence[RankCalls],
    rows: Sequence[Indices],
    row_count: int,
    matched: Sequence[MatchedCalls],
    groups: Sequence[CommunicatorGroup],
    period_us: float | None,
) -> tuple[OperationRow, ...]:
    """Summarizes the calls of each row. `period_us`: mean duration of a step, None if unknown."""
    all_rows, sizes, durations, functions, communicators = (
        _join(values)
        for values in (
            rows,
            *(
                [getattr(one, name) for one in calls]
                for name in ("size_bytes", "duration_ns", "function", "communicator")
            ),
        )
    )
    fields = _join(
        [one.trace.operations[["datatype", "algorithm", "protocol", "channels"]][one.first] for one in calls]
    )
    group_of = {index: number for number, group in enumerate(groups) for index in group.communicators}
    rank_steps = [
        sum(one.step_count for one in calls if not set(group.communicators).isdisjoint(one.trace.own_ranks))
        for group in groups
    ]
    transfers = _transfers_by_row(matched, row_count)
    order = np.argsort(all_rows, kind="stable")
    bounds = np.searchsorted(all_rows[order], np.arange(row_count + 1))
    summaries = []
    for row, (begin, end) in enumerate(pairwise(bounds)):
        chosen = order[begin:end]
        group = group_of[int(communicators[chosen[0]])]
        known_sizes = sizes[chosen][sizes[chosen] != UNKNOWN_SIZE]
        known_ns = durations[chosen][~np.isnan(durations[chosen])]
        per_step = len(chosen) / max(rank_steps[group], 1)
        summary = OperationRow(
            group=group,
            function=function_name(int(functions[chosen[0]])),
            min_size_bytes=int(known_sizes.min()) if len(known_sizes) else None,
            max_size_bytes=int(known_sizes.max()) if len(known_sizes) else None,
            dtypes=tuple(
                DATATYPE_NAMES[code] for code in np.unique(fields["datatype"][chosen]) if code < len(DATATYPE_NAMES)
            ),
            calls_per_step=per_step,
            bytes_per_step=float(known_sizes.mean()) * per_step if len(known_sizes) == len(chosen) else None,
            timed_fraction=len(known_ns) / len(chosen),
            algorithms=_algorithm_names(fields["algorithm"][chosen], fields["protocol"][chosen]),
            max_channels=_max_known(fields["channels"][chosen]),
        )
        summaries.append(_with_times(summary, groups[group].size, known_ns, transfers[row], period_us))
    return tuple(summaries)


@dataclass(frozen=True)
class _Transfer:
    """Median transfer time of the operations of a row."""

    median_ns: float
    is_bound: bool


def _transfers_by_row(matched: Sequence[MatchedCalls], row_count: int) -> list[_Transfer | None]:
    """Returns the transfer of each row. Only operations that all ranks recorded count, if such exist."""
    if not matched:
        return [None] * row_count
    rows, transfers, complete = (
        np.concatenate([getattr(one, name) for one in matched]) for name in ("row", "transfer_ns", "is_complete")
    )
    is_known = (rows >= 0) & ~np.isnan(transfers)
    rows, transfers, complete = rows[is_known], transfers[is_known], complete[is_known]
    order = np.argsort(rows, kind="stable")
    bounds = np.searchsorted(rows[order], np.arange(row_count + 1))
    result: list[_Transfer | None] = []
    for begin, end in pairwise(bounds):
        chosen = order[begin:end]
        whole = chosen[complete[chosen]]
        used = whole if len(whole) else chosen
        result.append(_Transfer(float(np.median(transfers[used])), not len(whole)) if len(used) else None)
    return result


def _with_times(
    row: OperationRow, ranks: int, known_ns: Values, transfer: _Transfer | None, period_us: float | None
) -> OperationRow:
    if not len(known_ns):
        return row
    time_per_step_us = float(known_ns.mean()) * row.calls_per_step / 1e3
    row = msgspec.structs.replace(
        row,
        time_us=float(np.median(known_ns)) / 1e3,
        time_per_step_us=time_per_step_us,
        share=time_per_step_us / period_us if period_us else None,
    )
    if transfer is None:
        return row
    row = msgspec.structs.replace(row, transfer_us=transfer.median_ns / 1e3, is_transfer_bound=transfer.is_bound)
    collective, size = collectives().get(row.function), row.max_size_bytes
    if collective is None or not size or ranks < 2 or not row.transfer_us:
        return row
    return msgspec.structs.replace(
        row,
        algbw_gbps=bandwidth_gbps(size, row.transfer_us, collective.algbw_factor_of(ranks)),
        busbw_gbps=bandwidth_gbps(size, row.transfer_us, collective.bus_factor_of(ranks)),
    )


def _algorithm_names(algorithms: Indices, protocols: Indices) -> tuple[str, ...]:
    """Returns the combinations of algorithm and protocol, the most frequent first. Unknown ones are left out."""
    codes, counts = np.unique(algorithms.astype(np.int64) * 256 + protocols, return_counts=True)
    names = []
    for code in codes[np.argsort(-counts, kind="stable")]:
        algorithm, protocol = divmod(int(code), 256)
        names.append("/".join(filter(None, [_ALGORITHM_NAMES.get(algorithm), _PROTOCOL_NAMES.get(protocol)])))
    return tuple(filter(None, names))


def _max_known(channels: Indices) -> int | None:
    known = channels[channels != UNKNOWN_BYTE]
    return int(known.max()) if len(known) else None


def _join(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(arrays) if arrays else np.array([], dtype=np.int64)
