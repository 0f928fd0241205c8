"""JSON objects that the commands print with `--json`."""

import sys
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from busbw.units import escape_json

SCHEMA_VERSION = "2.0"
"""Version of the fields, as major.minor. A new field raises minor; a removed, renamed or changed one raises major."""

_ENCODER = msgspec.json.Encoder()
_BEGINNING = _ENCODER.encode({"schema_version": SCHEMA_VERSION})[:-1]
"""Beginning of each object, without the closing brace."""


def json_object(value: object) -> bytes:
    """Returns a struct, a dataclass or a dict as one JSON object with the schema version first.

    Terminals can print it safely.
    """
    # Called for each of up to two million objects of a list. Joining encoded text is faster than making a larger dict.
    fields_and_end = _ENCODER.encode(value)[1:]  # without the opening brace
    separator = b"" if fields_and_end == b"}" else b","
    return escape_json(_BEGINNING + separator + fields_and_end)


def encode_item(value: object) -> Iterator[bytes]:
    """Yields a value as one part of encoded JSON."""
    yield escape_json(_ENCODER.encode(value))


def object_with_lists(
    value: object, lists: Mapping[str, Iterable[Iterator[bytes]]], separator: bytes = b""
) -> Iterator[bytes]:
    """Yields the parts of an object with lists that may be too long for memory.

    Args:
        value: Struct or dict with the other fields. Its values for the keys of the lists are omitted.
        lists: Items of each list, as parts of encoded JSON.
        separator: Blanks before each item: a line break makes a long object readable.
    """
    fields = {key: field for key, field in msgspec.to_builtins(value).items() if key not in lists}
    yield escape_json(_ENCODER.encode(fields))[:-1]
    for index, (key, items) in enumerate(lists.items()):
        yield b"%s%s:[" % (b"," if fields or index else b"", _ENCODER.encode(key))
        comma = b""
        for item in items:
            yield comma + separator
            yield from item
            comma = b","
        yield b"]"
    yield b"}"


def print_object(value: object, lists: Mapping[str, Iterable[Iterator[bytes]]], separator: bytes = b"") -> None:
    """Prints an object as `object_with_lists`, with the schema version first."""
    sys.stdout.flush()
    out = sys.stdout.buffer
    fields = {"schema_version": SCHEMA_VERSION, **msgspec.to_builtins(value)}
    out.writelines(object_with_lists(fields, lists, separator))
    out.write(b"\n")
    out.flush()
