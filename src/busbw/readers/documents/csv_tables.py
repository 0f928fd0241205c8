"""Reads CSV with a column of sizes and one of busbw.

rccl-tests writes one line per placement. AWS's converter for nccl-tests logs writes one line per row.
"""

import csv
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from busbw.logs.log import Placement, Refusal
from busbw.readers.documents.csv_columns import (
    AWS_PREFIXES,
    FIGURE_COLUMNS,
    OTHER_COLUMNS,
    PLACEMENT_COLUMNS,
    PLACEMENT_WORDS,
    RANK_COLUMNS,
    SIZE_COLUMNS,
    column_name,
    time_unit,
)
from busbw.readers.documents.table_builder import RowFields, TableBuilder
from busbw.readers.documents.uniform_csv_rows import CsvLine, UniformCsvParser
from busbw.readers.lines.source import LogSource
from busbw.readers.tables.events import Event, UserClaims
from busbw.readers.tables.facts import TableFacts
from busbw.readers.tables.layouts import ColumnLayout, PlacementText

_FIGURE_COLUMNS_BY_PREFIX = {
    prefix: [tuple(prefix + name for name in names) for names in FIGURE_COLUMNS.values()]
    for prefix in ("", *AWS_PREFIXES.values())
}
"""Column names of the time, algbw, busbw and wrong elements, by the prefix of the placement."""


def recognizes(beginning: str) -> bool:
    """True if the first line has comma-separated names that include a size and a bus bandwidth."""
    header = _column_names(beginning.partition("\n")[0])
    return bool(set(header) & set(SIZE_COLUMNS)) and any(name.endswith(FIGURE_COLUMNS["busbw"]) for name in header)


def _column_names(line: str) -> list[str]:
    if "," not in line:
        return []
    try:
        words = next(csv.reader([line]), [])
    except csv.Error:
        return []
    return [column_name(word) for word in words]


def stream(source: LogSource, claims: UserClaims) -> Iterator[Event]:
    """Yields the tables and refused rows of the file."""
    blocks = _split_into_lines(source.blocks())
    (header_line, *first_lines) = next(blocks)
    header = _column_names(header_line.text)
    while header and not header[-1]:  # a comma at the end
        header.pop()
    is_aws = any(name.startswith("oop_") for name in header)
    facts = TableFacts(columns=ColumnLayout(unit=time_unit(header)))
    tables = TableBuilder(_name_format(header, is_aws), facts, claims, source.name)

    def make_fields(line: CsvLine) -> RowFields:
        values = dict(zip(header, map(str.strip, _split_cells(line.text)), strict=False))
        return make_row_fields(line.number, line.text.strip(), values, is_aws)

    def add(line: CsvLine) -> Iterator[Event]:
        cells = _split_cells(line.text)
        if len(cells) < len(header) or any(cell.strip() for cell in cells[len(header) :]):
            reason = f"the row has {len(cells)} columns, the header has {len(header)}"
            yield Refusal(line=line.number, text=line.text.strip()[:300], reason=reason)
            return
        yield from tables.add(make_fields(line))

    parser = UniformCsvParser(header, make_fields, is_aws=is_aws)
    for block in chain((first_lines,), blocks):
        for part, uniform_rows in parser.split(block):
            # If the first line has the other placement of the row before, all lines are added one by one.
            if uniform_rows and not tables.is_continued_by(first_row := make_fields(part[0])):
                yield from tables.add_uniform_rows(uniform_rows, first_row)
            else:
                for line in part:
                    yield from add(line)
    yield from tables.end_table()


def _name_format(header: list[str], is_aws: bool) -> str:
    if is_aws:
        return "nccl-tests CSV (AWS)"
    is_rccl = "numcycle" in header or "inplace" in header
    return "rccl-tests CSV" if is_rccl else "CSV"


def _split_cells(line: str) -> list[str]:
    if '"' not in line and "\r" not in line:  # faster, and without csv's limit for the length of a cell
        return line.split(",")
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return []


def _split_into_lines(blocks: Iterable[bytes]) -> Iterator[list[CsvLine]]:
    """Yields the lines of each block without empty ones."""
    number = 1
    for block in blocks:
        lines = block.decode("utf-8", errors="replace").replace("\0", "").removesuffix("\n").split("\n")
        yield [CsvLine(number, line.rstrip("\r")) for number, line in enumerate(lines, start=number) if line.strip()]
        number += len(lines)


def make_row_fields(line_number: int, line: str, values: dict[str, str], is_aws: bool) -> RowFields:
    """Returns the row of a line. `values` has the cells by column name."""
    other_values: dict[str, Any] = {field: _first_value(values, names) for field, names in OTHER_COLUMNS.items()}
    ranks = _first_value(values, RANK_COLUMNS)
    prefixes: dict[Placement, str] = AWS_PREFIXES if is_aws else {_parse_placement(values): ""}
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
    word = _first_value(values, PLACEMENT_COLUMNS).lower()
    return next((placement for placement, words in PLACEMENT_WORDS.items() if word in words), "unstated")


def _first_value(values: dict[str, str], names: tuple[str, ...]) -> str:
    """First value that is not empty in the columns with these names. Empty if all are empty or missing."""
    for name in names:  # faster than next() with a generator
        if value := values.get(name):
            return value
    return ""
