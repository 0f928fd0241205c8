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

_TYPE_SEARCH_WORDS = tuple(name for name in DTYPES if not any(other != name and other in name for other in DTYPES))
"""Element types that contain no other type's name. A line with an element type contains at least one of them."""
_WORDS = ("#", "version", "Version", "Collective", "nThread", "devices", "Pid", "size", "bytes", "bounds", "bandwidth")
"""Texts of which a line of a header or footer contains at least one."""
_HEADER_BEGINNINGS = (
    r"nccl-tests version\s|rccl-tests: Version",
    r"Collective test starting",
    r"nThreads?:?\s+\d",
    r"Using devices",
    r"Rank\s+\d+\s+(?:Group\s+\d+\s+)?Pid",
    r"#\s{0,200}(?:out-of|in)-place",
    r"(?:size|bytes)\s{0,20}(?:\([^()\s]{1,12}\))?\s{1,20}(?:count|N|time|algbw|busbw)\b",
    r"#\s{0,200}\(B\)",
)
"""Beginnings of header lines, in the order of the lines."""
_ROW_POSITION = len(_HEADER_BEGINNINGS)
"""Position of all rows, between those of the header and footer lines."""
_FOOTER_BEGINNINGS = (
    r"Out of bounds values\s*:",
    r"Avg(?:erage)? bus bandwidth\s*:",
    r"Collective test concluded",
)
"""Beginnings of footer lines, in the order of the lines."""
_BEGINNINGS_BY_POSITION = {
    **dict(enumerate(_HEADER_BEGINNINGS)),
    **dict(enumerate(_FOOTER_BEGINNINGS, start=_ROW_POSITION + 1)),
}
_POSITION_GROUP = "position_"
"""Beginning of the names of groups in `_LINE`, before the position."""
_LINE = re.compile(
    r"(?<![\w#])(?:(?:#\s{0,200})?(?:"
    + "|".join(f"(?P<{_POSITION_GROUP}{position}>{text})" for position, text in _BEGINNINGS_BY_POSITION.items())
    + rf")|#\s{{0,200}}(?:{'|'.join(map(re.escape, LINE_BEGINNINGS))}))"
)
"""A line of a header or footer. Lines with one of LINE_BEGINNINGS, such as warnings, need a '#'. They have no position,
because they may stand anywhere in a table."""

_MIN_CELLS = 2
"""Minimum number of cells in a line of a Markdown table."""
_RULE_CHARACTERS = "|:- \t"
_RULE_BEGINNING = re.compile(r"\|\s{0,40}:?--")
"""Beginning of a rule, which is the line below the header of a Markdown table."""


class Anchor(NamedTuple):
    """A row, a line of a header or footer, or a line of Markdown cells."""

    start: int
    """Index of its first character in the text."""
    position: int | None
    """Position of its kind of line in a table. None if the line may stand anywhere."""
    size: int = 0
    """Size of a row, in bytes. 0 for all other lines."""

    @property
    def is_row(self) -> bool:
        """True if the line is a row."""
        return self.position == _ROW_POSITION

    def continues(self, earlier: "Anchor") -> bool | None:
        """True if the line continues the table of an earlier line, False if it cannot, and None if that is unknown.

        The answer is unknown for a row that is not larger than the earlier row. The answer is also unknown for a header
        line below a line that it normally precedes: the line may repeat the header or begin another table.
        """
        if self.position is None or earlier.position is None:
            return None
        is_larger_row = self.is_row and earlier.is_row and self.size > earlier.size
        if self.position > earlier.position or is_larger_row:
            return True
        is_misplaced = self.position >= _ROW_POSITION and self.position < earlier.position
        return False if is_misplaced else None


def count_bars_before_rule(text: str) -> int | None:
    """Returns the number of vertical bars that a wrapper put before the rule of a Markdown table.

    None if the text does not end with a rule.
    """
    text = text.rstrip()
    rule_start = len(text.rstrip(_RULE_CHARACTERS))
    rule = _RULE_BEGINNING.search(text, rule_start)
    return text.count("|", 0, rule.start()) if rule and text.endswith("|") else None


def may_have_anchor(text: str) -> bool:
    """False if `find_anchor` certainly finds nothing in the lines of a text without markup. This test is faster."""
    return "|" in text or _has_type_word(text) or _has_header_word(text)


def find_anchor(text: str, bar_count: int = 0) -> Anchor | None:
    """Returns the first row, header line, footer line or line of Markdown cells in a text; None if it has none.

    `bar_count`: number of vertical bars in the wrapper's prefix, if the line may consist of Markdown cells.
    """
    if _has_type_word(text) and (start := layouts.find_row_start(text)) >= 0:
        return Anchor(start, _ROW_POSITION, parse_integer(text[start:].split(None, 1)[0]) or 0)
    if _has_header_word(text) and (match := _LINE.search(text)):
        group = match.lastgroup
        return Anchor(match.start(), int(group.removeprefix(_POSITION_GROUP)) if group else None)
    return _find_cells(text, bar_count)


def _has_type_word(text: str) -> bool:
    return any(map(text.__contains__, _TYPE_SEARCH_WORDS))


def _has_header_word(text: str) -> bool:
    return any(map(text.__contains__, _WORDS))


def _find_cells(text: str, bar_count: int) -> Anchor | None:
    """Returns the anchor at the first bar after the prefix, if Markdown cells follow it."""
    is_line_of_cells = text.rstrip().endswith("|") and text.count("|") > _MIN_CELLS + bar_count
    if not is_line_of_cells:
        return None
    prefix_length = sum(len(part) + 1 for part in text.split("|", bar_count)[:bar_count])  # up to its last bar
    return Anchor(text.index("|", prefix_length), None)
