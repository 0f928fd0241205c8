"""Tables that fit a width in characters: columns of low weight are dropped first, then the widest text is wrapped.

`rich.table` has no titles above groups of columns, drops no columns, and takes 20 times as long for thousands of rows.
"""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

_GAP = 2
"""Blanks between two columns."""
_MIN_TEXT_WIDTH = 8
"""Text columns do not become narrower than this."""


class Cell(NamedTuple):
    """Text with a Rich style such as 'bold red'."""

    text: str
    style: str = ""


class Column(NamedTuple):
    """One column with all its cells."""

    name: str
    cells: Sequence[object]
    """Cells, or values to show as text. None: an empty cell."""
    is_number: bool = True
    """True: the cells are aligned at the right and never wrapped. False: the cells are text that may be wrapped."""
    weight: int = 0
    """If columns do not fit, those with the lowest weight are dropped first. 0 is never dropped."""
    group: str = ""
    """Title above adjacent columns with the same group."""


def as_cell(value: object) -> Cell:
    """Returns the cell of a value in `Column.cells`."""
    if isinstance(value, Cell):
        return value
    return Cell("" if value is None else str(value))


def fit_columns(columns: Sequence[Column], width: int) -> list[tuple[Column, int]]:
    """Returns the columns to show with their widths. Columns without text are omitted."""
    with_text = [column for column in columns if any(as_cell(cell).text for cell in column.cells)]
    layout = _drop_columns([(column, _full_width(column)) for column in with_text], width)
    widths = [column_width for _, column_width in layout]
    while (excess := _total_width(widths) - width) > 0:
        text_indexes = [index for index, (column, _) in enumerate(layout) if not column.is_number]
        widest = max(text_indexes, key=lambda index: (widths[index], index), default=None)
        if widest is None or widths[widest] <= _MIN_TEXT_WIDTH:
            break
        widths[widest] = max(_MIN_TEXT_WIDTH, widths[widest] - excess)
    return [(column, column_width) for (column, _), column_width in zip(layout, widths, strict=True)]


def _drop_columns(layout: list[tuple[Column, int]], width: int) -> list[tuple[Column, int]]:
    """Drops the columns of the lowest weight until the others fit, or until only columns of weight 0 are left."""
    while _total_width([column_width for _, column_width in layout]) > width:
        lowest_weight = min((column.weight for column, _ in layout if column.weight), default=None)
        if lowest_weight is None:
            break
        layout = [(column, column_width) for column, column_width in layout if column.weight != lowest_weight]
    return layout


def table_lines(columns: Sequence[Column], width: int) -> list[Text]:
    """Returns the table's lines, header first. Lines exceed the width only if the remaining columns cannot fit."""
    layout = fit_columns(columns, width)
    output: list[Text] = []
    if any(column.group for column, _ in layout):
        output.append(Text(_group_line(layout).rstrip(), style="dim"))
    output += _row_lines([Cell(column.name, "dim") for column, _ in layout], layout)
    for cells in zip(*(map(as_cell, column.cells) for column, _ in layout), strict=True):
        output += _row_lines(cells, layout)
    return output


def _row_lines(cells: Sequence[Cell], layout: Sequence[tuple[Column, int]]) -> Iterator[Text]:
    """Yields the lines of a row: more than one if the text of a cell is wrapped."""
    wrapped = [_wrap(cell.text, column_width) for cell, (_, column_width) in zip(cells, layout, strict=True)]
    for texts in zip_longest(*wrapped, fillvalue=""):
        line = Text()
        for text, cell, (column, column_width) in zip(texts, cells, layout, strict=True):
            line.append(" " * _GAP if line else "")
            line.append(_align(text, column, column_width), style=cell.style)
        line.rstrip()
        yield line


def _group_line(layout: Sequence[tuple[Column, int]]) -> str:
    """Returns the line above the header: each group's title, centered above its columns."""
    text, offset = "", 0
    for index, (column, column_width) in enumerate(layout):
        is_first_of_group = index == 0 or layout[index - 1][0].group != column.group
        if column.group and is_first_of_group:
            group_widths = [other_width for other, other_width in layout[index:] if other.group == column.group]
            text = text.ljust(offset) + column.group.center(_total_width(group_widths)).rstrip()
        offset += column_width + _GAP
    return text


def _full_width(column: Column) -> int:
    return max(map(cell_len, [column.name, *(as_cell(cell).text for cell in column.cells)]))


def _total_width(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * max(len(widths) - 1, 0)


def _align(text: str, column: Column, width: int) -> str:
    """Pads a text to the width."""
    padding = " " * (width - cell_len(text))
    return padding + text if column.is_number else text + padding


def _wrap(text: str, width: int) -> list[str]:
    """Splits a text into lines that fit the width."""
    if cell_len(text) <= width:
        return [text]
    return [line.plain.rstrip() for line in Text(text).wrap(Console(), width)]
