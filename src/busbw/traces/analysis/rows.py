"""Rows of the table of operations: calls with one function and size in one group of communicators."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgspec
import numpy as np

from busbw.collectives import collectives
from busbw.traces.analysis.calls import UNKNOWN_SIZE, function_name
from busbw.traces.analysis.intervals import Indices, Values
from busbw.traces.analysis.prepare import PreparedTrace, group_of_communicator
from busbw.traces.analysis.transfers import MatchedCalls
from busbw.traces.analysis.types import OperationRow
from busbw.traces.format import DATATYPE_NAMES, UNKNOWN_BYTE, Algorithm, Protocol
from busbw.units import bandwidth_gbps

_ALGORITHM_NAMES = {int(one): one.name.lower() for one in Algorithm if one != Algorithm.UNKNOWN}
_PROTOCOL_NAMES = {int(one): one.name.lower() for one in Protocol if one != Protocol.UNKNOWN}


def summarize_rows(prepared: PreparedTrace, period_us: float | None) -> tuple[OperationRow, ...]:
    """Summarizes the calls of each row. `period_us`: mean duration of a step, None if unknown."""
    calls, groups, row_count = prepared.calls, prepared.groups, prepared.row_count
    all_rows = np.concatenate(prepared.rows)
    sizes, durations, functions, communicators = (
        np.concatenate([getattr(one, name) for one in calls])
        for name in ("size_bytes", "duration_ns", "function", "communicator")
    )
    fields = np.concatenate(
        [one.trace.operations[["datatype", "algorithm", "protocol", "channels"]][one.first] for one in calls]
    )
    group_of = group_of_communicator(groups)
    rank_steps = [
        sum(one.step_count for one in calls if not set(group.communicators).isdisjoint(one.trace.own_ranks))
        for group in groups
    ]
    transfers = _transfers_by_row(prepared.matched, row_count)
    order = np.argsort(all_rows, kind="stable")
    bounds = np.searchsorted(all_rows[order], np.arange(row_count + 1))
    summaries = []
    for row, (begin, end) in enumerate(pairwise(bounds)):
        chosen = order[begin:end]
        group = int(group_of[communicators[chosen[0]]])
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
