"""Tables that fit a width in characters: columns of low weight are dropped first, then the widest text is cut."""

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Text

_GAP = 2
"""Blanks between two columns."""
_MIN_TEXT_WIDTH = 8
"""Text columns are not cut below this width."""


class Cell(NamedTuple):
    """Text with a Rich style such as 'bold red'."""

    text: str
    style: str = ""


class Column(NamedTuple):
    """One column with all its cells."""

    name: str
    cells: Sequence[Cell]
    right: bool = True
    """True for right alignment (numbers). Only left-aligned text may be cut."""
    weight: int = 0
    """If columns do not fit, those with the lowest weight are dropped first. 0 is never dropped."""
    group: str = ""
    """Title above adjacent columns with the same group."""


def fit_columns(columns: Sequence[Column], width: int) -> list[tuple[Column, int]]:
    """Returns the columns to show with their widths. Columns without text are omitted."""
    shown = [column for column in columns if any(cell.text for cell in column.cells)]
    while _total_width(widths := [_full_width(column) for column in shown]) > width:
        lowest_weight = min((column.weight for column in shown if column.weight), default=None)
        if lowest_weight is None:
            break
        shown = [column for column in shown if column.weight != lowest_weight]
    while (excess := _total_width(widths) - width) > 0:
        text_indexes = [index for index, column in enumerate(shown) if not column.right]
        widest = max(text_indexes, key=lambda index: (widths[index], index), default=None)
        if widest is None or widths[widest] <= _MIN_TEXT_WIDTH:
            break
        widths[widest] = max(_MIN_TEXT_WIDTH, widths[widest] - excess)
    return list(zip(shown, widths, strict=True))


def table_lines(columns: Sequence[Column], width: int) -> list[Text]:
    """Returns the table's lines, header first. Lines exceed the width only if the remaining columns cannot fit."""
    layout = fit_columns(columns, width)
    output = []
    if any(column.group for column, _ in layout):
        output.append(Text(_group_line(layout).rstrip(), style="dim"))
    names = [_align(column.name, column, column_width) for column, column_width in layout]
    output.append(Text((" " * _GAP).join(names).rstrip(), style="dim"))
    row_count = max((len(column.cells) for column, _ in layout), default=0)
    for row in range(row_count):
        line = Text()
        for position, (column, column_width) in enumerate(layout):
            cell = column.cells[row]
            line.append(" " * _GAP if position else "")
            line.append(_align(cell.text, column, column_width), style=cell.style)
        line.rstrip()
        output.append(line)
    return output


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
    return max(cell_len(column.name), *(cell_len(cell.text) for cell in column.cells), 0)


def _total_width(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * max(len(widths) - 1, 0)


def _align(text: str, column: Column, width: int) -> str:
    """Pads a text to the width, or cuts it with an ellipsis."""
    padding = " " * (width - cell_len(text))
    if cell_len(text) > width:
        return set_cell_size(text, width - 1) + "…"
    return padding + text if column.right else text + padding
