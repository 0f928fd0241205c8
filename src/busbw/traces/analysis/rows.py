"""Rows of the table of operations, summarized from their calls.

The calls of a row have one function and one size, in one group of communicators. Only point-to-point operations of many
sizes share a row.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from busbw.collectives import collectives
from busbw.traces.analysis.calls import FUNCTION_NAMES, UNKNOWN_SIZE, RankCalls
from busbw.traces.analysis.prepare import PreparedTrace, group_of_communicator
from busbw.traces.analysis.transfers import transfers_by_row
from busbw.traces.analysis.types import OperationRow
from busbw.traces.format import DATATYPE_NAMES, UNKNOWN_BYTE, Algorithm, Protocol
from busbw.units import bandwidth_gbps

Codes = NDArray[np.uint8]
"""Numbers of NCCL for types, algorithms or protocols."""

_ALGORITHM_NAMES = {int(algorithm): algorithm.name.lower() for algorithm in Algorithm if algorithm != Algorithm.UNKNOWN}
_PROTOCOL_NAMES = {int(protocol): protocol.name.lower() for protocol in Protocol if protocol != Protocol.UNKNOWN}
_FIELDS = ("datatype", "algorithm", "protocol", "channels")
"""Fields of an operation that rows summarize."""


def summarize_rows(prepared: PreparedTrace, period_us: float | None) -> tuple[OperationRow, ...]:
    """Summarizes the calls of each row. `period_us`: mean duration of a step, None if unknown."""
    calls, groups = prepared.calls, prepared.groups
    # The fields of a call are those of its first operation.
    fields = np.concatenate([rank.trace.operations[list(_FIELDS)][rank.first_operations] for rank in calls.ranks])
    group_of = group_of_communicator(groups)
    # A row has the calls of all ranks. Their number divided by the steps of all ranks is the number per rank and step.
    steps_by_communicators = [(_communicators_of(rank), rank.step_count) for rank in calls.ranks]
    steps_of_all_ranks = [
        sum(steps for own, steps in steps_by_communicators if not own.isdisjoint(group.communicators))
        for group in groups
    ]
    transfers = transfers_by_row(prepared.matched)
    order = np.argsort(prepared.rows, kind="stable")
    bounds = np.searchsorted(prepared.rows[order], np.arange(prepared.rows.max(initial=-1) + 2))
    rows = []
    for number, (begin, end) in enumerate(pairwise(bounds)):
        chosen = order[begin:end]
        group = int(group_of[calls.communicator[chosen[0]]])
        function = FUNCTION_NAMES[int(calls.function[chosen[0]])]
        sizes, durations = calls.size_bytes[chosen], calls.duration_ns[chosen]
        known_sizes, known_us = sizes[sizes != UNKNOWN_SIZE], durations[~np.isnan(durations)] / 1e3
        max_size_bytes = int(known_sizes.max()) if len(known_sizes) else None
        calls_per_step = len(chosen) / max(steps_of_all_ranks[group], 1)
        time_per_step_us = float(known_us.mean()) * calls_per_step if len(known_us) else None
        transfer_us, is_transfer_upper_bound = transfers.get(number, (None, False))
        algbw_gbps, busbw_gbps = _bandwidths(function, max_size_bytes, transfer_us, groups[group].size)
        datatypes, algorithms, protocols, channels = (fields[name][chosen] for name in _FIELDS)
        rows.append(
            OperationRow(
                group=group,
                function=function,
                min_size_bytes=int(known_sizes.min()) if len(known_sizes) else None,
                max_size_bytes=max_size_bytes,
                dtypes=tuple(DATATYPE_NAMES[code] for code in np.unique(datatypes) if code < len(DATATYPE_NAMES)),
                calls_per_step=calls_per_step,
                bytes_per_step=float(known_sizes.mean()) * calls_per_step if len(known_sizes) == len(chosen) else None,
                timed_fraction=len(known_us) / len(chosen),
                time_us=float(np.median(known_us)) if len(known_us) else None,
                transfer_us=transfer_us,
                is_transfer_upper_bound=is_transfer_upper_bound,
                time_per_step_us=time_per_step_us,
                share=time_per_step_us / period_us if period_us and time_per_step_us is not None else None,
                algbw_gbps=algbw_gbps,
                busbw_gbps=busbw_gbps,
                algorithms=_algorithm_names(algorithms, protocols),
                max_channels=max((int(count) for count in np.unique(channels) if count != UNKNOWN_BYTE), default=None),
            )
        )
    return tuple(rows)


def _communicators_of(rank: RankCalls) -> set[int]:
    """Returns the communicators that have the rank. The rank's number in a communicator may be unknown."""
    return {*np.unique(rank.trace.operations["communicator"]).tolist(), *rank.trace.own_rank_by_communicator}


def _bandwidths(
    function: str, size_bytes: int | None, transfer_us: float | None, ranks: int
) -> tuple[float, float] | tuple[None, None]:
    """Returns algbw and busbw of a collective. None for other functions, one rank, and an unknown size or time."""
    collective = collectives().get(function)
    if collective is None or not size_bytes or not transfer_us or ranks < 2:
        return None, None
    return (
        bandwidth_gbps(size_bytes, transfer_us, collective.algbw_factor_of(ranks)),
        bandwidth_gbps(size_bytes, transfer_us, collective.bus_factor_of(ranks)),
    )


def _algorithm_names(algorithms: Codes, protocols: Codes) -> tuple[str, ...]:
    """Returns the combinations of algorithm and protocol, the most frequent first. Unknown ones are left out."""
    codes, counts = np.unique(algorithms.astype(np.int64) * 256 + protocols, return_counts=True)
    names = []
    for code in codes[np.argsort(-counts, kind="stable")]:
        algorithm, protocol = divmod(int(code), 256)
        names.append("/".join(filter(None, [_ALGORITHM_NAMES.get(algorithm), _PROTOCOL_NAMES.get(protocol)])))
    return tuple(filter(None, names))
