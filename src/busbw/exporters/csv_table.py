"""Comma-separated values: a line per measurement, the unit in the column's name, nothing for what is not known."""

import csv
import io
from collections.abc import Sequence
from typing import BinaryIO

from msgspec.structs import astuple

from busbw.exporters.flat import COLUMNS, flat_rows
from busbw.logs import Log

SUFFIX = ".csv"

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def write(logs: Sequence[Log], out: BinaryIO) -> None:
    """RFC 4180, in UTF-8, with a header."""
    text = io.TextIOWrapper(out, encoding="utf-8", errors="replace", newline="")
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for row in flat_rows(logs):
        writer.writerow([_harmless(value) for value in astuple(row)])
    text.flush()
    text.detach()


def _harmless(value: object) -> object:
    """A spreadsheet must not take text out of somebody's log for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_STARTS) else value
