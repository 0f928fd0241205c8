"""Fast parser for uniform rows of CSV: both placements checked and right, in one line or in two consecutive ones.

They are parsed many at once, in less time than one by one; tables/uniform_rows.py has details. One regular expression,
made from the header, finds the rows of a block.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from busbw.readers.documents.csv_columns import (
    AWS_PREFIXES,
    FIGURE_COLUMNS,
    OTHER_COLUMNS,
    PLACEMENT_COLUMNS,
    PLACEMENT_WORDS,
    RANK_COLUMNS,
    SIZE_COLUMNS,
    find_columns,
)
from busbw.readers.documents.table_builder import RowFields, join_placements, make_raw_row
from busbw.readers.tables.layouts import BOTH, RawRow
from busbw.readers.tables.quantities import DTYPES
from busbw.readers.tables.uniform_rows import BANDWIDTH, COUNT, DTYPE, REDOP, ROOT, UniformRows, make_figures

_CELL = r'[^,"\r\n]*'
_NAME = r'\w[^,"\r\n]*'
_OTHER_LINE = r"[^\n]*\n"
_MIN_ROWS = 8
"""Minimum number of consecutive uniform rows that are faster together than one by one."""
_SHARED_COLUMNS = {"size": SIZE_COLUMNS, "ranks": RANK_COLUMNS, **OTHER_COLUMNS}
"""Column names of the fields that both placements of a row share."""
_SHARED_PATTERNS = {
    "size": COUNT,
    "ranks": _NAME,
    "name": _NAME,
    "elements": COUNT,
    "dtype": DTYPE,
    "redop": REDOP,
    "root": ROOT,
    "cycle": r"\d{1,9}",
}


class CsvLine(NamedTuple):
    """A line without its end."""

    number: int
    text: str


class UniformCsvParser:
    """Finds the uniform rows among the lines of a file.

    `make_fields` parses a line on its own. `is_aws`: each line has both placements.
    """

    def __init__(self, header: list[str], make_fields: Callable[[CsvLine], RowFields], *, is_aws: bool) -> None:
        row_pattern = _row_pattern(header, is_aws=is_aws)
        self._pattern = re.compile(f"{row_pattern}|{_OTHER_LINE}", re.ASCII) if row_pattern else None
        self._lines_per_row = 1 if is_aws else len(BOTH)
        self._make_fields = make_fields

    def split(self, lines: list[CsvLine]) -> Iterator[tuple[list[CsvLine], UniformRows | None]]:
        """Yields consecutive lines, with their rows if they are uniform rows of one table."""
        if self._pattern is None:
            yield lines, None
            return
        groups = self._pattern.groupindex
        marker = groups["wrong_out_of_place"] - 1  # index of a text: "0" in a uniform row, empty in any other line
        # Consecutive rows with equal values of these groups belong together. Other names or ranks begin another table.
        key_groups = [marker, *(groups[name] - 1 for name in ("name", "ranks") if name in groups)]
        end = 0
        for _, same_key in groupby(self._find_rows(lines), itemgetter(*key_groups)):
            found = list(same_key)
            is_uniform = bool(found[0][marker])
            start = end
            end += len(found) * (self._lines_per_row if is_uniform else 1)
            if is_uniform and len(found) >= _MIN_ROWS:
                # A line without a placement may follow and continue the last row. Therefore the last row is left to the
                # parser of single lines. No line continues a row of AWS, but the last one is treated alike.
                last_start = end - self._lines_per_row
                uniform_lines = lines[start:last_start]
                yield uniform_lines, self._make_rows(uniform_lines, found[:-1])
                start = last_start
            yield lines[start:end], None

    def parse(self, lines: list[CsvLine]) -> UniformRows:
        """Parses lines that are uniform rows."""
        return self._make_rows(lines, self._find_rows(lines))

    def parse_single_row(self, lines: Iterable[CsvLine]) -> RawRow:
        """Parses the lines of a row one by one."""
        return make_raw_row(reduce(join_placements, map(self._make_fields, lines)))

    def _find_rows(self, lines: list[CsvLine]) -> list[tuple[str, ...]]:
        """Returns the groups of each uniform row, and empty ones for each other line."""
        assert self._pattern is not None
        return self._pattern.findall("".join([f"{line.text}\n" for line in lines]))

    def _make_rows(self, lines: list[CsvLine], found: list[tuple[str, ...]]) -> UniformRows:
        assert self._pattern is not None
        columns = dict(zip(self._pattern.groupindex, zip(*found, strict=True), strict=True))
        unknown = (None,) * len(found)
        out_of_place, in_place = (
            make_figures(*(columns[f"{field}_{placement}"] for field in ("time", "decimals", "algbw", "busbw")))
            for placement in BOTH
        )
        # The first lines of all rows, and then their second lines, if any.
        lines_by_position = [lines[position :: self._lines_per_row] for position in range(self._lines_per_row)]
        return _UniformCsvRows(
            lines=[line.number for line in lines_by_position[0]],
            sizes_bytes=list(map(int, columns["size"])),
            counts=list(map(int, columns["elements"])) if "elements" in columns else list(unknown),
            dtypes=[DTYPES[dtype] for dtype in columns["dtype"]],
            redops=[None if redop == "none" else redop for redop in columns.get("redop", unknown)],
            roots=[None if root in (None, "-1") else int(root) for root in columns.get("root", unknown)],
            cycles=list(map(int, columns["cycle"])) if "cycle" in columns else [0] * len(found),
            out_of_place=out_of_place,
            in_place=in_place,
            busbw_texts=columns["busbw_out_of_place"],
            row_lines=list(zip(*lines_by_position, strict=True)),
            parser=self,
        )


class _UniformCsvRows(UniformRows, frozen=True, gc=False):
    """Uniform rows of a file."""

    row_lines: list[tuple[CsvLine, ...]]
    """Lines of each row."""
    parser: UniformCsvParser

    def _parse_part(self, part: slice) -> UniformRows:
        return self.parser.parse([line for lines in self.row_lines[part] for line in lines])

    def raw_row(self, index: int) -> RawRow:
        return self.parser.parse_single_row(self.row_lines[index])


def _row_pattern(header: list[str], *, is_aws: bool) -> str | None:
    """Returns the pattern of the lines of a uniform row. None if the file lacks a column of such rows."""
    shared_columns = find_columns(header, _SHARED_COLUMNS)
    placement_columns = find_columns(header, {"placement": PLACEMENT_COLUMNS})
    if not {"size", "dtype"} <= shared_columns.keys() or not (is_aws or placement_columns):
        return None
    # Patterns of the cells of a line, by column. A column without a pattern has any plain cell.
    cells = {column: f"(?P<{field}>{_SHARED_PATTERNS[field]})" for field, column in shared_columns.items()}
    equal_cells = {column: f"(?P={field})" for field, column in shared_columns.items()}
    # A line of AWS has both placements. Otherwise, the second line of a row repeats the shared cells of the first.
    cells_of_placements = (cells, cells if is_aws else equal_cells)
    for placement, cells_of_placement in zip(BOTH, cells_of_placements, strict=True):
        figure_columns = find_columns(header, FIGURE_COLUMNS, AWS_PREFIXES[placement] if is_aws else "")
        if figure_columns.keys() != FIGURE_COLUMNS.keys():
            return None
        figure_patterns = {
            "time": rf"\d{{1,15}}(?P<decimals_{placement}>\.\d\d?)?",
            "algbw": BANDWIDTH,
            "busbw": BANDWIDTH,
            "wrong": "0",
        }
        for field, column in figure_columns.items():
            cells_of_placement[column] = f"(?P<{field}_{placement}>{figure_patterns[field]})"
        if not is_aws:
            cells_of_placement[placement_columns["placement"]] = f"(?i:{'|'.join(PLACEMENT_WORDS[placement])})"
    lines = [cells] if is_aws else [cells, equal_cells]
    return "".join(",".join(line.get(column, _CELL) for column in range(len(header))) + r"\n" for line in lines)
