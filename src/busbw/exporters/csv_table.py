"""Comma-separated values: one line per measurement, units in the column names, empty cells for unknown values."""

import csv
import io
from collections.abc import Sequence
from functools import lru_cache
from typing import BinaryIO

from busbw.exporters.flat import COLUMNS, column_blocks, column_types
from busbw.judge import JudgedConfiguration
from busbw.logs import Log

SUFFIX = ".csv"
HAS_VERDICTS = False

_FORMULA_STARTS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters of a formula. The last four are the full-width forms of the others, for some spreadsheets."""
_SKIPPED_STARTS = ("\t", "\r", "\n")
"""Characters that a spreadsheet may skip before a formula."""


def write(logs: Sequence[Log], out: BinaryIO, verdicts: Sequence[JudgedConfiguration] = ()) -> None:
    """Writes CSV by RFC 4180 in UTF-8, with a header. `verdicts` are ignored, as `HAS_VERDICTS` says."""
    text = io.TextIOWrapper(out, encoding="utf-8", errors="replace", newline="")
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    text_columns = [name for name, kind in column_types().items() if kind is str]
    for columns in column_blocks(logs):
        escaped = {name: list(map(_escape_formula, columns[name])) for name in text_columns}
        writer.writerows(zip(*(columns | escaped).values(), strict=True))
    text.flush()
    text.detach()


@lru_cache(maxsize=256)  # most texts repeat in many lines
def _escape_formula(text: str | None) -> str | None:
    """Escapes text that a spreadsheet would run as a formula. Logs come from untrusted sources."""
    if text is None:
        return None
    is_formula = text.lstrip().startswith(_FORMULA_STARTS) or text.startswith(_SKIPPED_STARTS)
    return f"'{text}" if is_formula else text
