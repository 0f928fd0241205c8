"""Replay program: the operations of one step on all ranks, as the engine executes them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import msgspec

from busbw.errors import UsageError
from busbw.traces.format import (
    DATATYPE_BYTES,
    DATATYPE_NAMES,
    REDOP_NAMES,
    REDUCING,
    ROOTED,
    TRANSFERS,
    Flag,
    Function,
)
from busbw.traces.model import Trace
from busbw.traces.replay.draft import Draft, RankDraft, cut_ranks, draft_step
from busbw.traces.replay.step import select_step
from busbw.units import count_text, names_text

FORMAT = "busbw-replay 1"
"""Name and version of the document format, which the engine checks."""


class ReplayOperation(NamedTuple):
    """An operation, in the order of its values in the document."""

    communicator: int
    function: str
    datatype: str
    redop: str
    """Empty: the function has no operator."""
    element_count: int
    peer: int
    """Root, or peer of a send or receive, in the communicator. -1: none."""
    group: int
    """0: not in a group."""
    gap_ns: int
    """Time that the device computes before the operation."""
    in_place: int
    """1 if the operation is in place, otherwise 0."""
    is_overlapped: int
    """1 if the gap begins at the end of the previous gap."""


@dataclass(frozen=True, kw_only=True)
class ReplayProgram:
    """Operations that the engine executes as one step."""

    name: str
    step: str
    """Text for people: "step 3 of 20"."""
    recorded_ns: int | None
    """Recorded time of the step on the slowest rank. None without times, or if the program does less than the step."""
    has_comparable_calls: bool
    """True if the recorded times of calls are comparable: they are known, and the program has all ranks and counts."""
    estimated_ns: int
    """Approximate time of the replayed step: the time in the trace, divided by the divisor of counts. 0 if unknown."""
    communicators: tuple[tuple[int, ...], ...]
    """For each communicator, the rank of the job by rank of the communicator."""
    operations: tuple[tuple[ReplayOperation, ...], ...]
    """For each rank its operations, in the order of the calls."""
    notes: tuple[str, ...]
    """Limitations of the replay, as sentences."""

    def argument_bytes(self) -> int:
        """Returns the bytes of all counts of a rank, maximum over ranks. The operations move at least these bytes."""
        sizes: dict[str, int] = dict(zip(DATATYPE_NAMES, DATATYPE_BYTES.tolist(), strict=True))
        return max(
            sum(operation.element_count * sizes[operation.datatype] for operation in rank) for rank in self.operations
        )

    def document(self) -> bytes:
        """Returns the JSON document for the engine."""
        fields = {
            "format": FORMAT,
            "name": self.name,
            "ranks": len(self.operations),
            "communicators": self.communicators,
            "operations": self.operations,
        }
        return msgspec.json.encode(fields) + b"\n"


def make_program(
    trace: Trace, *, step: int | None = None, whole: bool = False, ranks: int | None = None, divisor: int = 1
) -> ReplayProgram:
    """Returns the replay program of a step.

    Args:
        trace: The recording.
        step: Number of the step, from 1. None: the step with the median time.
        whole: True to replay all recorded operations instead.
        ranks: Number of ranks of the replay, the first ones of the job. None: all ranks of the job.
        divisor: Divides all counts and gaps, to try a program on a smaller machine.

    Raises:
        UsageError: There is no such step, nothing to replay, or ranks are missing.
    """
    if ranks is not None and not 1 < ranks <= trace.size:
        raise UsageError(
            f"--scale {ranks}: the job has {count_text(trace.size, 'rank')}", remedy=f"set 2 to {trace.size}"
        )
    selected = select_step(trace, step, whole=whole)
    draft = draft_step(trace, selected)
    replayed_ranks = trace.size if ranks is None else ranks
    _require_ranks(draft, replayed_ranks)
    cut_ranks(draft, replayed_ranks)
    operations = tuple(tuple(_program_operations(rank, divisor)) for rank in draft.ranks.values())
    if not any(operations):
        raise UsageError(f"{trace.name} has no operation to replay in {selected.title}", remedy="record more ranks")
    slowest_ns = max(rank.end_ns - rank.begin_ns for rank in draft.ranks.values())  # not positive if unknown
    is_full_size = divisor == 1 and len(operations) == trace.size and not trace.is_modelled
    has_comparable_calls = is_full_size and slowest_ns > 0
    is_complete = not draft.omitted.total()  # the recorded time includes the omitted calls
    return ReplayProgram(
        name=trace.name,
        step=selected.title,
        recorded_ns=slowest_ns if has_comparable_calls and is_complete else None,
        has_comparable_calls=has_comparable_calls,
        estimated_ns=max(slowest_ns, 0) // divisor,
        communicators=tuple(
            tuple(member for member in members if member is not None) for members in draft.communicators
        ),
        operations=operations,
        notes=tuple(_notes(trace, draft, divisor)),
    )


def _require_ranks(draft: Draft, count: int) -> None:
    """Raises `UsageError` unless the first ranks of the job were recorded."""
    missing = [rank for rank in range(count) if rank not in draft.ranks]
    if missing:
        names = names_text([str(rank) for rank in missing])
        remedy = f"set --scale {missing[0]}" if missing[0] > 1 else "record all ranks"
        raise UsageError(f"the recording lacks {count_text(len(missing), 'rank')}: {names}", remedy=remedy)


def _program_operations(rank: RankDraft, divisor: int) -> Iterator[ReplayOperation]:
    """Yields the operations of a rank. The operations of a group follow each other."""
    names = ("communicator", "function", "datatype", "redop", "count", "peer", "group", "flags")
    rows = list(zip(*(rank.operations[name].tolist() for name in names), strict=True))
    groups: dict[int, list[int]] = {}
    for position, group in enumerate(rank.operations["group"].tolist()):
        key = group if group else -1 - position  # an operation without a group is a group of its own
        groups.setdefault(key, []).append(position)
    gaps = _gaps_ns(rank, groups.values())
    for position in chain.from_iterable(groups.values()):
        communicator, function, datatype, redop, count, peer, group, flags = rows[position]
        yield ReplayOperation(
            communicator=communicator,
            function=Function(function).name.lower(),
            datatype=DATATYPE_NAMES[datatype],
            redop=REDOP_NAMES[redop] if function in REDUCING else "",
            element_count=min(count, max(count // divisor, 1)),  # at least 1, unless the count is 0
            peer=peer if function in (*ROOTED, *TRANSFERS) else -1,
            group=group,
            gap_ns=gaps.get(position, 0) // divisor,
            in_place=int((flags & Flag.IN_PLACE) > 0),
            is_overlapped=int((flags & Flag.GAP_OVERLAPPED) > 0),
        )


def _gaps_ns(rank: RankDraft, groups: Iterable[Sequence[int]]) -> dict[int, int]:
    """Returns the gap of the first operation of each group and communicator, by position. Unknown gaps are absent.

    A gap is the time from the end of the earlier operations on the communicator to the first start in the group.
    """
    communicators = rank.operations["communicator"].tolist()
    starts, ends = (rank.operations[name].tolist() for name in ("device_start_ns", "device_end_ns"))
    previous_ends: dict[int, int] = {}
    gaps = {}
    for positions in groups:
        for communicator in dict.fromkeys(communicators[position] for position in positions):
            on_communicator = [position for position in positions if communicators[position] == communicator]
            if timed := [position for position in on_communicator if starts[position]]:
                previous_end = previous_ends.get(communicator, rank.begin_ns)
                gaps[on_communicator[0]] = max(min(starts[position] for position in timed) - previous_end, 0)
                previous_ends[communicator] = max(previous_end, *(ends[position] for position in timed))
    return gaps


def _notes(trace: Trace, draft: Draft, divisor: int) -> Iterator[str]:
    """Yields the limitations of the replay."""
    reductions = []
    if len(draft.ranks) < trace.size:
        reductions.append(f"with {len(draft.ranks)} of {trace.size:,} ranks")
    if divisor > 1:
        reductions.append(f"with counts and gaps divided by {divisor:,}")
    if reductions:
        yield f"The time of the replay says nothing about the time of the job: it runs {' and '.join(reductions)}."
    yield from draft.notes
    if draft.omitted.total():
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in draft.omitted.most_common() if count)
        yield f"{count_text(draft.omitted.total(), 'call')} left out: {reasons}."
    for assumption, count in draft.assumed.most_common():
        if count:
            yield f"{count_text(count, 'call')} replayed as {assumption}."
    ranks = draft.ranks.values()
    if not trace.is_modelled and not all(rank.has_device_times for rank in ranks):
        yield (
            "The trace has no device times: gaps are differences of the times of calls on the host, which include the "
            "time of operations."
        )
    if untimed := sum(int((rank.operations["device_start_ns"] == 0).sum()) for rank in ranks):
        yield f"{count_text(untimed, 'call')} without a recorded time, replayed without a gap."
    if len(draft.communicators) > 1:
        yield (
            "The trace has no order between communicators: operations of one do not start earlier if those of another "
            "are faster."
        )
