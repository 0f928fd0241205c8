"""Finds lines that identify themselves at any position of a text: rows, and lines of headers and footers.

The text before such a line is the prefix that a wrapper added. prefixes.py learns from these prefixes, and from the
order that the lines of one table have.
"""

import re
from typing import NamedTuple

from busbw.readers.tables import layouts
from busbw.readers.tables.headers import LINE_BEGINNINGS
from busbw.readers.tables.quantities import DTYPES, parse_integer

MAX_LENGTH = 20_000
"""Characters. A longer line is no line of a table."""

_TYPES = tuple(name for name in DTYPES if not any(other != name and other in name for other in DTYPES))
"""Texts of which a line with an element type contains at least one."""
_WORDS = ("#", "version", "Version", "Collective", "nThread", "devices", "Pid", "size", "bytes", "bounds", "bandwidth")
"""Texts of which a line of a header or footer contains at least one."""
_KINDS = (
    r"nccl-tests version\s|rccl-tests: Version",
    r"Collective test starting",
    r"nThreads?:?\s+\d",
    r"Using devices",
    r"Rank\s+\d+\s+(?:Group\s+\d+\s+)?Pid",
    r"#\s{0,200}(?:out-of|in)-place",
    r"(?:size|bytes)\s{0,20}(?:\([^()\s]{1,12}\))?\s{1,20}(?:count|N|time|algbw|busbw)\b",
    r"#\s{0,200}\(B\)",
    r"Out of bounds values\s*:",
    r"Avg(?:erage)? bus bandwidth\s*:",
    r"Collective test concluded",
)
"""Beginnings of header and footer lines, in the order of the lines."""
_FIRST_FOOTER = 8
"""Position of the first line of a footer in `_KINDS`."""
_ROW = _FIRST_FOOTER - 0.5
"""Position of the rows."""
_LINE = re.compile(
    r"(?<![\w#])(?:(?:#\s{0,200})?(?:"
    + "|".join(f"(?P<at_{position}>{beginning})" for position, beginning in enumerate(_KINDS))
    + rf")|#\s{{0,200}}(?:{'|'.join(map(re.escape, LINE_BEGINNINGS))}))"
)
"""A line of a header or footer. Some kinds, such as warnings, need a '#' and may stand anywhere in a table."""


_MIN_CELLS = 2
"""Minimum number of cells in a line of a Markdown table."""
_RULE_CHARACTERS = "|:- \t"
_RULE = re.compile(r"\|\s{0,40}:?--")
"""Beginning of the line below the header of a Markdown table."""


class Anchor(NamedTuple):
    """A row, a line of a header or footer, or a line of Markdown cells."""

    start: int
    """Position of its first character in the text."""
    position: float | None
    """Position of its kind in a table. None if the line may stand anywhere."""
    size: int = 0
    """Size of a row, in bytes."""

    @property
    def is_row(self) -> bool:
        """True if the line is a row."""
        return self.position == _ROW

    def follows(self, earlier: "Anchor") -> int:
        """Returns 1 if the line continues the table of an earlier line, -1 if it cannot, and 0 if that is unknown."""
        if self.position is None or earlier.position is None:
            return 0
        if self.position > earlier.position or (self.is_row and earlier.is_row and self.size > earlier.size):
            return 1
        return -1 if self.position >= _ROW and self.position < earlier.position else 0


def count_bars_before_rule(text: str) -> int | None:
    """Returns the number of vertical bars in the prefix of the line below a Markdown header; None for other lines."""
    text = text.rstrip()
    rule = _RULE.search(text, len(text.rstrip(_RULE_CHARACTERS)))
    return text.count("|", 0, rule.start()) if rule and text.endswith("|") else None


def may_have_anchor(text: str) -> bool:
    """False if no line of a text without markup has an anchor. Quicker than `find_anchor`."""
    return "|" in text or any(map(text.__contains__, _TYPES)) or any(map(text.__contains__, _WORDS))


def find_anchor(text: str, bar_count: int = 0) -> Anchor | None:
    """Returns the first row, header line, footer line or line of Markdown cells in a text; None if it has none.

    Args:
        text: Text of a line.
        bar_count: Number of vertical bars in the prefix of lines of Markdown cells.
    """
    if any(map(text.__contains__, _TYPES)) and (start := layouts.find_row_start(text)) >= 0:
        return Anchor(start, _ROW, parse_integer(text[start:].split(None, 1)[0]) or 0)
    match = _LINE.search(text) if any(map(text.__contains__, _WORDS)) else None
    if match is None:
        is_line_of_cells = text.rstrip().endswith("|") and text.count("|") > _MIN_CELLS + bar_count
        if not is_line_of_cells:
            return None
        prefix_length = sum(len(part) + 1 for part in text.split("|", bar_count)[:bar_count])
        return Anchor(text.index("|", prefix_length), None)
    return Anchor(match.start(), int(match.lastgroup[3:]) if match.lastgroup else None)
