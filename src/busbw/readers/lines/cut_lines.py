"""Joins lines that a terminal, an editor, a log service or a YAML writer cut.

The parts of a cut row can hardly be told from other text, so a reader that does not join them loses rows without a
message. The beginning of the log decides: if the joined lines hold more than twice as many rows, the lines were cut.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from busbw.readers.lines.source import MAX_LINE_BYTES
from busbw.readers.tables.quantities import DTYPES

_MIN_WIDTH = 40
_MIN_ROWS = 3
"""Minimum number of rows in the joined lines."""
_CONTINUATION_MARKS = (b"\\", b"=")
"""Last character of each part but the last, as in shells and quoted-printable text."""
_FIGURE = rb"(?:[-+]?[\d.]{1,20}(?:[eE][-+]?\d{1,2})?|N/A|inf|nan)"
_SIZE_COUNT_TYPE = rb"\d{1,20}[ \t]+\d{1,20}[ \t]+(?:" + "|".join(sorted(DTYPES)).encode() + rb")(?=[ \t])"
_ROW = re.compile(_SIZE_COUNT_TYPE + rb"(?:[ \t]+[a-z]{2,10})?(?:[ \t]+" + _FIGURE + rb"){8,40}(?=[\s\"'\\<,|\]]|\Z)")
"""Row with both placements."""
_TWO_ROWS = re.compile(_ROW.pattern + rb"(?:(?!<br|</)[^\"'\\]){1,200}?" + _SIZE_COUNT_TYPE)
"""Two rows in one line that no escape, tag or end of a string separates."""
_LINE_PREFIX = re.compile(rb".*[^\w.]", re.DOTALL)
"""Text up to a separator, as in `node1: `. It does not end within a word or a number."""


class CutRule(NamedTuple):
    """How a writer cut lines."""

    width: int = 0
    """Length of the parts that continue on the next line. 0: any."""
    mark: bytes = b""
    """End of the parts that continue."""
    prefix: "re.Pattern[bytes]" = re.compile(b"")
    """Text before each part after the first one. It does not belong to the line."""
    is_ambiguous: bool = False
    """True if a row may end where a part ends, so that the next row looks like the rest of this row."""

    def join(self, lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        """Yields the numbered lines. Joins the parts of a line, up to `MAX_LINE_BYTES`, under the first number."""
        parts: list[bytes] = []
        first_number = byte_count = 0
        for number, line in lines:
            first_number = first_number if parts else number
            body = line.rstrip(b"\r\n")
            start = match.end() if parts and (match := self.prefix.match(line)) else 0
            if self._continues(body) and byte_count < MAX_LINE_BYTES:
                parts.append(body[start : len(body) - len(self.mark)])
                byte_count += len(body)
                continue
            yield first_number, b"".join((*parts, line[start:]))
            parts, byte_count = [], 0
        if parts:
            yield first_number, b"".join((*parts, b"\n"))

    def _continues(self, body: bytes) -> bool:
        has_width = not self.width or len(body) == self.width
        return has_width and body.endswith(self.mark)


_YAML = CutRule(mark=b"\\", prefix=re.compile(rb"[ \t]{1,80}\\?"))
"""Strings of YAML, which are cut at blanks. The next line is indented, and a blank at its beginning is escaped."""


def find_cut_rule(beginning: bytes) -> CutRule | None:
    """Returns how the lines of a log were cut. None if they were not."""
    lines = beginning.split(b"\n")[:-1]
    row_count = sum(len(_ROW.findall(line)) for line in lines)
    for rule in (_fixed_width(lines), _YAML):
        joined = [line for _, line in rule.join((0, line + b"\n") for line in lines)]  # line numbers do not matter
        joined_count = sum(len(_ROW.findall(line)) for line in joined)
        if joined_count >= _MIN_ROWS and joined_count > 2 * row_count:
            return rule._replace(is_ambiguous=any(map(_TWO_ROWS.search, joined)))
    return None


def _fixed_width(lines: Sequence[bytes]) -> CutRule:
    """Returns the rule for lines that a terminal cut at the length of the longest one. The parts may have a prefix."""
    bodies = [line.rstrip(b"\r") for line in lines]
    width = max(_MIN_WIDTH, max(map(len, bodies), default=0))
    cut = [body for body in bodies if len(body) == width]
    mark = next((mark for mark in _CONTINUATION_MARKS if all(body.endswith(mark) for body in cut)), b"")
    shared_beginning = os.path.commonprefix(bodies) or b""  # noqa: RUF071
    prefix = _LINE_PREFIX.match(shared_beginning)
    return CutRule(width, mark, re.compile(re.escape(prefix[0] if prefix else b"")))
