"""Comma-separated values: one line per measurement, units in the column names, empty cells for unknown values."""

import csv
import io
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, BinaryIO

from busbw.exporters.flat import COLUMNS, column_blocks, column_types, joined_texts
from busbw.judge import JudgedConfiguration
from busbw.logs.log import Log

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
    for columns in column_blocks(logs):
        text.writelines(line + _LINE_END for line in joined_texts(columns, COLUMNS, _cells, ","))
    text.flush()
    text.detach()


def _cells(name: str, values: Sequence[Any]) -> Iterable[str]:
    """Returns the cells of a column."""
    has_only_numbers = column_types()[name] is not str and None not in values
    return map(repr if has_only_numbers else _cell, values)


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
