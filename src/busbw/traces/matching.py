"""Finds the same operation in the traces of all ranks of its communicator."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from busbw.traces import format as layout
from busbw.traces.alignment import Alignment, Sequences, align_sequences
from busbw.traces.format import Function
from busbw.traces.model import RankTrace, Trace
from busbw.units import count_text, names_text, size_text

Indices = NDArray[np.intp]

_ROOTED = (Function.BROADCAST, Function.REDUCE, Function.GATHER, Function.SCATTER)
_MAX_NAMES = 8


@dataclass(frozen=True, kw_only=True)
class MatchedOperations:
    """The operations of one function on one communicator; of `SEND`, from one rank to another."""

    communicator: int
    function: Function
    ranks: tuple[int, ...]
    """Indices of `Trace.ranks`. Of `SEND`: the sender, and the receiver with its `RECV`."""
    indices: Indices = field(repr=False)
    """[operations, ranks]: index of the operation in the operations of each rank; -1: not recorded or ambiguous."""


def match_operations(trace: Trace, problems: list[str] | None = None) -> tuple[MatchedOperations, ...]:
    """Matches the n-th collective of a communicator on all ranks, and the n-th transfer between two of its ranks.

    Different operations are never paired: matching ends before the first difference, and continues only after a gap in
    the recording of a rank. One-sided and unknown operations have no match.

    Args:
        trace: A trace.
        problems: Receives a sentence for each difference between the ranks.
    """
    problems = [] if problems is None else problems
    count = len(trace.communicators)
    parts = [_split(np.arange(len(rank.operations)), rank.operations["communicator"]) for rank in trace.ranks]
    matched: list[MatchedOperations] = []
    for communicator in range(count):
        calls = {
            index: parts[index].get(communicator, np.zeros(0, np.intp))
            for index, rank in enumerate(trace.ranks)
            if communicator in rank.own_ranks
        }
        matched += _match_collectives(trace, communicator, calls, problems)
        matched += _match_transfers(trace, communicator, calls, problems)
    return tuple(matched)


def operation_text(operation: np.void) -> str:
    """Returns function and size: "all_reduce of 8 MiB"."""
    name = Function(operation["function"]).name.lower()
    count, datatype = int(operation["count"]), int(operation["datatype"])
    if datatype >= len(layout.DATATYPE_BYTES):
        return f"{name} of {count_text(count, 'element')}"
    return f"{name} of {size_text(count * int(layout.DATATYPE_BYTES[datatype]))}"


def _split(indices: Indices, keys: NDArray[np.integer]) -> dict[int, Indices]:
    """Returns the indices of each key, in their order."""
    order = np.argsort(keys, kind="stable")
    values, starts = np.unique(keys[order], return_index=True)
    return dict(zip(values.tolist(), np.split(indices[order], starts)[1:], strict=True))


def _make_sequences(trace: Trace, calls: dict[int, Indices]) -> Sequences:
    ranks = [trace.ranks[index] for index in calls]
    return Sequences(
        signatures=[_signatures(rank, indices) for rank, indices in zip(ranks, calls.values(), strict=True)],
        indices=list(calls.values()),
        has_gaps=[rank.lost_count > 0 for rank in ranks],
        times_ns=[_unix_times(rank, indices) for rank, indices in zip(ranks, calls.values(), strict=True)],
    )


def _signatures(rank: RankTrace, indices: Indices) -> NDArray[np.uint64]:
    """Returns numbers that are equal for calls that can be one operation."""
    operations = rank.operations
    functions = operations["function"][indices]
    functions[functions == Function.RECV] = Function.SEND
    # Recordings of frameworks call it all_to_all also if each rank sends another count.
    counts = np.where(functions == Function.ALLTOALL, 0, operations["count"][indices])
    roots = np.where(np.isin(functions, _ROOTED), operations["peer"][indices], -1)
    signatures = counts.astype(np.uint64)
    small = functions.astype(np.uint64)
    is_captured = operations["flags"][indices] & np.uint8(layout.Flag.CAPTURED)
    for field_values in (operations["datatype"][indices], operations["redop"][indices], is_captured):
        small = small << np.uint64(8) | field_values.astype(np.uint64)
    for values in (small, roots.astype(np.uint32)):
        signatures = (signatures ^ values.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        signatures ^= signatures >> np.uint64(29)
    return signatures


def _unix_times(rank: RankTrace, indices: Indices) -> NDArray[np.int64] | None:
    """Returns the times of the calls by the clock of the host; None if they are unknown."""
    enqueue_ns = rank.operations["enqueue_ns"][indices]
    return enqueue_ns.astype(np.int64) + rank.start_ns if rank.start_ns and enqueue_ns.all() else None


def _match_collectives(
    trace: Trace, communicator: int, calls: dict[int, Indices], problems: list[str]
) -> Iterator[MatchedOperations]:
    calls = {
        index: indices[trace.ranks[index].operations["function"][indices] < Function.SEND]
        for index, indices in calls.items()
    }
    if not any(map(len, calls.values())):
        return
    alignment = align_sequences(_make_sequences(trace, calls))
    _describe_alignment(trace, communicator, calls, alignment, problems)
    functions = np.full(len(alignment.table), layout.UNKNOWN_BYTE, np.uint8)
    for column, index in enumerate(calls):
        is_known = alignment.table[:, column] >= 0
        functions[is_known] = trace.ranks[index].operations["function"][alignment.table[is_known, column]]
    for function in np.unique(functions[functions != layout.UNKNOWN_BYTE]):
        yield MatchedOperations(
            communicator=communicator,
            function=Function(function),
            ranks=tuple(calls),
            indices=alignment.table[functions == function],
        )


def _describe_alignment(
    trace: Trace, communicator: int, calls: dict[int, Indices], alignment: Alignment, problems: list[str]
) -> None:
    """Appends which ranks began late, stopped early, or called another operation than the others."""
    name = _name(trace, communicator)
    ranks = [trace.ranks[index] for index in calls]
    total = max(alignment.ends)
    if alignment.difference is not None:
        by_text = defaultdict[str, list[int]](list)
        for rank, indices in zip(ranks, calls.values(), strict=True):
            if alignment.difference < len(indices):
                by_text[_call_text(rank.operations[int(indices[alignment.difference])])].append(rank.rank)
        what = "; ".join(f"{_ranks_text(numbers)}: {text}" for text, numbers in by_text.items())
        problems.append(
            f"the ranks of {name} call different operations after {alignment.difference:,} equal ones,"
            f" and later ones are not matched: {what}"
        )
    late = defaultdict[int, list[int]](list)
    stopped = defaultdict[int, list[int]](list)
    for rank, begin, end in zip(ranks, alignment.begins, alignment.ends, strict=True):
        if begin:
            late[begin].append(rank.rank)
        if end < total and alignment.difference is None:
            stopped[end].append(rank.rank)
    for count, numbers in sorted(late.items()):
        problems.append(f"the recording of {_ranks_text(numbers)} lacks the first {count:,} operations of {name}")
    longest = alignment.ends.index(total)
    for count, numbers in sorted(stopped.items()):
        following = alignment.table[count, longest]
        text = f": the next is {operation_text(ranks[longest].operations[following])}" if following >= 0 else ""
        problems.append(f"{_ranks_text(numbers)} stopped after {count:,} of {total:,} operations of {name}{text}")


def _match_transfers(
    trace: Trace, communicator: int, calls: dict[int, Indices], problems: list[str]
) -> Iterator[MatchedOperations]:
    """Matches the n-th send from one rank to another with its n-th receive."""
    transfers = defaultdict[tuple[int, int], dict[Function, tuple[int, Indices]]](dict)
    unknown = 0
    for index, indices in calls.items():
        own, operations = trace.ranks[index].own_ranks[communicator], trace.ranks[index].operations
        for function in (Function.SEND, Function.RECV):
            selected = indices[operations["function"][indices] == function]
            for peer, part in _split(selected, operations["peer"][selected]).items():
                if peer < 0:
                    unknown += len(part)
                else:
                    transfers[(own, peer) if function == Function.SEND else (peer, own)][function] = (index, part)
    different = []
    for (source, target), ends in sorted(transfers.items()):
        if len(ends) < 2:
            continue  # the other rank was not recorded, or its calls have unknown peers
        (sender, sent), (receiver, received) = ends[Function.SEND], ends[Function.RECV]
        left, right = (
            _make_sequences(trace, {index: part}) for index, part in (ends[Function.SEND], ends[Function.RECV])
        )
        alignment = align_sequences(left.join(right))
        if alignment.difference is not None or len(sent) != len(received):
            different.append(f"from {source} to {target}")
        yield MatchedOperations(
            communicator=communicator,
            function=Function.SEND,
            ranks=(sender, receiver),
            indices=alignment.table,
        )
    name = _name(trace, communicator)
    if different:
        which = names_text(different, _MAX_NAMES)
        problems.append(f"sends and receives on {name} differ in number, size or type: {which}")
    if unknown:
        problems.append(f"{unknown:,} sends and receives on {name} have an unknown peer and no match")


def _name(trace: Trace, communicator: int) -> str:
    one = trace.communicators[communicator]
    return f"communicator {one.name or one.identity}"


def _ranks_text(ranks: Sequence[int]) -> str:
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {names_text([str(rank) for rank in ranks], _MAX_NAMES)}"


def _call_text(operation: np.void) -> str:
    """Returns all that must be equal on the ranks."""
    datatype, redop = int(operation["datatype"]), int(operation["redop"])
    parts = [operation_text(operation)]
    if datatype < len(layout.DATATYPE_NAMES):
        parts.append(layout.DATATYPE_NAMES[datatype])
    if redop < len(layout.REDOP_NAMES):
        parts.append(layout.REDOP_NAMES[redop])
    if operation["function"] in _ROOTED:
        parts.append(f"root {operation['peer']}")
    return ", ".join(parts)
