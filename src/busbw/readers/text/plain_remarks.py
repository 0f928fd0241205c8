"""Recognizes plain remarks: lines that begin with '#', need no cleaning, contain no row, and name no columns.

Most lines of a log with many short tables are plain remarks of headers and footers.
"""

from functools import lru_cache

from busbw.readers.tables.quantities import DTYPES

_TYPES = frozenset(DTYPES)
_CLEANING_MARKS = ("CCL ", "<", "&", "\\n", "[repeated ", "\x1b")
"""Signs that an ASCII line needs cleaning.

If unwrapping.py or cleaning.py would change more than the prefix of the line, the line contains one of these texts."""


@lru_cache(maxsize=1024)  # a long log repeats most lines of its headers
def is_plain_remark(text: str) -> bool:
    """True if a line that begins with '#' is a plain remark. It must not be longer than `MAX_REMARK_LENGTH`."""
    needs_cleaning = not text.isascii() or any(mark in text for mark in _CLEANING_MARKS)
    words = text.split()
    # BuildKit writes a number after '#' before each line, also before rows: "#12 0.531 ROW".
    has_number_prefix = words[0][1:2].isdigit()
    may_be_row = has_number_prefix or not _TYPES.isdisjoint(words)
    names_columns = "algbw" in text
    return not (needs_cleaning or may_be_row or names_columns)
