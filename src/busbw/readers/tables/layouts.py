"""What the words of a row mean: nccl-tests' columns of every year, and those of the tools that print like it.

A row is recognised by its shape, not by offsets: two whole numbers and an element type, then an operator, a root, and
one or two placements of three to nine figures. Which of the shapes it is follows from how many words there are; whether
it is a row at all is for the arithmetic to say (settle.py).
"""

import re
from typing import NamedTuple

from busbw.logs import Placement
from busbw.readers.tables.quantities import DTYPES, ELEMENT_BYTES, REDOPS, is_value

BOTH: tuple[Placement, ...] = ("out_of_place", "in_place")
_STAMP = re.compile(r"\d{4}-\d\d-\d\d$")
_CLOCK = re.compile(r"\d\d:\d\d:\d\d(?:\.\d+)?$")
_INT = re.compile(r"-?\d{1,18}$")

_ANCHOR = re.compile(
    rf"(?<![\w.+-])(\d{{1,18}})\s+(\d{{1,18}})\s+({'|'.join(sorted(DTYPES, key=len, reverse=True))})(?![\w.])"
)


class PlacementText(NamedTuple):
    """The figures of one placement as they are printed; empty where a column is missing."""

    time: str
    algbw: str
    busbw: str
    wrong: str = ""
    per_iteration: tuple[str, ...] = ()
    """i_min, i_max, i_p99, i_cv%."""


class RawRow(NamedTuple):
    """A row as it is printed."""

    line: int
    text: str
    size: int
    elements: int
    """The count column."""
    dtype: str | None
    redop: str | None
    """None where the row has no such column or "none" in it."""
    root: int | None
    sides: tuple[PlacementText, ...]
    timestamp: str | None
    group: int = 0


class ColumnLayout(NamedTuple):
    """What the last header said of the columns; rows decide for themselves what it does not say."""

    placements: tuple[Placement, ...] = BOTH
    has_type: bool = True
    cpu_time: bool = False
    unit: str = ""
    """"us" or "ms", where the header has it."""
    backends: tuple[str, ...] = ()
    """ubx_bench's, side by side."""
    shows_error: bool = False
    """The last column is the largest error, as until 2022, and not a number of wrong elements."""
    single: bool = False
    """One placement that the log does not name (nccom-test)."""

    @property
    def is_classic(self) -> bool:
        """Whether they are nccl-tests' of today, as far as the header says."""
        return self.placements == BOTH and self.has_type and not (self.cpu_time or self.backends or self.shows_error)


class NotARowError(ValueError):
    """Why words that begin like a row are none."""


_SIDE_WIDTHS = {8: 4, 10: 5, 16: 8, 18: 9, 6: 3}
"""Figures of a row to figures of a side: classic, with copybw, with -I, with both, without the wrong column."""

_ONE_SIDE_WIDTHS = {4: 4, 3: 3}


def anchor(text: str) -> int:
    """Where a row begins in a line: at two whole numbers and an element type. -1 where there is none."""
    found = _ANCHOR.search(text)
    return found.start() if found else -1


def needs_more(words: list[str], columns: ColumnLayout) -> bool:
    """Whether the words are the beginning of a row whose end may stand in a later line."""
    rest = words[3:] if columns.has_type else words[2:]
    width = len(_figures_of(rest)[1])
    has_two = len(columns.placements) == 2 and columns.has_type and not columns.single and not columns.backends
    return width < (8 if has_two else 3)


def _figures_of(rest: list[str]) -> tuple[str | None, list[str]]:
    """The operator, and all that stands behind it."""
    if rest and rest[0] in REDOPS:
        return rest[0], rest[1:]
    return None, rest


def parse(line: int, text: str, words: list[str], columns: ColumnLayout, group: int) -> RawRow:
    """Gives the words their meaning.

    Raises:
        NotARowError: There are too few or too many of them, or one of them is no figure.
    """
    has_type = columns.has_type or (len(words) > 2 and words[2] in DTYPES)
    dtype = DTYPES.get(words[2]) if has_type else None
    redop, rest = _figures_of(words[3:] if has_type else words[2:])
    timestamp = None
    if len(rest) > 2 and _STAMP.match(rest[-2]) and _CLOCK.match(rest[-1]):
        timestamp, rest = f"{rest[-2]} {rest[-1]}", rest[:-2]
    root, figures = _root_of(rest, columns)
    for word in figures:
        if not is_value(word):
            raise NotARowError(f'"{word[:40]}" is no figure')
    return RawRow(
        line=line,
        text=text,
        size=int(words[0]),
        elements=int(words[1]),
        dtype=dtype,
        redop=None if redop == "none" else redop,
        root=root,
        sides=_sides(figures, columns),
        timestamp=timestamp,
        group=group,
    )


def _root_of(rest: list[str], columns: ColumnLayout) -> tuple[int | None, list[str]]:
    """The root, where its column is there, and the figures."""
    widths = _widths(columns)
    if len(rest) in widths:
        return None, rest
    if len(rest) - 1 in widths and _INT.match(rest[0]):
        root = int(rest[0])
        return (root if root >= 0 else None), rest[1:]
    raise NotARowError(f"{len(rest)} figures are no row: it was cut, or has columns that nobody knows")


def _widths(columns: ColumnLayout) -> dict[int, int]:
    if columns.backends:
        return {3 * len(columns.backends) + 1: 3}
    if columns.single or not columns.has_type:
        return _SIDE_WIDTHS | _ONE_SIDE_WIDTHS
    return _SIDE_WIDTHS | {4: 4, 3: 3}


def _sides(figures: list[str], columns: ColumnLayout) -> tuple[PlacementText, ...]:
    width = _widths(columns)[len(figures)]
    if columns.backends:  # one wrong column for all of them, at the end
        starts = range(0, 3 * len(columns.backends), 3)
        return tuple(
            PlacementText(figures[start], figures[start + 1], figures[start + 2], figures[-1]) for start in starts
        )
    sides = []
    for start in range(0, len(figures), width):
        words = figures[start : start + width]
        if width in (5, 9):  # the bandwidth of a copy beside it stands before the wrong column
            del words[3]
        sides.append(PlacementText(words[0], words[1], words[2], words[3] if len(words) > 3 else "", tuple(words[4:])))
    return tuple(sides)


def share_count(raw: RawRow) -> float | None:
    """How many times the count's bytes go into the size: the ranks where each has a share; None where unknown."""
    if raw.dtype is None or raw.elements == 0:
        return None
    return raw.size / (raw.elements * ELEMENT_BYTES[raw.dtype])
