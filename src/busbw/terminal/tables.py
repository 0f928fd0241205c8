"""Tables that fit a width: columns of less weight go first, and then the widest text is cut."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Text

_GAP = 2
_MIN_TEXT = 8


class Cell(NamedTuple):
    """Text and how it looks, in the words of rich: 'bold red'."""

    text: str
    style: str = ""


class Column(NamedTuple):
    """One column with all its cells."""

    name: str
    cells: Sequence[Cell]
    right: bool = True
    """Numbers stand on the right; text on the left, and only text may be cut."""
    weight: int = 0
    """Of columns that do not fit the lightest goes first; 0 stays."""
    group: str = ""
    """Stands above neighbours that share it."""


def fitted(columns: Sequence[Column], width: int) -> list[tuple[Column, int]]:
    """The columns that are shown, each with its width; those in which no cell says anything are left out."""
    shown = [column for column in columns if any(cell.text for cell in column.cells)]
    while _total(widths := [_width(column) for column in shown]) > width:
        light = min((column for column in shown if column.weight), key=lambda column: column.weight, default=None)
        if light is None:
            break
        shown = [column for column in shown if column.weight != light.weight]
    while _total(widths) > width:
        texts = [(size, number) for number, size in enumerate(widths) if not shown[number].right]
        size, number = max(texts, default=(0, 0))
        if size <= _MIN_TEXT:
            break
        widths[number] = max(_MIN_TEXT, size - (_total(widths) - width))
    return list(zip(shown, widths, strict=True))


def lines(columns: Sequence[Column], width: int) -> list[Text]:
    """The table, its header first; no line is wider than the width, as far as the columns that stay allow."""
    layout = fitted(columns, width)
    made = []
    if any(column.group for column, _ in layout):
        made.append(Text(_groups(layout).rstrip(), style="dim"))
    made.append(Text(_joined([_aligned(column.name, column, size) for column, size in layout]), style="dim"))
    for number in range(max((len(column.cells) for column, _ in layout), default=0)):
        line = Text()
        for place, (column, size) in enumerate(layout):
            cell = column.cells[number]
            line.append(" " * _GAP if place else "")
            line.append(_aligned(cell.text, column, size), style=cell.style)
        line.rstrip()
        made.append(line)
    return made


def _groups(layout: Sequence[tuple[Column, int]]) -> str:
    text, place = "", 0
    for number, (column, size) in enumerate(layout):
        first = number == 0 or layout[number - 1][0].group != column.group
        if column.group and first:
            span = [size for other, size in layout[number:] if other.group == column.group]
            text = text.ljust(place) + column.group.center(_total(span)).rstrip()
        place += size + _GAP
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
