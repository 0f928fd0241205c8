"""Splits a log into numbered lines, joins some of them, and reads ahead a bounded number of them.

Log services indent the entries that they export as JSON. A field of an entry may name the writer of the line in another
field, so the lines of an entry are joined. cut_lines.py joins lines that were cut.
"""

import io
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from busbw.readers.lines.cut_lines import CutRule

_MAX_AHEAD_LINES = 512
_MAX_AHEAD_BYTES = 1 << 20
_MAX_LINES = 4096
"""Maximum number of lines that are split together if carriage returns end them."""
_MAX_ENTRY_LINES = 100
_MAX_ENTRY_BYTES = 1 << 16
_FIELD = re.compile(rb'\s*(?:"(?:[^"\\]|\\.){1,200}"\s*:|[}\]],?\s*\Z)')
"""Line of a field, or the end of an object or a list."""

NumberedLine = tuple[int, bytes]


class LineStream:
    """The lines of a log with their numbers, from 1. A carriage return ends a line too, as on old systems.

    Parts of a line that end with carriage returns, as progress bars write them, share its number. If the log has no
    line feeds, each part has its own number.
    """

    def __init__(self, blocks: Iterable[bytes], cut_rule: CutRule | None = None) -> None:
        """Stores the blocks, each of which is one or several whole lines."""
        numbered_blocks = _split_into_lines(blocks)
        if cut_rule:
            numbered_blocks = ([line] for line in cut_rule.join(chain.from_iterable(numbered_blocks)))
        self._blocks = _join_entries(numbered_blocks)
        self._ahead: deque[NumberedLine] = deque()
        """The next lines."""
        self._taken_count = 0
        """Number of lines that `next` has returned and that were not put back."""
        self._shown_count = 0
        """Number of lines up to the last one that `look_ahead` has returned."""

    def __iter__(self) -> Iterator[NumberedLine]:
        """Returns the iterator over the lines with their numbers."""
        return self

    def __next__(self) -> NumberedLine:
        """Returns the next line with its number."""
        while not self._ahead:
            self._ahead.extend(next(self._blocks))
        self._taken_count += 1
        return self._ahead.popleft()

    def put_back(self, lines: Sequence[NumberedLine]) -> None:
        """Makes the last lines that `next` has returned the next ones again."""
        self._ahead.extendleft(reversed(lines))
        self._taken_count -= len(lines)

    def look_ahead(self) -> list[str]:
        """Returns the lines that follow, up to a bound, except those that it returned before."""
        count = byte_count = 0
        while count < _MAX_AHEAD_LINES and byte_count < _MAX_AHEAD_BYTES:
            if count == len(self._ahead):
                block = next(self._blocks, None)
                if block is None:
                    break
                self._ahead.extend(block)
            else:
                byte_count += len(self._ahead[count][1])
                count += 1
        first_new = max(0, self._shown_count - self._taken_count)
        lines = [line.decode("utf-8", errors="replace") for _, line in islice(self._ahead, first_new, count)]
        self._shown_count = max(self._shown_count, self._taken_count + count)
        return lines


def _split_into_lines(blocks: Iterable[bytes]) -> Iterator[list[NumberedLine]]:
    """Yields the lines of each block with their numbers, together or in consecutive parts."""
    number = 0
    rest = b""
    """Beginning of a line that ends in the next block."""
    for block in blocks:
        if not rest and b"\r" not in block:  # the most frequent case
            lines = list(enumerate(io.BytesIO(block), start=number + 1))
            number += len(lines)
            yield lines
            continue
        lines = []
        for read in io.BytesIO(block):
            line, rest = rest + read, b""
            if b"\r" not in line or line.find(b"\r") >= len(line.rstrip(b"\r\n")):
                number += 1
                lines.append((number, line))
                continue
            has_line_feed = line.endswith(b"\n")
            *parts, rest = line.rstrip(b"\r\n" if has_line_feed else b"").split(b"\r")
            number += has_line_feed
            for part in parts:
                number += not has_line_feed
                lines.append((number, part + b"\n"))
                if len(lines) >= _MAX_LINES:  # a text without line feeds is one long block
                    yield lines
                    lines = []
            if has_line_feed:
                lines.append((number, rest + b"\n"))
                rest = b""
        yield lines
    if rest:
        yield [(number + 1, rest)]


def _join_entries(blocks: Iterable[list[NumberedLine]]) -> Iterator[list[NumberedLine]]:
    """Yields the numbered lines. The lines of an object with fields only become one, with the number of the first."""
    entry: list[NumberedLine] = []
    depth = byte_count = 0
    for block in blocks:
        if not entry and not any(b"{" in line for _, line in block):  # the most frequent case
            yield block
            continue
        joined: list[NumberedLine] = []
        for number, line in block:
            if not entry and b"{" not in line:
                joined.append((number, line))
                continue
            text = line.strip()
            if text == b"{":  # an outer object is no entry
                joined += entry
                entry, depth, byte_count = [(number, line)], 1, 0
                continue
            if not entry:
                joined.append((number, line))
                continue
            entry.append((number, line))
            byte_count += len(line)
            depth += text.endswith((b"{", b"[")) - text.startswith((b"}", b"]"))
            if not depth:
                joined.append((entry[0][0], b" ".join(part.strip() for _, part in entry) + b"\n"))
                entry = []
            elif len(entry) > _MAX_ENTRY_LINES or byte_count > _MAX_ENTRY_BYTES or not _FIELD.match(line):
                joined += entry
                entry = []
        yield joined
    yield entry
