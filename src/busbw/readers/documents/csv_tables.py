"""Reads CSV with a column of sizes and one of busbw.

rccl-tests writes one line per placement. AWS's converter for nccl-tests logs writes one line per row.

Column names are compared in lower case, with underscores for all other characters.
"""

import csv
import re
from collections.abc import Iterable, Iterator
from typing import Any

from busbw.logs import Placement
from busbw.readers.documents.table_builder import RowFields, TableBuilder
from busbw.readers.lines.source import LogSource
from busbw.readers.tables.events import Event, UserClaims
from busbw.readers.tables.facts import TableFacts
from busbw.readers.tables.layouts import PlacementText

_OTHER_CHARACTERS = re.compile(r"[^a-z0-9_]+")
SIZE_COLUMNS = ("size", "size_bytes", "sizebytes", "bytes")
"""Names of the size column."""
_AWS_PREFIXES: dict[Placement, str] = {"out_of_place": "oop_", "in_place": "ip_"}
"""Prefixes of the column names of each placement in AWS's format."""
_FIGURE_COLUMNS = {
    "time": ("time", "time_us", "timeus"),
    "algbw": ("algbw", "algbw_gbps", "algbw_gb_s", "algbw_gbs"),
    "busbw": ("busbw", "busbw_gbps", "busbw_gb_s", "busbw_gbs"),
    "wrong": ("wrong", "errors", "wrong_elements"),
}
"""Column names of each figure."""
_FIGURE_COLUMNS_BY_PREFIX = {
    prefix: [tuple(prefix + name for name in names) for names in _FIGURE_COLUMNS.values()]
    for prefix in ("", *_AWS_PREFIXES.values())
}
"""Column names of the time, algbw, busbw and wrong elements, by the prefix of the placement."""
_OTHER_COLUMNS = {
    "name": ("name", "collective", "test"),
    "elements": ("count", "count_elems"),
    "dtype": ("type", "dtype", "data_type", "datatype"),
    "redop": ("redop", "operation", "op"),
    "root": ("root",),
    "cycle": ("numcycle", "cycle"),
}
"""Column names of the other fields of `RowFields`."""


def recognizes(beginning: str) -> bool:
    """True if the first line has comma-separated names that include a size and a bus bandwidth."""
    header = _column_names(beginning.partition("\n")[0])
    return bool(set(header) & set(SIZE_COLUMNS)) and any(name.endswith(_FIGURE_COLUMNS["busbw"]) for name in header)


def _column_names(line: str) -> list[str]:
    if "," not in line:
        return []
    try:
        words = next(csv.reader([line]), [])
    except csv.Error:
        return []
    return [column_name(word) for word in words]


def column_name(word: str) -> str:
    """Returns a printed name in lower case, with underscores for all other characters."""
    return _OTHER_CHARACTERS.sub("_", word.strip("\ufeff ").lower()).strip("_")


def are_column_names(names: list[str]) -> bool:
    """True if all names are those of columns of rows with one placement."""
    return set(names) <= {
        *SIZE_COLUMNS,
        *(name for names in (*_FIGURE_COLUMNS.values(), *_OTHER_COLUMNS.values()) for name in names),
    }


def stream(source: LogSource, claims: UserClaims) -> Iterator[Event]:
    """Yields the tables and refused rows of the file."""
    lines = _decode_lines(source.lines())
    header = _column_names(next(lines, ""))
    is_aws = any(name.startswith("oop_") for name in header)
    tables = TableBuilder(_name_format(header, is_aws), TableFacts(), claims, source.name)
    for line_number, line in enumerate(lines, start=2):
        text = line.strip()
        if text:
            values = dict(zip(header, map(str.strip, _split_cells(line)), strict=False))
            yield from tables.add(make_row_fields(line_number, text, values, is_aws))
    yield from tables.end_table()


def _name_format(header: list[str], is_aws: bool) -> str:
    if is_aws:
        return "nccl-tests CSV (AWS)"
    is_rccl = "numcycle" in header or "inplace" in header
    return "rccl-tests CSV" if is_rccl else "CSV"


def _split_cells(line: str) -> list[str]:
    if '"' not in line and "\r" not in line:  # faster; a cell may be longer
        return line.split(",")
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return []


def _decode_lines(lines: Iterable[bytes]) -> Iterator[str]:
    for line in lines:
        yield line.decode("utf-8", errors="replace").replace("\0", "")


def make_row_fields(line_number: int, line: str, values: dict[str, str], is_aws: bool) -> RowFields:
    """Returns the row of a line. `values` has the cells by column name."""
    other_values: dict[str, Any] = {field: _first_value(values, names) for field, names in _OTHER_COLUMNS.items()}
    ranks = _first_value(values, ("ranks",)) or _first_value(values, ("gpus",))
    prefixes: dict[Placement, str] = _AWS_PREFIXES if is_aws else {_parse_placement(values): ""}
    return RowFields(
        line=line_number,
        format_text=lambda _placement: line,
        size=_first_value(values, SIZE_COLUMNS),
        figure_texts={placement: _figure_texts(values, prefix) for placement, prefix in prefixes.items()},
        ranks=int(ranks) if ranks.isdecimal() and len(ranks) < 8 else None,
        **other_values,
    )


def _figure_texts(values: dict[str, str], prefix: str) -> PlacementText:
    """Returns the figures in the columns with names that begin with the prefix."""
    time, algbw, busbw, wrong = (_first_value(values, names) for names in _FIGURE_COLUMNS_BY_PREFIX[prefix])
    return PlacementText(time or "N/A", algbw or "N/A", busbw or "N/A", wrong)


def _parse_placement(values: dict[str, str]) -> Placement:
    text = _first_value(values, ("inplace", "in_place", "placement")).lower()
    if text in ("1", "true", "in_place"):
        return "in_place"
    return "out_of_place" if text in ("0", "false", "out_of_place") else "unstated"


def _first_value(values: dict[str, str], names: tuple[str, ...]) -> str:
    """First value that is not empty in the columns with these names. Empty if all are empty or missing."""
    for name in names:  # faster than next() with a generator
        if value := values.get(name):
            return value
    return ""
