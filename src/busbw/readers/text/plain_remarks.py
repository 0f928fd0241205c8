"""Recognizes header and footer lines that need no cleaning, which are most lines of a log with many short tables."""

from functools import lru_cache

from busbw.readers.tables.headers import MAX_REMARK_LENGTH
from busbw.readers.tables.quantities import DTYPES

_TYPES = frozenset(DTYPES)
_CLEANING_MARKS = ("CCL ", "<", "&", "\\n", "[repeated ", "\x1b")
"""Texts of which an ASCII line that unwrapping.py or cleaning.py changes contains at least one, except for prefixes."""


def has_plain_form(text: str) -> bool:
    """True if a line that begins with '#' needs no cleaning, contains no row, and names no columns."""
    is_short = len(text) <= MAX_REMARK_LENGTH  # long lines would take too much memory
    return _recall_plain_form(text) if is_short else _find_plain_form(text)


@lru_cache(maxsize=1024)  # a long log repeats most lines of its headers
def _recall_plain_form(text: str) -> bool:
    return _find_plain_form(text)


def _find_plain_form(text: str) -> bool:
    words = text.split()
    has_clean_form = text.isascii() and not any(map(text.__contains__, _CLEANING_MARKS))
    may_be_row = words[0][1:2].isdigit() or not _TYPES.isdisjoint(words)
    return has_clean_form and not may_be_row and "algbw" not in text
