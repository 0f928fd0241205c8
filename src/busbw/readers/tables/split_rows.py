"""Rows of 13 words, which are recognized by their words but not parsed until their table is interpreted."""

from msgspec import Struct

from busbw.readers.tables.quantities import DTYPES, REDOPS

WORD_COUNT = 13
"""Size, count, type, operator, root, then time, algbw, busbw and wrong elements of both placements."""


class SplitRow(Struct, frozen=True, gc=False):
    """A row that is split into words but not parsed."""

    line: int
    text: str
    words: list[str]


def has_row_form(words: list[str]) -> bool:
    """True if the first five and the last of 13 words are those of a row. layouts.py checks the others."""
    root = words[4]
    return (
        words[2] in DTYPES
        and words[0].isdecimal()
        and words[1].isdecimal()
        and len(words[0]) < 19  # fits into 64 bits
        and len(words[1]) < 19
        and words[3] in REDOPS
        and (root == "-1" or (root.isdecimal() and len(root) < 10))  # fits into 32 bits
        and (words[12].isdecimal() or words[12] == "N/A")
    )
