"""Converts collectives as PyTorch describes them to calls of NCCL, for several recordings of PyTorch."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from busbw.traces import format as layout
from busbw.traces.building import Call, TraceBuilder
from busbw.traces.format import ROOTED, TRANSFERS, Flag, Function

_FUNCTIONS = {function.name.lower().replace("_", ""): function for function in Function if function <= Function.RECV}
"""Functions by their name without underscores. PyTorch's names of collectives begin with it: "all_reduce_coalesced".

The first name that fits is used, so "reducescatter" comes before "reduce"."""
_DATATYPE_NAMES = (
    "char int8",
    "byte uint8 bool",
    "int int32",
    "uint32",
    "long int64",
    "uint64",
    "half float16",
    "float float32",
    "double float64",
    "bfloat16",
    "float8_e4m3fn float8_e4m3fnuz",
    "float8_e5m2 float8_e5m2fnuz",
)
"""PyTorch's names of an element type, by NCCL's number."""
_DATATYPES = {name: number for number, names in enumerate(_DATATYPE_NAMES) for name in names.split()}
_NOT_OPERATIONS = ("wait", "init", "coalesced", "startcoalescing", "endcoalescing", "monitoredbarrier")
_IN_PLACE = Flag.IS_IN_PLACE_KNOWN | Flag.IN_PLACE
_RANK_IN_NAME = re.compile(r"rank[-_]?(\d{1,7})(?!\d)", re.IGNORECASE)
_NUMBERS = re.compile(r"-?\d{1,12}")
MAX_RANKS = 1 << 20
"""Ranks of the job are below this number. A larger number is damage."""
_MAX_LIST_LENGTH = 1 << 24
"""Maximum length of a list as text, in characters."""


class TorchOperation(NamedTuple):
    """A collective of one rank."""

    name: str
    """Without "nccl:"."""
    inputs: int
    """Elements of all input tensors of this rank."""
    outputs: int
    """Elements of all output tensors of this rank."""
    datatype: str
    size: int
    """Number of ranks of the process group."""
    peer: int = -1
    """Root or peer, as rank of the process group. Negative if unknown."""
    input_splits: Sequence[int] = ()
    """Elements or rows that this rank sends to each rank. Empty: the same number to each rank."""
    output_splits: Sequence[int] = ()
    """Elements or rows that this rank receives from each rank, as `input_splits`."""
    are_splits_known: bool = True
    """False if the recording does not have both lists completely. Both are then empty."""


def find_rank_in_name(path: Path) -> int | None:
    """Returns the rank in a file's name after the word "rank": 3 in "rank3.json" and "nccl_trace_rank_3_old"."""
    match = _RANK_IN_NAME.search(path.name)
    return int(match[1]) if match else None


def parse_numbers(value: object) -> tuple[list[int], bool]:
    """Returns the numbers of a list or of its text, and True if the list is complete: without "..." in it."""
    if isinstance(value, str):
        return [int(text) for text in _NUMBERS.findall(value[:_MAX_LIST_LENGTH])], "..." not in value
    if isinstance(value, list) and all(isinstance(item, int) for item in value):
        return list(value), True
    return [], False


def read_groups(description: object) -> dict[str, list[int]]:
    """Returns the ranks of process groups by name, from a list or an object. Groups with unknown ranks are absent."""
    named: Iterable[tuple[object, object]] = ()
    if isinstance(description, dict):
        named = description.items()
    elif isinstance(description, list):
        named = ((group.get("pg_name"), group) for group in description if isinstance(group, dict))
    groups = {}
    for name, group in named:
        members, is_complete = parse_numbers(group.get("ranks") if isinstance(group, dict) else None)
        if members and is_complete:
            groups[str(name)] = members
    return groups


def group_index(builder: TraceBuilder, name: str, size: int, members: Sequence[int]) -> int | None:
    """Returns the communicator of a process group. Its name is unique only together with its ranks."""
    text = ",".join(map(str, members)) or f"{size} ranks"
    return builder.find_or_add_communicator(f"{name}:{text}", size, name=name, members=members)


def is_operation(name: str) -> bool:
    """False for names of waits, and of the beginning or end of several collectives. True for all other names."""
    return not name.lower().replace("_", "").startswith(_NOT_OPERATIONS)


def list_calls(builder: TraceBuilder, operation: TorchOperation, base: Call) -> list[Call]:
    """Returns the calls of NCCL that PyTorch makes for a collective.

    `base` has the fields that all calls share: communicator, group, times. `add_problem` fills in "{count}".
    """
    name = operation.name.lower().replace("_", "")
    inputs, outputs, size = operation.inputs, operation.outputs, operation.size
    if "barrier" in name:  # PyTorch reduces one element, of a type that depends on its version
        return [base._replace(function=Function.ALL_REDUCE, elements=1)]
    if "coalesced" in name:
        builder.add_problem("{count} coalesced operations on several tensors count as one each")
    function = next((known for beginning, known in _FUNCTIONS.items() if name.startswith(beginning)), Function.OTHER)
    count = max(inputs, outputs)
    if function in (Function.ALL_GATHER, Function.GATHER):
        count = inputs
    elif function in (Function.REDUCE_SCATTER, Function.SCATTER):
        count = outputs
    is_uneven_gather = function == Function.ALL_GATHER and outputs != inputs * size
    is_uneven_scatter = function == Function.REDUCE_SCATTER and inputs != outputs * size
    if is_uneven_gather or is_uneven_scatter:
        builder.add_problem(
            "{count} collectives with unequal sizes are counted by the broadcasts or reductions in them"
        )
        return []  # PyTorch makes broadcasts or reductions instead, and the recording lists these too
    datatype = operation.datatype.lower().removeprefix("torch.")
    base = base._replace(datatype=_DATATYPES.get(datatype, layout.UNKNOWN_BYTE))
    if function == Function.ALLTOALL:
        has_unequal_splits = len({*operation.input_splits, *operation.output_splits}) > 1
        has_splits_of_one_side = bool(operation.input_splits) != bool(operation.output_splits)
        if has_unequal_splits or has_splits_of_one_side:
            return _list_pairs(builder, operation, base)
        if not operation.are_splits_known or inputs != outputs or inputs % size:
            return [_unknown_alltoall(builder, operation, base)]
        if not operation.input_splits and not name.startswith("alltoallv"):
            # PyTorch also records an alltoall of a list of tensors by this name, and not their sizes.
            builder.add_problem("{count} alltoall are taken as equal, because the recording does not tell their parts")
        count = inputs // size
    # PyTorch's names with "oop" are out of place, such as "_reduce_oop".
    is_in_place = function in (Function.ALL_REDUCE, Function.BROADCAST, Function.REDUCE) and "oop" not in name
    return [
        base._replace(
            function=function,
            elements=count,
            peer=operation.peer if function in (*ROOTED, *TRANSFERS) else -1,
            flags=_IN_PLACE if is_in_place else 0,
        )
    ]


def _unknown_alltoall(builder: TraceBuilder, operation: TorchOperation, base: Call) -> Call:
    """Returns one call of an unknown function, because a call of alltoall has one size."""
    builder.add_problem("{count} alltoall with unequal sizes have unknown sizes per rank; they are no alltoall here")
    return base._replace(function=Function.OTHER, elements=operation.inputs)


def _list_pairs(builder: TraceBuilder, operation: TorchOperation, base: Call) -> list[Call]:
    """Returns an alltoall with unequal sizes as PyTorch calls it: one group of non-empty sends and receives."""
    counts = []
    for splits, elements in ((operation.input_splits, operation.inputs), (operation.output_splits, operation.outputs)):
        splits = splits or [1] * operation.size
        rows = sum(splits)
        row_elements = elements // rows if rows else 0
        is_possible = len(splits) == operation.size and min(splits) >= 0 and row_elements * rows == elements
        if not is_possible:
            return [_unknown_alltoall(builder, operation, base)]
        counts.append([split * row_elements for split in splits])
    return [
        base._replace(function=function, elements=count, peer=peer)
        for peer, pair in enumerate(zip(*counts, strict=True))
        for function, count in zip(TRANSFERS, pair, strict=True)
        if count
    ]
