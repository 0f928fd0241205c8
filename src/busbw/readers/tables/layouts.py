"""Column layouts of all nccl-tests versions and of tools with similar output.

A row is recognized by its shape, not by offsets: two integers and an element type, then an operator, a root, and one or
two placements of three to nine figures. The number of words selects the layout. The arithmetic decides later if the
words are a valid row (inference.py).
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
    """Printed figures of one placement. Empty if a column is missing."""

    time: str
    algbw: str
    busbw: str
    wrong: str = ""
    per_iteration: tuple[str, ...] = ()
    """i_min, i_max, i_p99, i_cv%."""


class RawRow(NamedTuple):
    """A row as printed."""

    line: int
    text: str
    size: int
    elements: int
    """The count column."""
    dtype: str | None
    redop: str | None
    """None if the row has no operator column or "none" in it."""
    root: int | None
    sides: tuple[PlacementText, ...]
    timestamp: str | None
    group: int = 0


class ColumnLayout(NamedTuple):
    """Columns according to the last header. The rows decide all properties that the header leaves open."""

    placements: tuple[Placement, ...] = BOTH
    has_type: bool = True
    cpu_time: bool = False
    unit: str = ""
    """Unit of the times, "us" or "ms"; empty if the header has none."""
    backends: tuple[str, ...] = ()
    """Backends of ubx_bench, which prints them side by side."""
    shows_error: bool = False
    """True if the last column is the largest error, as until 2022, instead of the number of wrong elements."""
    single: bool = False
    """True if there is one placement that the log does not name (nccom-test)."""

    @property
    def is_classic(self) -> bool:
        """True if the header does not differ from that of current nccl-tests."""
        return self.placements == BOTH and self.has_type and not (self.cpu_time or self.backends or self.shows_error)


class NotARowError(ValueError):
    """Words that begin like a row are not one; the text has the reason."""


_SIDE_WIDTHS = {8: 4, 10: 5, 16: 8, 18: 9, 6: 3}
"""Figures per row to figures per placement: classic, with copybw, with -I, with both, without the wrong column."""

_ONE_SIDE_WIDTHS = {4: 4, 3: 3}


def anchor(text: str) -> int:
    """Returns the position of two integers and an element type, where a row begins; -1 if the line has no row."""
    found = _ANCHOR.search(text)
    return found.start() if found else -1


def needs_more(words: list[str], columns: ColumnLayout) -> bool:
    """True if the words are an incomplete row that a later line may complete."""
    rest = words[3:] if columns.has_type else words[2:]
    width = len(_figures_of(rest)[1])
    has_two = len(columns.placements) == 2 and columns.has_type and not columns.single and not columns.backends
    return width < (8 if has_two else 3)


def _figures_of(rest: list[str]) -> tuple[str | None, list[str]]:
    """Returns the operator, if any, and the words after it."""
    if rest and rest[0] in REDOPS:
        return rest[0], rest[1:]
    return None, rest


def parse(line: int, text: str, words: list[str], columns: ColumnLayout, group: int) -> RawRow:
    """Parses the words of a row.

    Raises:
        NotARowError: The number of words fits no layout, or a figure is not a number.
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
            raise NotARowError(f'"{word[:40]}" is not a number')
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
    """Returns the root, if the row has that column, and the figures."""
    widths = _widths(columns)
    if len(rest) in widths:
        return None, rest
    if len(rest) - 1 in widths and _INT.match(rest[0]):
        root = int(rest[0])
        return (root if root >= 0 else None), rest[1:]
    raise NotARowError(f"{len(rest)} figures fit no known layout: the row is cut or has unknown columns")


def _widths(columns: ColumnLayout) -> dict[int, int]:
    """Returns the figures per placement for each possible number of figures in a row."""
    if columns.backends:
        return {3 * len(columns.backends) + 1: 3}
    return _SIDE_WIDTHS | _ONE_SIDE_WIDTHS


def _sides(figures: list[str], columns: ColumnLayout) -> tuple[PlacementText, ...]:
    width = _widths(columns)[len(figures)]
    if columns.backends:  # one wrong column at the end, for all backends
        starts = range(0, 3 * len(columns.backends), 3)
        return tuple(
            PlacementText(figures[start], figures[start + 1], figures[start + 2], figures[-1]) for start in starts
        )
    sides = []
    for start in range(0, len(figures), width):
        words = figures[start : start + width]
        if width in (5, 9):  # copybw precedes the wrong column
            del words[3]
        sides.append(PlacementText(words[0], words[1], words[2], words[3] if len(words) > 3 else "", tuple(words[4:])))
    return tuple(sides)


def share_count(raw: RawRow) -> float | None:
    """Returns size / (count x element bytes): the ranks for collectives with shares. None if unknown."""
    if raw.dtype is None or raw.elements == 0:
        return None
    return raw.size / (raw.elements * ELEMENT_BYTES[raw.dtype])
