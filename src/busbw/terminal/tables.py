"""Tables that fit a width: columns of low weight are dropped first, then the widest text is cut."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Text

_GAP = 2
_MIN_TEXT = 8


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


def fitted(columns: Sequence[Column], width: int) -> list[tuple[Column, int]]:
    """Returns the columns to show with their widths. Columns without text are omitted."""
    shown = [column for column in columns if any(cell.text for cell in column.cells)]
    while _total(widths := [_width(column) for column in shown]) > width:
        lightest = min((column for column in shown if column.weight), key=lambda column: column.weight, default=None)
        if lightest is None:
            break
        shown = [column for column in shown if column.weight != lightest.weight]
    while _total(widths) > width:
        texts = [(size, number) for number, size in enumerate(widths) if not shown[number].right]
        size, number = max(texts, default=(0, 0))
        if size <= _MIN_TEXT:
            break
        widths[number] = max(_MIN_TEXT, size - (_total(widths) - width))
    return list(zip(shown, widths, strict=True))


def lines(columns: Sequence[Column], width: int) -> list[Text]:
    """Returns the table's lines, header first. Lines exceed the width only if the remaining columns cannot fit."""
    layout = fitted(columns, width)
    output = []
    if any(column.group for column, _ in layout):
        output.append(Text(_groups(layout).rstrip(), style="dim"))
    output.append(Text(_joined([_aligned(column.name, column, size) for column, size in layout]), style="dim"))
    for number in range(max((len(column.cells) for column, _ in layout), default=0)):
        line = Text()
        for position, (column, size) in enumerate(layout):
            cell = column.cells[number]
            line.append(" " * _GAP if position else "")
            line.append(_aligned(cell.text, column, size), style=cell.style)
        line.rstrip()
        output.append(line)
    return output


def _groups(layout: Sequence[tuple[Column, int]]) -> str:
    text, offset = "", 0
    for number, (column, size) in enumerate(layout):
        first = number == 0 or layout[number - 1][0].group != column.group
        if column.group and first:
            span = [size for other, size in layout[number:] if other.group == column.group]
            text = text.ljust(offset) + column.group.center(_total(span)).rstrip()
        offset += size + _GAP
    return text


def _width(column: Column) -> int:
    return max(cell_len(column.name), *(cell_len(cell.text) for cell in column.cells), 0)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * max(len(widths) - 1, 0)


def _aligned(text: str, column: Column, size: int) -> str:
    length = cell_len(text)
    if length > size:
        return set_cell_size(text, size - 1) + "…"
    return " " * (size - length) + text if column.right else text + " " * (size - length)


def _joined(texts: Iterable[str]) -> str:
    return (" " * _GAP).join(texts).rstrip()
