"""Tells by the words of a line if the line is a row or a part of one."""

from busbw.readers.tables.quantities import DTYPES, REDOPS, is_value, parse_integer

WORD_COUNT = 13
"""Size, count, type, operator, root, then time, algbw, busbw and wrong elements of both placements."""
_MAX_FIGURES = 40
"""More figures than any part of a row has."""


def is_clean_row(text: str, words: list[str]) -> bool:
    """True if words are a row of current nccl-tests, and their text has no tags of other writers.

    layouts.py checks the figures.
    """
    return (
        len(words) == WORD_COUNT
        and words[2] in DTYPES
        and all(word.isdecimal() and len(word) < 19 for word in words[:2])  # fits into 64 bits
        and words[3] in REDOPS
        and (words[4] == "-1" or words[4].isdecimal())
        and (words[12].isdecimal() or words[12] == "N/A")
        and "[" not in text
    )


def is_complete_row(words: list[str]) -> bool:
    """True if the last word of a row without line end is certainly complete.

    The word is a number of wrong elements or an error. "1" may be cut from "12" or "1e-07". "0" can only be cut from
    "0e+00", which has the same value.
    """
    return words[-1] in ("0", "N/A", "0e+00")


def may_be_part(words: list[str]) -> bool:
    """True if the words may be a part of a row, because all are figures."""
    return len(words) < _MAX_FIGURES and all(map(is_value, words))


def begin_with_counts(words: list[str]) -> bool:
    """True if the first two words may be a size and a count."""
    return parse_integer(words[0]) is not None and parse_integer(words[1]) is not None


def begin_like_row(words: list[str]) -> bool:
    """True if the words begin with a size, a count and an element type."""
    return len(words) > 5 and begin_with_counts(words) and words[2] in DTYPES
