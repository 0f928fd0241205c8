"""Finds the same operation in the traces of all ranks of its communicator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from busbw.traces import format as layout
from busbw.traces.alignment import Alignment, CallSequence, Indices, align_sequences, make_signatures
from busbw.traces.format import ROOTED, TRANSFERS, Function
from busbw.units import count_text, names_text, size_text

if TYPE_CHECKING:
    from busbw.traces.model import RankTrace, Trace


@dataclass(frozen=True, kw_only=True)
class MatchedOperations:
    """The operations of one function on one communicator. For `SEND`, only the transfers from one rank to another."""

    communicator: int
    function: Function
    ranks: tuple[int, ...]
    """Indices of `Trace.ranks`. For `SEND`: the sender and the receiver. The receiver's operations are `RECV`."""
    indices: Indices = field(repr=False)
    """[operations, ranks]: index of the operation in the operations of each rank; -1: not recorded or ambiguous."""


def match_operations(trace: Trace, problems: list[str] | None = None) -> tuple[MatchedOperations, ...]:
    """Matches the n-th collective of a communicator on all ranks, and the n-th transfer between two of its ranks.

    Different operations are never paired: matching ends before the first difference. On each rank, matching also ends
    before the first missing operation. One-sided and unknown operations have no match. `problems` receives a sentence
    for each difference between the ranks.
    """
    problems = [] if problems is None else problems
    # For each rank: its operations by communicator, up to the first missing operation.
    communicators_of_ranks = [rank.operations["communicator"][: rank.first_unmatched] for rank in trace.ranks]
    indices_by_communicator = [
        _split(np.arange(len(communicators)), communicators) for communicators in communicators_of_ranks
    ]
    no_operation = np.zeros(0, np.intp)
    matched: list[MatchedOperations] = []
    for communicator in range(len(trace.communicators)):
        calls = {
            index: indices_by_communicator[index].get(communicator, no_operation)
            for index, rank in enumerate(trace.ranks)
            if communicator in rank.own_rank_by_communicator
        }
        matched += _match_collectives(trace, communicator, calls, problems)
        matched += _match_transfers(trace, communicator, calls, problems)
    return tuple(matched)


def _split(indices: Indices, keys: NDArray[np.integer]) -> dict[int, Indices]:
    """Groups the indices by their keys. Each group keeps the order of `indices`."""
    order = np.argsort(keys, kind="stable")
    values, starts = np.unique(keys[order], return_index=True)
    _, *groups = np.split(indices[order], starts)  # the part before the first start is empty
    return dict(zip(values.tolist(), groups, strict=True))


def _make_sequence(rank: RankTrace, indices: Indices) -> CallSequence:
    """Returns the operations of a rank with these indices. A send and its receive have equal signatures."""
    operations = rank.operations
    functions = operations["function"][indices]
    functions[functions == Function.RECV] = Function.SEND
    equal_columns = (
        # The count of an alltoall is ignored, because recordings of frameworks use this name even if counts differ.
        np.where(functions == Function.ALLTOALL, 0, operations["count"][indices]),
        functions,
        operations["datatype"][indices],
        operations["redop"][indices],
        operations["flags"][indices] & np.uint8(layout.Flag.CAPTURED),
        np.where(np.isin(functions, ROOTED), operations["peer"][indices], -1),
    )
    enqueue_ns = operations["enqueue_ns"][indices].astype(np.int64)
    return CallSequence(
        signatures=make_signatures(equal_columns),
        indices=indices,
        times_ns=enqueue_ns + rank.start_ns if rank.start_ns and enqueue_ns.all() else None,
        is_cut=rank.first_unmatched is not None,
    )


def _match_collectives(
    trace: Trace, communicator: int, calls: dict[int, Indices], problems: list[str]
) -> Iterator[MatchedOperations]:
    sequences = []
    for index, indices in calls.items():
        rank = trace.ranks[index]
        is_collective = rank.operations["function"][indices] < Function.SEND  # `Function` begins with the collectives
        sequences.append(_make_sequence(rank, indices[is_collective]))
    if not any(len(sequence.indices) for sequence in sequences):
        return
    alignment = align_sequences(sequences)
    ranks = [trace.ranks[index] for index in calls]
    _describe_alignment(_name(trace, communicator), ranks, sequences, alignment, problems)
    # The function of each row of the table. It is equal on all ranks that have the operation.
    functions = np.full(len(alignment.table), layout.UNKNOWN_BYTE, np.uint8)
    for rank, column in zip(ranks, alignment.table.T, strict=True):
        functions[column >= 0] = rank.operations["function"][column[column >= 0]]
    for function in np.unique(functions[functions != layout.UNKNOWN_BYTE]):
        yield MatchedOperations(
            communicator=communicator,
            function=Function(function),
            ranks=tuple(calls),
            indices=alignment.table[functions == function],
        )


def _describe_alignment(
    name: str,
    ranks: Sequence[RankTrace],
    sequences: Sequence[CallSequence],
    alignment: Alignment,
    problems: list[str],
) -> None:
    """Adds sentences on the ranks that lost calls, began late, stopped early or called a different operation."""
    total = max(end for _, end in alignment.bounds)
    longest = [end for _, end in alignment.bounds].index(total)
    ranks_by_text = defaultdict[str, list[str]](list)
    for rank, sequence, (begin, end), column in zip(ranks, sequences, alignment.bounds, alignment.table.T, strict=True):
        number, matched = str(rank.rank), int(np.count_nonzero(column >= 0))
        if rank.lost_count and matched < total:
            lost = f"lost operations in the recording: {matched:,} of {total:,} of {name} match"
            ranks_by_text[lost].append(number)
            continue
        if begin:
            ranks_by_text[f"began after the first {begin:,} operations of {name}"].append(number)
        if alignment.difference is None and end < total:
            following = alignment.table[end, longest]
            text = f": the next is {_operation_text(ranks[longest].operations[following])}" if following >= 0 else ""
            ranks_by_text[f"stopped after {end:,} of {total:,} operations of {name}{text}"].append(number)
        if alignment.difference is not None and alignment.difference < len(sequence.indices):
            operation = rank.operations[int(sequence.indices[alignment.difference])]
            position = f"after {alignment.difference:,} equal operations of {name}, so later ones are not matched"
            ranks_by_text[f"called {_operation_text(operation)} {position}"].append(number)
    for text, numbers in ranks_by_text.items():
        problems.append(f"{'rank' if len(numbers) == 1 else 'ranks'} {names_text(numbers)} {text}")


def _operation_text(operation: np.void) -> str:
    """Returns the values that must be equal on all ranks, as text: "all_reduce of 8 MiB (float, sum)"."""
    count, datatype, redop = (int(operation[name]) for name in ("count", "datatype", "redop"))
    is_type_known = datatype < len(layout.DATATYPE_NAMES)
    details = [layout.DATATYPE_NAMES[datatype]] if is_type_known else []
    details += [layout.REDOP_NAMES[redop]] if redop < len(layout.REDOP_NAMES) else []
    details += [f"root {operation['peer']}"] if operation["function"] in ROOTED else []
    details += ["captured"] if operation["flags"] & layout.Flag.CAPTURED else []
    size = size_text(count * int(layout.DATATYPE_BYTES[datatype])) if is_type_known else count_text(count, "element")
    details_text = f" ({', '.join(details)})" if details else ""
    return f"{Function(operation['function']).name.lower()} of {size}{details_text}"


def _match_transfers(
    trace: Trace, communicator: int, calls: dict[int, Indices], problems: list[str]
) -> Iterator[MatchedOperations]:
    """Matches the n-th send from one rank to another with its n-th receive."""
    transfers = defaultdict[tuple[int, int], dict[Function, tuple[int, Indices]]](dict)
    unknown_count = 0
    for index, indices in calls.items():
        own_rank = trace.ranks[index].own_rank_by_communicator[communicator]
        operations = trace.ranks[index].operations
        for function in TRANSFERS:
            selected = indices[operations["function"][indices] == function]
            by_peer = _split(selected, operations["peer"][selected])
            for peer, part in by_peer.items():
                if peer < 0:
                    unknown_count += len(part)
                    continue
                source_and_target = (own_rank, peer) if function == Function.SEND else (peer, own_rank)
                transfers[source_and_target][function] = (index, part)
    different = []
    for (source, target), sides in sorted(transfers.items()):
        if len(sides) < 2:
            continue  # the other rank was not recorded, or its calls have unknown peers
        sender, sends = sides[Function.SEND]
        receiver, receives = sides[Function.RECV]
        alignment = align_sequences(
            [_make_sequence(trace.ranks[sender], sends), _make_sequence(trace.ranks[receiver], receives)]
        )
        if alignment.difference is not None or len(sends) != len(receives):
            different.append(f"from {source} to {target}")
        yield MatchedOperations(
            communicator=communicator, function=Function.SEND, ranks=(sender, receiver), indices=alignment.table
        )
    name = _name(trace, communicator)
    if different:
        pairs = names_text(different)
        problems.append(f"sends and receives on {name} differ in number, size or type: {pairs}")
    if unknown_count:
        problems.append(f"{unknown_count:,} sends and receives on {name} have an unknown peer and no match")


def _name(trace: Trace, communicator: int) -> str:
    return f"communicator {trace.communicators[communicator].name or trace.communicators[communicator].identity}"
