"""Splits a log into numbered lines, joins some of them, and reads ahead a bounded number of them.

Log services indent the entries that they export as JSON. A field of an entry may name the writer of the line in another
field, so the lines of an entry are joined. cut_lines.py joins lines that were cut.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from busbw.readers.lines.cut_lines import CutRule

_MAX_AHEAD_LINES = 512
_MAX_AHEAD_BYTES = 1 << 20
_MAX_ENTRY_LINES = 100
_MAX_ENTRY_BYTES = 1 << 16
_FIELD = re.compile(rb'\s*(?:"(?:[^"\\]|\\.){1,200}"\s*:|[}\]],?\s*\Z)')
"""Line of a field, or the end of an object or a list."""


class LineStream:
    """The lines of a log with their numbers, from 1. A carriage return ends a line too, as on old systems.

    Parts of a line that end with carriage returns, as progress bars write them, share its number. If the log has no
    line feeds, each part has its own number.
    """

    def __init__(self, lines: Iterable[bytes], cut_rule: CutRule | None = None) -> None:
        numbered_lines = _split_at_carriage_returns(lines)
        self._lines = _join_entries(cut_rule.join(numbered_lines) if cut_rule else numbered_lines)
        self._ahead: deque[tuple[int, bytes]] = deque()
        self._taken_count = 0
        """Number of lines that `next` has returned and that were not put back."""
        self._shown_count = 0
        """Number of lines up to the last one that `look_ahead` has returned."""

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Returns the iterator over the lines with their numbers."""
        return self

    def __next__(self) -> tuple[int, bytes]:
        """Returns the next line with its number."""
        numbered_line = self._ahead.popleft() if self._ahead else next(self._lines)
        self._taken_count += 1
        return numbered_line

    def put_back(self, lines: Sequence[tuple[int, bytes]]) -> None:
        """Makes the last lines that `next` has returned the next ones again."""
        self._ahead.extendleft(reversed(lines))
        self._taken_count -= len(lines)

    def look_ahead(self) -> list[str]:
        """Returns the lines that follow, up to a bound, except those that it returned before."""
        byte_count = sum(len(line) for _, line in self._ahead)
        while len(self._ahead) < _MAX_AHEAD_LINES and byte_count < _MAX_AHEAD_BYTES:
            numbered_line = next(self._lines, None)
            if numbered_line is None:
                break
            self._ahead.append(numbered_line)
            byte_count += len(numbered_line[1])
        first_new = max(0, self._shown_count - self._taken_count)
        lines = [line.decode("utf-8", errors="replace") for _, line in list(self._ahead)[first_new:]]
        self._shown_count = self._taken_count + len(self._ahead)
        return lines


def _split_at_carriage_returns(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    number = 0
    rest = b""
    """Beginning of a line that ends in the next read."""
    for read in lines:
        if not rest and b"\r" not in read:  # the most frequent case
            number += 1
            yield number, read
            continue
        line, rest = rest + read, b""
        if b"\r" not in line or line.find(b"\r") >= len(line.rstrip(b"\r\n")):
            number += 1
            yield number, line
            continue
        has_line_feed = line.endswith(b"\n")
        *parts, rest = line.rstrip(b"\r\n" if has_line_feed else b"").split(b"\r")
        number += has_line_feed
        for part in parts:
            number += not has_line_feed
            yield number, part + b"\n"
        if has_line_feed:
            yield number, rest + b"\n"
            rest = b""
    if rest:
        yield number + 1, rest


def _join_entries(lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Yields the numbered lines. The lines of an object with fields only become one, with the number of the first."""
    entry: list[tuple[int, bytes]] = []
    depth = byte_count = 0
    for number, line in lines:
        if not entry and b"{" not in line:  # the most frequent case
            yield number, line
            continue
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
        elif len(entry) > _MAX_ENTRY_LINES or byte_count > _MAX_ENTRY_BYTES or not _FIELD.match(line):
            yield from entry
            entry = []
    yield from entry
