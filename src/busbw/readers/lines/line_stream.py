"""Splits a log into numbered lines, joins some of them, and reads ahead a bounded number of them.

Log services export each log line as a JSON object, an entry, and some write every field of it on a line of its own. One
field has the log line and another its writer, so the lines of an entry are joined to one. cut_lines.py joins lines that
were cut.
"""

import io
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count, islice, repeat

from busbw.readers.lines.cut_lines import CutRule

_MAX_AHEAD_LINES = 512
_MAX_AHEAD_BYTES = 1 << 20
_MAX_BATCH_LINES = 4096
"""Maximum number of lines that are yielded together if carriage returns end them. A log may have no line feeds."""
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
        """Stores the blocks: whole lines that line feeds end, or any part of a log without line feeds."""
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
        line_count = byte_count = 0
        while line_count < _MAX_AHEAD_LINES and byte_count < _MAX_AHEAD_BYTES:
            if line_count == len(self._ahead):
                block = next(self._blocks, None)
                if block is None:
                    break
                self._ahead.extend(block)
            else:
                byte_count += len(self._ahead[line_count][1])
                line_count += 1
        first_new = max(0, self._shown_count - self._taken_count)
        lines = [line.decode("utf-8", errors="replace") for _, line in islice(self._ahead, first_new, line_count)]
        self._shown_count = max(self._shown_count, self._taken_count + line_count)
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
            if b"\r" not in line.rstrip(b"\r\n"):
                number += 1
                lines.append((number, line))
                continue
            numbers: Iterable[int]
            if line.endswith(b"\n"):
                parts = line.rstrip(b"\r\n").split(b"\r")
                number += 1
                numbers = repeat(number)  # the parts share the number of their line
            else:
                *parts, rest = line.split(b"\r")
                numbers = count(number + 1)
                number += len(parts)
            yield lines
            lines = []
            numbered_parts = zip(numbers, parts, strict=False)
            while batch := [(each, part + b"\n") for each, part in islice(numbered_parts, _MAX_BATCH_LINES)]:
                yield batch
        yield lines
    if rest:
        yield [(number + 1, rest)]


def _join_entries(blocks: Iterable[list[NumberedLine]]) -> Iterator[list[NumberedLine]]:
    """Yields the numbered lines. Joins the lines of each entry to one line with the number of the first.

    An entry begins with a line `{` and has only fields, without another such line.
    """
    entry: list[NumberedLine] = []
    """Lines of an object that may be an entry."""
    depth = byte_count = 0
    for block in blocks:
        if not entry and not any(b"{" in line for _, line in block):  # the most frequent case
            yield block
            continue
        joined: list[NumberedLine] = []
        for number, line in block:
            if b"{" in line and line.strip() == b"{":
                joined += entry  # this object contains another one, so it is no entry
                entry, depth, byte_count = [(number, line)], 1, 0
                continue
            if not entry:
                joined.append((number, line))
                continue
            entry.append((number, line))
            byte_count += len(line)
            text = line.strip()
            if text.endswith((b"{", b"[")):
                depth += 1
            if text.startswith((b"}", b"]")):
                depth -= 1
            if not depth:
                joined.append((entry[0][0], b" ".join(part.strip() for _, part in entry) + b"\n"))
                entry = []
            elif len(entry) > _MAX_ENTRY_LINES or byte_count > _MAX_ENTRY_BYTES or not _FIELD.match(line):
                joined += entry  # this object is no entry
                entry = []
        yield joined
    yield entry
