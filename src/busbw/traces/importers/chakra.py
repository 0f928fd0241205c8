"""Imports execution traces of Chakra: protocol buffers, one file NAME.RANK.et per rank.

Only a few fields of few messages are needed, so the wire format is read here, without a library.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from busbw.support.files import path_text
from busbw.traces.building import Call, RankBuilder, TraceBuilder
from busbw.traces.format import Flag, Function
from busbw.traces.importers.recording import BufferedFile, add_damage, open_recording, read_block
from busbw.traces.importers.torch_operations import group_index, read_groups

_RANK = re.compile(r"(\d{1,7})\.et(?:\.gz)?\Z")
_MAX_MESSAGE_BYTES = 1 << 26
"""Maximum length of a message. A longer message is damage."""
_MAX_VARINT_BYTES = 10
"""Maximum length of a number of 64 bits in the wire format."""
_SEND, _RECV, _COLLECTIVE = 5, 6, 7
"""Kinds of nodes that communicate, by NodeType in Chakra's et_def.proto."""
_FUNCTIONS = {
    0: Function.ALL_REDUCE,
    1: Function.REDUCE,
    2: Function.ALL_GATHER,
    3: Function.GATHER,
    5: Function.BROADCAST,
    6: Function.ALLTOALL,
    7: Function.REDUCE_SCATTER,
    8: Function.REDUCE_SCATTER,  # REDUCE_SCATTER_BLOCK
}
"""Functions by CollectiveCommType. Scatter and barrier are missing, because their size is not known."""
_INT8 = 0
_NAME, _KIND, _DURATION, _INPUTS, _ATTRIBUTE = 2, 3, 7, 8, 10
"""Numbers of the fields of a node in et_def.proto."""
_VARINT, _FIXED_64_BITS, _LENGTH_AND_BYTES, _FIXED_32_BITS = 0, 1, 2, 5
"""Encodings of the values of fields (wire types of protocol buffers)."""
_Value = int | bytes
"""Value of a field: a number, or the bytes of a text or message."""


class _Node(NamedTuple):
    """A node of the graph."""

    name: str
    kind: int
    duration_us: int
    inputs: str
    attributes: dict[str, _Value]


def recognizes(beginning: bytes, path: Path) -> bool:
    """True if the name ends with .et, and a message follows its length."""
    try:
        length, start = _varint(beginning, 0)
    except ValueError:
        return False
    # The first message describes the trace. It is empty, or begins with a text: the key of field 1 or 2.
    is_description = beginning[start : start + 1] in (b"", b"\n", b"\x12")
    return bool(_RANK.search(path.name)) and length < _MAX_MESSAGE_BYTES and is_description


def read(builder: TraceBuilder, paths: Sequence[Path]) -> Sequence[str]:
    """Reads the traces of one job."""
    numbers = [int(match[1]) if (match := _RANK.search(path.name)) else number for number, path in enumerate(paths)]
    groups: dict[str, list[int]] = {}  # ranks of each process group
    users: dict[str, list[int]] = {}  # ranks that use each process group
    for path, number in zip(paths, numbers, strict=True):
        for node in _nodes(builder, path):
            if "process_group:init" in node.name:
                groups |= _parse_groups(node.inputs)
            elif node.kind in (_SEND, _RECV, _COLLECTIVE):
                members = users.setdefault(_group_name(node), [])
                if number not in members:
                    members.append(number)
    for name in users.keys() - groups.keys():
        builder.add_problem("{count} process groups have unknown ranks; the ranks that use one are taken")
        groups[name] = sorted(users[name])
    for path, number in zip(paths, numbers, strict=True):
        rank = builder.find_or_add_rank(path, path_text(path))
        rank.rank = number
        for node in _nodes(builder, path):
            if node.kind in (_SEND, _RECV, _COLLECTIVE):
                _add(builder, rank, number, node, groups[_group_name(node)])
    return [
        "Chakra states only bytes and durations of operations, and no times, operators, roots, groups and algorithms"
    ]


def _add(builder: TraceBuilder, rank: RankBuilder, number: int, node: _Node, members: list[int]) -> None:
    """Adds the operation of a node. `number`: rank of the job. `members`: ranks of the process group."""
    index = group_index(builder, _group_name(node), len(members), members)
    if index is None or number not in members:
        builder.add_problem("{count} operations are left out, because the rank is not in the process group")
        return
    rank_count = len(members)
    byte_count = _number(node, "comm_size")
    peer = -1
    if node.kind == _COLLECTIVE:
        function = _FUNCTIONS.get(_number(node, "comm_type"), Function.OTHER)
        if function in (Function.REDUCE_SCATTER, Function.ALLTOALL):
            # Chakra states the bytes of the whole buffer, with a part for each rank. NCCL's count is that of one part.
            # NCCL's parts are equal.
            if byte_count % rank_count == 0:
                byte_count //= rank_count
            else:
                function = Function.OTHER
    else:
        is_send = node.kind == _SEND
        function = Function.SEND if is_send else Function.RECV
        peer_number = _number(node, "comm_dst" if is_send else "comm_src")
        peer = members.index(peer_number) if peer_number in members else -1
    rank.add(
        Call(
            function=function,
            communicator=index,
            elements=byte_count,
            datatype=_INT8,
            flags=Flag.COUNT_IS_IN_BYTES,
            peer=peer,
            stream=rank.number_stream(_number(node, "stream")),
            duration_ns=node.duration_us * 1000,
        )
    )


def _group_name(node: _Node) -> str:
    value = node.attributes.get("pg_name", b"")
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _number(node: _Node, name: str) -> int:
    """Returns an attribute. -1 if it is missing or no number."""
    value = node.attributes.get(name, -1)
    return value if isinstance(value, int) else -1


def _parse_groups(text: str) -> dict[str, list[int]]:
    """Returns the ranks of process groups by name, from the input of a node "process_group:init"."""
    start, end = text.find("[{"), text.rfind("}]")
    try:
        return read_groups(json.loads(text[start : end + 2].replace('\\"', '"')))
    except (ValueError, RecursionError):
        return {}


def _nodes(builder: TraceBuilder, path: Path) -> Iterator[_Node]:
    """Yields the nodes. A damaged end is a problem."""
    with open_recording(path) as file:
        try:
            for number, message in enumerate(_messages(file)):
                if number:  # the first message describes the trace
                    yield _parse_node(message)
        except ValueError:
            add_damage(builder, path)


def _messages(file: BufferedFile) -> Iterator[bytes]:
    """Yields the messages of a file. The length of each message precedes it."""
    while byte := read_block(file, 1):
        encoded_length = byte
        while byte and byte[0] & 0x80 and len(encoded_length) <= _MAX_VARINT_BYTES:
            byte = read_block(file, 1)
            encoded_length += byte
        length, _ = _varint(encoded_length, 0)
        message = read_block(file, length) if length <= _MAX_MESSAGE_BYTES else b""
        if len(message) != length:
            raise ValueError
        yield message


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Returns the number at a position, and the position after the number: bytes AC 02 (hexadecimal) are (300, 2).

    Each byte has 7 bits of the number, the lowest first. Bit 7 is 0 in the last byte.

    Raises:
        ValueError: The number is cut off or too long.
    """
    value = 0
    for index, byte in enumerate(data[position : position + _MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * index)
        is_last = byte < 0x80
        if is_last:
            return value, position + index + 1
    raise ValueError


def _fields(data: bytes) -> Iterator[tuple[int, _Value]]:
    """Yields number and value of the fields of a message.

    Raises:
        ValueError: The message is damaged.
    """
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        number, wire_type = key >> 3, key & 7
        if wire_type == _VARINT:
            value, position = _varint(data, position)
            yield number, value
            continue
        length = {_FIXED_64_BITS: 8, _FIXED_32_BITS: 4}.get(wire_type)
        if wire_type == _LENGTH_AND_BYTES:
            length, position = _varint(data, position)
        if length is None or position + length > len(data):
            raise ValueError
        yield number, data[position : position + length]
        position += length


def _parse_node(message: bytes) -> _Node:
    """Returns the node of a message.

    An attribute is a message in the node. Its field 1 is the name, field 2 the description, and any other the value.
    The inputs are a message, too. Its field 1 is the text of their values.
    """
    name, kind, duration_us, inputs = b"", 0, 0, b""
    attributes: dict[str, _Value] = {}
    for number, value in _fields(message):
        if isinstance(value, int):
            if number == _KIND:
                kind = value
            elif number == _DURATION:
                duration_us = value
        elif number == _NAME:
            name = value
        elif number == _INPUTS:
            inputs = next((text for key, text in _fields(value) if key == 1 and isinstance(text, bytes)), b"")
        elif number == _ATTRIBUTE:
            attribute = dict(_fields(value))
            attribute_name = attribute.pop(1, b"")
            attribute.pop(2, None)
            if isinstance(attribute_name, bytes) and attribute:
                attributes[attribute_name.decode(errors="replace")] = next(iter(attribute.values()))
    return _Node(name.decode(errors="replace"), kind, duration_us, inputs.decode(errors="replace"), attributes)
