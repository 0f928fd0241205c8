"""Comma-separated values: one line per measurement, units in the column names, empty cells for unknown values."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, BinaryIO

from busbw.exporters.flat import COLUMNS, column_blocks, column_types
from busbw.judge import JudgedConfiguration
from busbw.logs import Log

SUFFIX = ".csv"
HAS_VERDICTS = False

_FORMULA_STARTS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters of a formula. The last four are the full-width forms of the others, for some spreadsheets."""
_LINE_END = "\r\n"
_SKIPPED_STARTS = ("\t", "\r", "\n")
"""Characters that a spreadsheet may skip before a formula."""


def write(logs: Sequence[Log], out: BinaryIO, verdicts: Sequence[JudgedConfiguration] = ()) -> None:
    """Writes CSV by RFC 4180 in UTF-8, with a header. `verdicts` are ignored, as `HAS_VERDICTS` says."""
    text = io.TextIOWrapper(out, encoding="utf-8", errors="replace", newline="")
    text.write(",".join(COLUMNS) + _LINE_END)
    kinds = column_types()
    for columns in column_blocks(logs):
        text.write(_lines(columns, kinds))
    text.flush()
    text.detach()


def _lines(columns: Mapping[str, Sequence[Any]], kinds: Mapping[str, type]) -> str:
    """Returns the lines of a block of measurements.

    Most columns have the same value in all lines of a block, so their cells are made once and joined.
    """
    line_count = len(columns["line"])
    cells: list[Iterable[str]] = []
    for is_shared, group in groupby(columns, lambda name: _is_shared(columns[name], kinds[name])):
        if is_shared:
            cells.append([",".join(_cell(columns[name][0]) for name in group)] * line_count)
        else:
            cells += [
                map(_cell if None in columns[name] or kinds[name] is str else repr, columns[name]) for name in group
            ]
    return "".join([f"{line}{_LINE_END}" for line in map(",".join, zip(*cells, strict=True))])


def _is_shared(values: Sequence[Any], kind: type) -> bool:
    """True if all values have the same text. A float may equal an integer or a zero with another text."""
    first = values[0]
    return (kind is not float or first is None) and values.count(first) == len(values)


def _cell(value: str | float | None) -> str:
    """Returns the text of a cell. Empty for an unknown value."""
    if value is None:
        return ""
    return _text_cell(value) if isinstance(value, str) else repr(value)


@lru_cache(maxsize=256)  # most texts repeat in many lines
def _text_cell(text: str) -> str:
    """Returns a cell with text, quoted if necessary."""
    line = io.StringIO(newline="")
    csv.writer(line, lineterminator=_LINE_END).writerow([_escape_formula(text), None])
    return line.getvalue().removesuffix("," + _LINE_END)


def _escape_formula(text: str) -> str:
    """Escapes text that a spreadsheet would run as a formula. Logs come from untrusted sources."""
    is_formula = text.lstrip().startswith(_FORMULA_STARTS) or text.startswith(_SKIPPED_STARTS)
    return f"'{text}" if is_formula else text
