"""Draws slow-downs of flows as a heat map. Pairs without a flow stay empty, and many rows or columns share a cell."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from busbw.find.cluster import Indices
from busbw.find.evidence import DEAD_LEVEL
from busbw.find.observations import Values
from busbw.report.axes import legend_icon
from busbw.report.page import LegendEntry, Picture
from busbw.svg import drawing, element

MAX_CELLS = 128
"""Maximum number of cells in a line, so that each is at least two pixels wide on a phone."""
_SHADES = {1.05: "alike", 1.15: "heat1", 1.5: "heat2", 2.0: "heat3", float(np.exp(DEAD_LEVEL - 1)): "heat4"}
"""Classes of the cells by the upper limit of the slow-down."""
_DEAD = "dead"
_WIDTH, _LEFT, _TOP = 460.0, 92.0, 24.0
_MAX_CELL_WIDTH, _ROW_HEIGHT, _CHARACTER_WIDTH, _MAX_LABEL = 28.0, 16.0, 8.5, 10


class Box(NamedTuple):
    """Rectangle of rows and columns, the last ones included."""

    first_row: int
    last_row: int
    first_column: int
    last_column: int


class Flows(NamedTuple):
    """Row, column and log of the slow-down of each flow."""

    rows: Indices
    columns: Indices
    excess: Values


def heat_grid(
    title: str, flows: Flows, names: tuple[Sequence[str], Sequence[str]], marks: Iterable[Box], note: str
) -> Picture:
    """Draws the median slow-down of the flows of each row and column. `names`: of the rows and of the columns."""
    (row_size, column_size), (rows, columns) = zip(*map(_cell_division, names), strict=True)
    width = min((_WIDTH - _LEFT - 12) / columns, _MAX_CELL_WIDTH)
    height = width if names[0] == names[1] else _ROW_HEIGHT

    def rectangle(box: Box, class_: str, *children: Markup) -> Markup:
        row, column = box.first_row // row_size, box.first_column // column_size
        box_rows, box_columns = box.last_row // row_size - row + 1, box.last_column // column_size - column + 1
        x, y = f"{_LEFT + column * width:.2f}", f"{_TOP + row * height:.2f}"
        size = {"width": f"{box_columns * width:.2f}", "height": f"{box_rows * height:.2f}"}
        return element("rect", *children, x=x, y=y, **size, class_=class_)

    cells = []
    for row, column, slowdown, count in _slowest_medians(flows, row_size, column_size):
        shade = next((name for limit, name in _SHADES.items() if slowdown <= limit), _DEAD)
        speed = "transfers nothing" if shade == _DEAD else f"x{slowdown:.2f}"
        text = element("title", f"{names[0][row]}, {names[1][column]}: {speed}, flows: {count}")
        cells.append(rectangle(Box(row, row, column, column), shade, text))
    label_width = min(max(map(len, names[1])), _MAX_LABEL) * _CHARACTER_WIDTH
    labels = [
        element(
            "text", _label(names[0][row * row_size]), x=_LEFT - 5, y=_TOP + (row + 0.5) * height + 4, class_="tick end"
        )
        for row in range(0, rows, int(np.ceil(_ROW_HEIGHT / height)))
    ] + [
        element("text", _label(names[1][column * column_size]), x=_LEFT + column * width, y=_TOP - 7, class_="tick")
        for column in range(0, columns, int(np.ceil(label_width / width)))
        if column == 0 or _LEFT + column * width + label_width <= _WIDTH
    ]
    if row_size * column_size > 1:
        note += f" Each cell shows the slowest of {row_size} x {column_size}."
    svg = drawing(
        rectangle(Box(0, len(names[0]) - 1, 0, len(names[1]) - 1), "unmeasured"),
        *cells,
        *dict.fromkeys(rectangle(mark, "found") for mark in marks),
        *labels,
        label=f"{title}. {note}",
        width=_WIDTH,
        height=_TOP + rows * height + 4,
    )
    return Picture(title, f"{title}. {note}", svg, _legend(), note)


def _cell_division(names: Sequence[str]) -> tuple[int, int]:
    """Returns the number of names that share a cell, and the number of cells."""
    size = -(-len(names) // MAX_CELLS)
    return size, -(-len(names) // size)


def _slowest_medians(flows: Flows, row_size: int, column_size: int) -> Iterable[tuple[int, int, float, int]]:
    """Yields row, column, median slow-down and number of flows of the slowest pair of each cell."""
    order = np.lexsort((flows.excess, flows.columns, flows.rows))
    rows, columns, excess = flows.rows[order], flows.columns[order], flows.excess[order]
    first = _first_of_each(rows, columns)
    counts = np.diff(np.append(first, len(rows)))
    lower, upper = excess[first + (counts - 1) // 2], excess[first + counts // 2]
    medians = np.where(upper < DEAD_LEVEL, (lower + upper) / 2, lower)  # a failed flow has no time to average
    cells = rows[first] // row_size, columns[first] // column_size
    order = np.lexsort((-medians, cells[1], cells[0]))
    for entry in order[_first_of_each(cells[0][order], cells[1][order])]:
        yield int(rows[first[entry]]), int(columns[first[entry]]), float(np.exp(medians[entry])), int(counts[entry])


def _first_of_each(rows: Indices, columns: Indices) -> Indices:
    """Returns where each pair begins in sorted pairs."""
    return np.flatnonzero(np.append(True, (np.diff(rows) != 0) | (np.diff(columns) != 0))[: len(rows)])


def _label(name: str) -> str:
    """The end of a long name, which usually has the number."""
    return name if len(name) <= _MAX_LABEL else f"\N{HORIZONTAL ELLIPSIS}{name[1 - _MAX_LABEL :]}"


def _legend() -> tuple[LegendEntry, ...]:
    labels = {shade: f"to x{limit:g}" for limit, shade in _SHADES.items()}
    labels |= {"heat4": "above", _DEAD: "transfers nothing", "unmeasured": "no comparable flow", "found": "finding"}
    return tuple(
        LegendEntry(legend_icon(element("rect", x=4, y=1, width=26, height=12, class_=class_)), label)
        for class_, label in labels.items()
    )
