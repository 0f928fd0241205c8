"""Parses the lines above the rows of a table that name columns, placements or units."""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

from busbw.logs.log import Placement
from busbw.readers.tables.facts import TableFacts
from busbw.readers.tables.layouts import BOTH

_PLACEMENTS = re.compile(
    r"[#\s]*(in-place|out-of-place)(?:\s*\([^()]*\))?\s+(in-place|out-of-place)(?:\s*\([^()]*\))?\s*$"
)
_ONLY_IN_PLACE = re.compile(r"#\s*in-place\s*$")
"""rccl-tests' line above the columns if it measures only in place (-O 0). Wrapped or cut lines never look so."""
_ONLY_OUT_OF_PLACE = re.compile(r"#\s*out-of-place\s*$")
"""Line above the columns that is cut or wrapped. A program with one placement names only in-place."""
_ONE_PLACEMENT = ("time", "cputime"), ("algbw",), ("busbw",), ("#wrong", "error", "res")
"""Names of the columns of one placement."""

AddContent = Callable[[TableFacts], None]
"""Adds the content of a line to the facts of its table."""


def split_header(text: str) -> list[str]:
    """Splits a column header into lower-case words. A unit in parentheses is a word of its own."""
    return text.lower().replace("(", " (").split()


@lru_cache(maxsize=64)
def is_column_header(text: str) -> bool:
    """True if a line names the columns of a table."""
    if "algbw" not in text.lower():
        return False
    words = split_header(text)
    return "algbw" in words and "busbw" in words and ("size" in words or "bytes" in words)


def begins_columns(text: str) -> bool:
    """True if a line begins the header above rows: it names columns, or the placements above them."""
    return is_column_header(text) or _parse_placements(text) is not None


def is_units_line(text: str) -> bool:
    """True if a line has the units of columns, below their names."""
    return "GB/s)" in text and not is_column_header(text) and bool(_parse_units(split_header(text)))


def _parse_placements(text: str) -> tuple[Placement, ...] | None:
    """Returns the placements that a line above the column header names. None for any other line."""
    if _ONLY_IN_PLACE.match(text):
        return ("in_place",)
    match = _PLACEMENTS.match(text)
    if match is None or match[1] == match[2]:
        return None
    return BOTH if match[1] == "out-of-place" else ("in_place", "out_of_place")


def parse_column_line(text: str) -> AddContent | None:
    """Parses a line above the rows that names placements, columns or units. None for any other line."""
    if not ("algbw" in text or "-place" in text or "GB/s)" in text):
        return None
    if is_column_header(text):
        return partial(_add_column_names, tuple(split_header(text)))
    if named := _parse_placements(text):
        return partial(_name_placements, named)
    if _ONLY_OUT_OF_PLACE.match(text):
        return _add_cut_names
    unit = _parse_units(split_header(text))
    return partial(_add_unit, unit) if unit else None


def _add_cut_names(facts: TableFacts) -> None:
    facts.names_are_cut = True


def _name_placements(placements: tuple[Placement, ...], facts: TableFacts) -> None:
    facts.named_placements = placements


def _add_unit(unit: str, facts: TableFacts) -> None:
    facts.columns = facts.columns._replace(unit=unit)


def _add_column_names(words: tuple[str, ...], facts: TableFacts) -> None:
    facts.has_header = True
    placement_count = words.count("algbw")
    placements = facts.named_placements or BOTH
    is_named = placement_count == len(placements)
    # Programs that print an operator and a root print two placements, unless a line names the only one. Rows with
    # exactly the columns of the header are accepted if no rest follows (`ColumnLayout.one_placement_figures`).
    is_cut = "redop" in words and "root" in words and placement_count < len(placements)
    has_one_placement = placement_count == 1 and not is_cut and not is_named
    if not is_named:
        placements = BOTH
    if has_one_placement:
        placements = ("unstated",)
    facts.columns = facts.columns._replace(
        has_type="type" in words,
        has_root="root" in words,
        has_cpu_time="cputime" in words,
        shows_error="error" in words or "res" in words,
        has_one_placement=has_one_placement,
        placements=placements,
        unit=time_unit(words),
        one_placement_figures=_count_figures_of_one_placement(words) if is_cut and not facts.names_are_cut else 0,
    )
    facts.named_placements = None
    facts.names_are_cut = False
    # Backends side by side share one wrong column at the end. If a header of two placements is cut, its only wrong
    # column is not at the end.
    has_backends = placement_count > 1 and words.count("#wrong") == 1 and words[-1] == "#wrong"
    if has_backends:
        backends = tuple(f"backend {number}" for number in range(1, placement_count + 1))
        facts.columns = facts.columns._replace(backends=backends)


def _count_figures_of_one_placement(words: Sequence[str]) -> int:
    """Returns the number of columns behind the root if they are those of one whole placement. Otherwise 0."""
    names = [word for word in words[words.index("root") + 1 :] if not word.startswith("(")]
    is_whole = len(names) >= 3 and all(name in allowed for name, allowed in zip(names, _ONE_PLACEMENT, strict=False))
    return len(names) if is_whole and len(names) <= len(_ONE_PLACEMENT) else 0


def _parse_units(header_words: Sequence[str]) -> str:
    return time_unit(header_words) if "(gb/s)" in header_words else ""


def time_unit(header_words: Sequence[str]) -> str:
    """Unit of the times in a header. Empty if it names none."""
    if "(us)" in header_words:
        return "us"
    return "ms" if "(ms)" in header_words else ""
