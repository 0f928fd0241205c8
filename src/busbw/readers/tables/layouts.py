"""Column layouts of all nccl-tests versions and of tools with similar output.

A row is recognized by its words, not by column offsets: size, count, element type, operator, root, and then three to
nine figures for each of one or two placements. The number of words selects the layout. inference.py decides later by
arithmetic if the words are a valid row.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from busbw.logs.log import Placement
from busbw.readers.tables.quantities import DTYPES, ELEMENT_BYTES, REDOPS, is_value, parse_integer, without_groups

BOTH: tuple[Placement, ...] = ("out_of_place", "in_place")
_DATE = re.compile(r"\d{4}-\d\d-\d\d$")
_CLOCK = re.compile(r"\d\d:\d\d:\d\d(?:\.\d+)?$")
_ALGORITHM = re.compile(r"(?:-|[a-z][a-z_]{0,30})/(?:-|[a-z0-9]{1,10})/(?:-|\d{1,4})$")
_INT = re.compile(r"-?\d{1,18}$")

_COUNT = r"\d{1,18}(?:[,_]\d{3}){0,5}"
"""A size or count. Its digits may be grouped."""
_ROW_START = re.compile(
    rf"(?<![\w.,+-])({_COUNT})\s+({_COUNT})\s+({'|'.join(sorted(DTYPES, key=len, reverse=True))})(?![\w.])"
)
"""Size, count and element type: `1024  256  float`."""


class PlacementText(NamedTuple):
    """Printed figures of one placement. Empty if a column is missing."""

    time: str
    algbw: str
    busbw: str
    wrong: str = ""
    per_iteration: tuple[str, ...] = ()
    """Columns of -I, the statistics of the iterations: i_min, i_max, i_p99, i_cv%."""
    algorithm: str = ""
    """Algorithm, protocol and channels, such as "ring/ll128/4", with "-" for an unknown one."""


class RawRow(NamedTuple):
    """A row as printed, split into its columns."""

    line: int
    """Line number in the log."""
    text: str
    """The whole line, for messages."""
    size: int
    """Bytes."""
    elements: int | None
    """The count column. None if the row has none."""
    dtype: str | None
    redop: str | None
    """None if the row has no operator column or "none" in it."""
    root: int | None
    """None if the row has no root column or a negative number in it."""
    placement_texts: tuple[PlacementText, ...]
    """One entry per placement, or per backend if the log has several side by side."""
    timestamp: str | None
    group: int = 0
    """Group of ranks under NCCL_TESTS_SPLIT. 0 also without groups."""
    variant: str | None = None
    """Backend or kernel, if the log has a column for it."""
    cycle: int = 0
    """Pass (-N) that the row states. 0 also if it states none."""
    figure_fields: Mapping[Placement, dict[str, Any]] = MappingProxyType({})
    """Fields of `Figure` besides the printed figures, such as samples."""


class ColumnLayout(NamedTuple):
    """Columns that the last header names. Rows can have more, such as the operator, which are found in the row."""

    placements: tuple[Placement, ...] = BOTH
    has_type: bool = True
    has_root: bool = False
    """True if the header names a root column."""
    omits_operator: bool = False
    """True if the format omits the operator of every collective, so that its absence is no evidence."""
    omits_root: bool = False
    """True if the format omits the root of every collective, as the JSON and CSV of rccl-tests do."""
    has_cpu_time: bool = False
    """True if the times are CPU times (-C)."""
    unit: str = ""
    """Unit of the times, "us" or "ms"; empty if the header has none."""
    backends: tuple[str, ...] = ()
    """Backends of ubx_bench, which prints them side by side."""
    shows_error: bool = False
    """True if the last column is the largest error, as until 2022, instead of the number of wrong elements."""
    has_one_placement: bool = False
    """True if there is one placement that the log does not name (nccom-test)."""
    one_placement_figures: int = 0
    """Number of figures of a row with one placement, if the header has the columns of exactly one. Otherwise 0.

    A later line may still have the other placement, if the lines are wrapped."""

    @property
    def is_classic(self) -> bool:
        """True if rows have the columns of current nccl-tests. The unit and a root column do not matter."""
        return (
            self.placements == BOTH and self.has_type and not (self.has_cpu_time or self.backends or self.shows_error)
        )


class NotARowError(ValueError):
    """Words that begin like a row are not one; the text has the reason."""


_FIGURES_PER_PLACEMENT = {
    3: 3,  # one placement without the wrong column
    4: 4,  # one placement with it
    6: 3,  # two placements without the wrong column
    8: 4,  # two placements with it
    10: 5,  # with a column copybw before that of wrong elements
    16: 8,  # with the four columns of -I
    18: 9,  # with copybw and -I
}
"""Number of figures of one placement, by the number of figures of a whole row."""


def find_row_start(text: str) -> int:
    """Returns the position of two integers and an element type, where a row begins; -1 if the line has no row."""
    match = _ROW_START.search(text)
    return match.start() if match else -1


def is_incomplete(words: list[str], columns: ColumnLayout) -> bool:
    """True if the words are an incomplete row that a later line may complete.

    Two placements without wrong columns have six figures, but so has a row that is cut. So eight are required.
    """
    after_type = words[3:] if columns.has_type else words[2:]
    word_count = len(_split_operator(after_type)[1])  # figures, and perhaps root and timestamp
    is_nccl_tests = columns.has_type and not columns.has_one_placement and not columns.backends
    has_two_placements = is_nccl_tests and len(columns.placements) == 2
    return word_count < (8 if has_two_placements else 3)


class RowWords(NamedTuple):
    """Words of a row, split before the optional columns at its end."""

    figures: list[str]
    """All words before the optional columns."""
    algorithms: list[str]
    """Columns of --report-algorithms."""
    timestamp: list[str]
    """Date and time of day."""


def split_optional_columns(words: list[str]) -> RowWords:
    """Splits off the optional columns at the end of a row."""
    has_timestamp = len(words) > 2 and _DATE.match(words[-2]) and _CLOCK.match(words[-1])
    timestamp_start = len(words) - 2 if has_timestamp else len(words)
    start = timestamp_start
    while start > 0 and _ALGORITHM.match(words[start - 1]):
        start -= 1
    return RowWords(words[:start], words[start:timestamp_start], words[timestamp_start:])


def is_complete_with_one_placement(words: list[str], columns: ColumnLayout) -> bool:
    """True if the words are a row with all columns of a header that names one placement."""
    before_figures = 5  # size, count, type, operator, root
    figures = split_optional_columns(words).figures[before_figures:]
    return 0 < columns.one_placement_figures == len(figures)


def is_short(raw: RawRow) -> bool:
    """True if a complete row has one placement, or lacks numbers of wrong elements."""
    return len(raw.placement_texts) < len(BOTH) or not raw.placement_texts[-1].wrong


def _split_operator(words: list[str]) -> tuple[str | None, list[str]]:
    """Splits the words after the element type into the operator, if any, and the other words."""
    if words and words[0] in REDOPS:
        return words[0], words[1:]
    return None, words


def parse_row(line: int, text: str, words: list[str], columns: ColumnLayout, group: int) -> RawRow:
    """Parses the words of a row.

    Raises:
        NotARowError: The number of words fits no layout, or a figure is not a number.
    """
    has_type = columns.has_type or (len(words) > 2 and words[2] in DTYPES)
    dtype = DTYPES.get(words[2]) if has_type else None
    redop, remaining = _split_operator(words[3:] if has_type else words[2:])
    remaining, algorithms, timestamp = split_optional_columns(remaining)
    root, figures = _split_root([without_groups(word) for word in remaining], columns)
    size, elements = parse_integer(words[0]), parse_integer(words[1])
    if size is None or elements is None:
        raise NotARowError(f'"{words[0 if size is None else 1][:40]}" is not a whole number')
    for word in figures:
        if not is_value(word):
            raise NotARowError(f'"{word[:40]}" is not a number')
    placement_texts = _split_placements(figures, columns)
    if len(algorithms) == len(placement_texts):
        pairs = zip(placement_texts, algorithms, strict=True)
        placement_texts = tuple(texts._replace(algorithm=algorithm) for texts, algorithm in pairs)
    return RawRow(
        line=line,
        text=text,
        size=size,
        elements=elements,
        dtype=dtype,
        redop=None if redop == "none" else redop,
        root=root,
        placement_texts=placement_texts,
        timestamp=" ".join(timestamp) or None,
        group=group,
    )


def _split_root(words: list[str], columns: ColumnLayout) -> tuple[int | None, list[str]]:
    """Splits the words after the operator into the root, if the row has that column, and the figures."""
    figure_counts = _figures_per_placement(columns).keys()
    may_begin_with_root = columns.has_root and len(words) > 0 and _INT.match(words[0]) is not None
    # With a root column, "0 10.5 1.2 1.3" is a root and three figures, and not four figures.
    if len(words) in figure_counts and not may_begin_with_root:
        return None, words
    if len(words) - 1 in figure_counts and _INT.match(words[0]):
        root = int(words[0])
        return (root if root >= 0 else None), words[1:]
    raise NotARowError(f"{len(words)} figures fit no known layout: the row is cut or has unknown columns")


def _figures_per_placement(columns: ColumnLayout) -> dict[int, int]:
    """Number of figures per placement or backend, by each possible number of figures in a row."""
    if columns.backends:  # one wrong column at the end, for all backends
        return {3 * len(columns.backends) + 1: 3}
    return _FIGURES_PER_PLACEMENT


def _split_placements(figures: list[str], columns: ColumnLayout) -> tuple[PlacementText, ...]:
    width = _figures_per_placement(columns)[len(figures)]
    if columns.backends:
        starts = range(0, 3 * len(columns.backends), 3)
        return tuple(
            PlacementText(figures[start], figures[start + 1], figures[start + 2], figures[-1]) for start in starts
        )
    placements = []
    for start in range(0, len(figures), width):
        words = figures[start : start + width]
        if width in (5, 9):
            del words[3]  # copybw
        placements.append(
            PlacementText(words[0], words[1], words[2], words[3] if len(words) > 3 else "", tuple(words[4:]))
        )
    return tuple(placements)


def placements_of(raw: RawRow, columns: ColumnLayout) -> tuple[Placement, ...]:
    """Returns the placement of each entry of `RawRow.placement_texts`, in the order of the header."""
    if columns.backends or len(columns.placements) != len(raw.placement_texts):
        unstated: Placement = "unstated"
        return (unstated,) * len(raw.placement_texts)
    return columns.placements


def share_count(raw: RawRow) -> float | None:
    """Returns size / (count x element bytes). None if unknown.

    It is the number of ranks if the size covers a share of each rank, as for all_gather. Otherwise it is 1.
    """
    if raw.dtype is None or not raw.elements:
        return None
    return raw.size / (raw.elements * ELEMENT_BYTES[raw.dtype])


def has_whole_shares(size: int, elements: int | None, dtype: str | None) -> bool:
    """True if a size is a multiple of the bytes of its count, as for each collective except alltoallv."""
    return not elements or dtype is None or size % (elements * ELEMENT_BYTES[dtype]) == 0
