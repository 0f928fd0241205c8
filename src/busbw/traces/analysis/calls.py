"""Calls of each rank: the operations that ran, with their size, their device times and their step.

The point-to-point operations of one NCCL group on one communicator are one call, an exchange. Its first operation, the
leader, represents the call.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from busbw.collectives import collectives
from busbw.traces.analysis.intervals import Indices, Mask, Values
from busbw.traces.clocks import ClockAlignment, ClockMap
from busbw.traces.format import DATATYPE_BYTES, TRANSFERS, DeviceClock, Flag, Function, Operations
from busbw.traces.model import RankTrace, Trace
from busbw.traces.steps import Steps

EXCHANGE = 13
"""Function number of an exchange, which no `Function` has."""
UNKNOWN_SIZE = -1
_MAX_STEP_RATIO = 1.5
"""Maximum ratio of numbers or durations of the same steps on two ranks.

If each step of one rank is two steps of the other, the ratio is 2."""
FUNCTION_NAMES = {int(function): function.name.lower() for function in Function} | {EXCHANGE: "send/recv"}


@dataclass(frozen=True, kw_only=True)
class RankCalls:
    """The calls of one rank in the table, and its steps."""

    trace: RankTrace
    is_aligned: bool
    """True if the times of the rank are comparable with the times of other aligned ranks."""
    span: slice
    """Calls of the rank in the table."""
    call_of: Indices
    """For each operation, the number of its call in the table. -1: the operation was captured and did not run."""
    first_operations: Indices
    """First operation of each call of the rank."""
    step_starts_ns: Values
    """Start of each step on the common clock. NaN: unknown."""
    step_durations_ns: Values
    """Time from the start of each step to the start of the next step. NaN: unknown, or not analyzed."""
    analyzed: Mask
    """True for each complete step. If no rank has steps, the whole recording is one step."""
    has_job_steps: bool = True
    """False if the steps are missing, or differ from the steps of most ranks. Then no step of the rank is analyzed."""

    @property
    def steps(self) -> Steps | None:
        """All steps, also incomplete ones. None: no steps were found."""
        return self.trace.steps

    @property
    def step_count(self) -> int:
        """Number of analyzed steps."""
        return int(self.analyzed.sum())


@dataclass(frozen=True, kw_only=True)
class CallTable:
    """Calls of all ranks, one rank after the other in the order of the calls. All arrays have one value per call."""

    ranks: tuple[RankCalls, ...]
    """By index in `Trace.ranks`."""
    communicator: Indices
    function: Indices
    size_bytes: Indices
    """Size as in nccl-tests. `UNKNOWN_SIZE` if the element type is unknown."""
    start_ns: Values
    """Device time on the common clock. NaN: unknown."""
    end_ns: Values
    duration_ns: Values
    """Duration on the device. It may be known although start and end are unknown."""
    step: Indices
    """Number of the step, from 0. -1: in no analyzed step."""


def list_calls(trace: Trace, clocks: ClockAlignment) -> CallTable:
    """Lists the calls of all ranks. Times of a rank that is not aligned begin at 0."""
    maps = [None if clocks.error_ns is None else clock_map for clock_map in clocks.maps]
    ranks: list[RankCalls] = []
    parts: list[dict[str, Any]] = []
    end = 0
    for rank, clock, times in zip(trace.ranks, maps, _device_times(trace, maps), strict=True):
        calls, columns = _list_rank_calls(trace, rank, times, end, is_aligned=clock is not None)
        ranks.append(calls)
        parts.append(columns)
        end = calls.span.stop
    # `pop` frees each part after its column is complete, which saves memory.
    columns = {name: np.concatenate([part.pop(name) for part in parts]) for name in list(parts[0])}
    for index, has_job_steps in enumerate(_have_job_steps(ranks)):
        if not has_job_steps:
            ranks[index] = _without_steps(ranks[index])
            columns["step"][ranks[index].span] = -1
    return CallTable(ranks=tuple(ranks), **columns)


def _have_job_steps(ranks: Sequence[RankCalls]) -> Sequence[bool]:
    """Returns true for each rank with the steps of most ranks, and for all ranks if none has steps.

    Each rank is compared with one reference: the first rank with the median number of complete steps. If two halves of
    the ranks differ, the reference is of the half with fewer steps. A rank has the steps of the reference if about as
    many are complete, or if their median durations are about equal. One of both suffices: a recording that ends early
    has fewer steps, and ranks that do not communicate with each other can take different times. If no rank has complete
    steps, all ranks with steps are chosen.
    """
    has_steps = [rank.steps is not None for rank in ranks]
    counts = np.array([rank.step_count if rank.steps and rank.step_count else np.nan for rank in ranks])
    if np.isnan(counts).all():
        return has_steps if any(has_steps) else [True] * len(ranks)
    durations_ns = np.array([_median(rank.step_durations_ns) for rank in ranks])
    reference = int(np.argmax(counts == _median(counts)))  # the first rank with the median number
    is_near = _is_near(counts, counts[reference]) | _is_near(durations_ns, durations_ns[reference])
    result: list[bool] = (np.isfinite(counts) & is_near).tolist()
    return result


def _is_near(values: Values, reference: float) -> Mask:
    """Returns true for each value with at most `_MAX_STEP_RATIO` to the reference. False for NaN."""
    return (values <= _MAX_STEP_RATIO * reference) & (reference <= _MAX_STEP_RATIO * values)


def _median(values: Values) -> float:
    """Returns the median of the known values: the lower one of two middle values. NaN if none is known."""
    known = values[~np.isnan(values)]
    return float(np.percentile(known, 50, method="lower")) if len(known) else np.nan


def _without_steps(calls: RankCalls) -> RankCalls:
    """Returns the calls with no analyzed step."""
    return replace(
        calls,
        step_durations_ns=np.full(len(calls.analyzed), np.nan),
        analyzed=np.zeros(len(calls.analyzed), dtype=bool),
        has_job_steps=False,
    )


def _device_times(trace: Trace, maps: Sequence[ClockMap | None]) -> Iterator[Values]:
    """Yields starts and ends of the operations of each rank, as an array [2, operations].

    The first time is subtracted in integers, because a float64 has a resolution of 256 ns at present Unix times.
    """
    times, first_ns = [], []
    for rank, clock in zip(trace.ranks, maps, strict=True):
        raw = np.stack([rank.operations["device_start_ns"], rank.operations["device_end_ns"]])
        is_known = (raw[0] > 0) & (raw[1] >= raw[0])
        converted = raw.astype(np.int64) if clock is None else clock.convert(raw)
        times.append((converted, is_known))
        first_ns.append(int(converted[0].min(where=is_known, initial=np.iinfo(np.int64).max)))
    first_aligned_ns = min((first for first, clock in zip(first_ns, maps, strict=True) if clock), default=0)
    for (converted, is_known), own_first_ns, clock in zip(times, first_ns, maps, strict=True):
        zero_ns = own_first_ns if clock is None else first_aligned_ns
        yield np.where(is_known, converted - zero_ns, np.nan)


def _list_rank_calls(
    trace: Trace, rank: RankTrace, times: Values, first_call: int, *, is_aligned: bool
) -> tuple[RankCalls, dict[str, Any]]:
    """Returns the calls of a rank, and their columns of the table. `first_call`: number of the first call."""
    operations = rank.operations
    is_captured = (operations["flags"] & Flag.CAPTURED) != 0
    is_exchange = np.isin(operations["function"], TRANSFERS) & (operations["group"] != 0) & ~is_captured
    exchanged = np.flatnonzero(is_exchange)
    leaders = _find_leaders(operations, exchanged)
    is_leader = (leaders == np.arange(len(operations))) & ~is_captured
    # Calls are numbered within the rank here. The number of a call is the number of leaders before its leader.
    call_of = np.where(is_captured, -1, (np.cumsum(is_leader) - 1)[leaders])

    start_ns, end_ns = times
    call_start_ns, call_end_ns = start_ns[is_leader], end_ns[is_leader]
    # An exchange lasts from its first start to its last end. NaN if the time of one of its operations is unknown.
    with np.errstate(invalid="ignore"):
        np.minimum.at(call_start_ns, call_of[exchanged], start_ns[exchanged])
        np.maximum.at(call_end_ns, call_of[exchanged], end_ns[exchanged])
    durations_ns = call_end_ns - call_start_ns
    if rank.device_clock == DeviceClock.DURATION:  # start and end have served only for the duration
        for unknown in (start_ns, call_start_ns, call_end_ns):
            unknown[:] = np.nan

    function = operations["function"][is_leader].astype(np.int64)
    function[call_of[exchanged]] = EXCHANGE

    enqueue_ns = np.where(operations["enqueue_ns"] > 0, operations["enqueue_ns"].astype(np.float64), np.nan)
    # Without device times, steps have host times. In a modelled trace these contain only computation, so its steps keep
    # the unknown device times (NaN), and their durations stay unknown.
    has_only_host_times = np.isnan(start_ns).all() and not trace.is_modelled
    operation_times_ns = enqueue_ns if has_only_host_times else start_ns
    step_of, analyzed = _complete_steps(rank.steps, len(operations))
    step_starts_ns = operation_times_ns[rank.steps.starts] if rank.steps else np.array([np.nan])
    calls = RankCalls(
        trace=rank,
        is_aligned=is_aligned,
        span=slice(first_call, first_call + len(function)),
        call_of=np.where(call_of < 0, -1, call_of + first_call),
        first_operations=np.flatnonzero(is_leader),
        step_starts_ns=step_starts_ns,
        step_durations_ns=np.where(analyzed, np.append(np.diff(step_starts_ns), np.nan), np.nan),
        analyzed=analyzed,
    )
    return calls, {
        "communicator": operations["communicator"][is_leader].astype(np.int64),
        "function": function,
        "size_bytes": _call_sizes(trace, operations, call_of, is_leader, is_exchange),
        "start_ns": call_start_ns,
        "end_ns": call_end_ns,
        "duration_ns": durations_ns,
        "step": step_of[is_leader],
    }


def _find_leaders(operations: Operations, exchanged: Indices) -> Indices:
    """Returns the leader of the call of each operation. `exchanged`: the operations of exchanges."""
    leaders = np.arange(len(operations))
    exchanges = operations["communicator"][exchanged].astype(np.int64) << 32 | operations["group"][exchanged]
    _, first, exchange_numbers = np.unique(exchanges, return_index=True, return_inverse=True)
    leaders[exchanged] = exchanged[first[exchange_numbers]]
    return leaders


def _call_sizes(trace: Trace, operations: Operations, call_of: Indices, is_leader: Mask, is_exchange: Mask) -> Indices:
    """Returns the size of each call. The size of an exchange is its sent or its received bytes, the larger sum."""
    datatype = operations["datatype"]
    is_datatype_known = datatype < len(DATATYPE_BYTES)
    element_bytes = DATATYPE_BYTES[np.where(is_datatype_known, datatype, 0)]
    sizes = operations["count"].astype(np.int64) * element_bytes
    # If a buffer has a share for each rank, the count is that of one share, and the size is that of all shares.
    by_function = [(function, collectives().get(function.name.lower())) for function in Function]
    share_functions = [
        int(function) for function, collective in by_function if collective and collective.size == "shares"
    ]
    has_shares = np.isin(operations["function"], share_functions)
    communicator_sizes = np.array([communicator.size for communicator in trace.communicators], dtype=np.int64)
    sizes[has_shares] *= communicator_sizes[operations["communicator"][has_shares]]
    sizes[~is_datatype_known] = UNKNOWN_SIZE
    is_size_known = sizes >= 0  # the count of a damaged record can be negative as int64
    call_sizes: Indices = sizes[is_leader]
    exchanged_bytes = np.zeros((2, len(call_sizes)), dtype=np.int64)  # sent and received by each call
    for row, function in enumerate(TRANSFERS):
        chosen = is_exchange & (operations["function"] == function) & is_size_known
        np.add.at(exchanged_bytes[row], call_of[chosen], sizes[chosen])
    exchanges = np.unique(call_of[is_exchange])
    call_sizes[exchanges] = exchanged_bytes.max(axis=0)[exchanges]
    call_sizes[call_of[is_exchange & ~is_size_known]] = UNKNOWN_SIZE
    return call_sizes


def _complete_steps(steps: Steps | None, count: int) -> tuple[Indices, Mask]:
    """Returns the step of each of `count` operations, and true for each complete step.

    A step is complete if the next step follows immediately.
    """
    if steps is None:
        return np.zeros(count, dtype=np.int64), np.array([True])
    analyzed: Mask = np.append(steps.ends[:-1] == steps.starts[1:], False)  # no step follows the last one
    number = np.searchsorted(steps.starts, np.arange(count), side="right") - 1
    return np.where((number >= 0) & analyzed[number], number, -1), analyzed
