"""Joins the lines of an object of JSON, so that the fields around a string are next to it.

Log services indent the entries that they export. A field of an entry may name the writer of the line in another field.
"""

import re
from collections.abc import Iterable, Iterator

_MAX_LINES = 100
_MAX_BYTES = 1 << 16
_FIELD = re.compile(rb'\s*(?:"(?:[^"\\]|\\.){1,200}"\s*:|[}\]],?\s*\Z)')
"""Line of a field, or the end of an object or a list."""


def join_entries(lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Yields the numbered lines. The lines of an object with fields only become one, with the number of the first."""
    entry: list[tuple[int, bytes]] = []
    depth = byte_count = 0
    for number, line in lines:
        text = line.strip()
        if text == b"{":  # an outer object is no entry
            yield from entry
            entry, depth, byte_count = [(number, line)], 1, 0
            continue
        if not entry:
            yield number, line
            continue
        entry.append((number, line))
        byte_count += len(line)
        depth += text.endswith((b"{", b"[")) - text.startswith((b"}", b"]"))
        if not depth:
            yield entry[0][0], b" ".join(part.strip() for _, part in entry) + b"\n"
            entry = []
        elif len(entry) > _MAX_LINES or byte_count > _MAX_BYTES or not _FIELD.match(line):
            yield from entry
            entry = []
    yield from entry
