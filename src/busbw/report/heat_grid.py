"""Draws the slow-downs of flows as a heat map, with one median per pair of a row and a column.

A pair without a flow stays empty. If there are many rows or columns, neighbors share a cell.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from busbw.find.cluster import Indices
from busbw.find.observations import Values
from busbw.report.axes import legend_icon
from busbw.report.page import LegendEntry, Picture
from busbw.report.svg import drawing, element

MAX_CELLS = 128
"""Maximum number of cells in a row or column, so that each cell is at least two pixels wide on a phone."""
_SHADES = {1.05: "alike", 1.15: "heat1", 1.5: "heat2", 2.0: "heat3"}
"""Classes of the cells by the upper limit of the slow-down."""
_SLOWEST, _DEAD = "heat4", "dead"
"""Classes of the cells above all limits, and of the cells with failed flows."""
# Lengths in SVG units.
_WIDTH, _LEFT, _TOP = 460.0, 92.0, 24.0
_MAX_CELL_WIDTH, _ROW_HEIGHT, _CHARACTER_WIDTH = 28.0, 16.0, 8.5
_MAX_LABEL = 10
"""Maximum number of characters of a label."""


class Box(NamedTuple):
    """Rectangle of rows and columns, including the last row and the last column."""

    first_row: int
    last_row: int
    first_column: int
    last_column: int


class Flows(NamedTuple):
    """Row, column and natural logarithm of the slow-down of each flow."""

    rows: Indices
    columns: Indices
    log_slowdown: Values


class _Axis(NamedTuple):
    """Rows or columns of the grid in the order of their names."""

    names: Sequence[str]
    names_per_cell: int
    cell_count: int
    cell_length: float
    """Height of a cell of rows, or width of a cell of columns, in SVG units."""

    def cell(self, index: int) -> int:
        """Returns the cell of a row or column."""
        return index // self.names_per_cell


def heat_grid(
    title: str, flows: Flows, names: tuple[Sequence[str], Sequence[str]], marks: Iterable[Box], note: str
) -> Picture:
    """Draws the median slow-down of the flows of each row and column.

    Args:
        title: Title of the picture.
        flows: Flows to draw.
        names: Names of the rows, and names of the columns.
        marks: Rectangles to frame, in rows and columns.
        note: Note below the picture.
    """
    rows, columns = _make_axes(*names)
    cells = [
        _draw_cell(rows, columns, row, column, slowdown, flow_count)
        for row, column, slowdown, flow_count in _slowest_medians(flows, rows, columns)
    ]
    whole_grid = Box(0, len(rows.names) - 1, 0, len(columns.names) - 1)
    names_per_cell = rows.names_per_cell * columns.names_per_cell
    if names_per_cell > 1:
        note += f" Each cell shows the slowest of {rows.names_per_cell} x {columns.names_per_cell}."
    svg = drawing(
        _draw_box(rows, columns, whole_grid, "unmeasured"),
        *cells,
        *dict.fromkeys(_draw_box(rows, columns, mark, "found") for mark in marks),  # marks of the same cells are equal
        *_row_labels(rows),
        *_column_labels(columns),
        label=f"{title}. {note}",
        width=_WIDTH,
        height=_TOP + rows.cell_count * rows.cell_length + 4,
    )
    return Picture(title, f"{title}. {note}", svg, _legend(), note)


def _make_axes(row_names: Sequence[str], column_names: Sequence[str]) -> tuple[_Axis, _Axis]:
    """Divides rows and columns into cells. Cells are square if rows and columns have the same names."""
    names_per_row_cell, row_cells = _cell_division(row_names)
    names_per_column_cell, column_cells = _cell_division(column_names)
    width = min((_WIDTH - _LEFT - 12) / column_cells, _MAX_CELL_WIDTH)
    height = width if row_names == column_names else _ROW_HEIGHT
    return (
        _Axis(row_names, names_per_row_cell, row_cells, height),
        _Axis(column_names, names_per_column_cell, column_cells, width),
    )


def _cell_division(names: Sequence[str]) -> tuple[int, int]:
    """Returns the number of names that share a cell, and the number of cells."""
    names_per_cell = math.ceil(len(names) / MAX_CELLS)
    return names_per_cell, math.ceil(len(names) / names_per_cell)


def _draw_box(rows: _Axis, columns: _Axis, box: Box, class_: str, *children: Markup) -> Markup:
    """Draws the rectangle of all cells that a box touches."""
    row, column = rows.cell(box.first_row), columns.cell(box.first_column)
    row_count = rows.cell(box.last_row) - row + 1
    column_count = columns.cell(box.last_column) - column + 1
    return element(
        "rect",
        *children,
        x=f"{_LEFT + column * columns.cell_length:.2f}",
        y=f"{_TOP + row * rows.cell_length:.2f}",
        width=f"{column_count * columns.cell_length:.2f}",
        height=f"{row_count * rows.cell_length:.2f}",
        class_=class_,
    )


def _draw_cell(rows: _Axis, columns: _Axis, row: int, column: int, slowdown: float, flow_count: int) -> Markup:
    has_failed = math.isinf(slowdown)
    shade = _DEAD if has_failed else next((name for limit, name in _SHADES.items() if slowdown <= limit), _SLOWEST)
    speed = "transfers nothing" if has_failed else f"x{slowdown:.2f}"
    tooltip = element("title", f"{rows.names[row]}, {columns.names[column]}: {speed}, flows: {flow_count}")
    return _draw_box(rows, columns, Box(row, row, column, column), shade, tooltip)


def _row_labels(rows: _Axis) -> list[Markup]:
    """Draws the name of every nth row, so that names do not overlap."""
    label_step = math.ceil(_ROW_HEIGHT / rows.cell_length)
    return [
        element(
            "text",
            _label(rows.names[cell * rows.names_per_cell]),
            x=_LEFT - 5,
            y=_TOP + (cell + 0.5) * rows.cell_length + 4,
            class_="tick end",
        )
        for cell in range(0, rows.cell_count, label_step)
    ]


def _column_labels(columns: _Axis) -> list[Markup]:
    """Draws the name of every nth column, so that names do not overlap."""
    label_width = min(max(map(len, columns.names)), _MAX_LABEL) * _CHARACTER_WIDTH
    label_step = math.ceil(label_width / columns.cell_length)
    labels = []
    for cell in range(0, columns.cell_count, label_step):
        left = _LEFT + cell * columns.cell_length
        if cell == 0 or left + label_width <= _WIDTH:
            name = _label(columns.names[cell * columns.names_per_cell])
            labels.append(element("text", name, x=left, y=_TOP - 7, class_="tick"))
    return labels


def _slowest_medians(flows: Flows, row_axis: _Axis, column_axis: _Axis) -> Iterable[tuple[int, int, float, int]]:
    """Yields row, column, median slow-down and number of flows of the slowest pair of each cell."""
    # Sorted by row, column and slow-down, so that the flows of a pair are adjacent and their median is in the middle.
    flow_order = np.lexsort((flows.log_slowdown, flows.columns, flows.rows))
    rows, columns, log_slowdown = flows.rows[flow_order], flows.columns[flow_order], flows.log_slowdown[flow_order]
    pair_starts = _group_starts(rows, columns)
    counts = np.diff(np.append(pair_starts, len(rows)))
    # The median is the mean of the two flows in the middle. They are the same flow if the number of flows is odd.
    lower_middle, upper_middle = log_slowdown[pair_starts + (counts - 1) // 2], log_slowdown[pair_starts + counts // 2]
    # A failed flow has an infinite slow-down. If one of the two flows has failed, the other one is the median.
    medians = np.where(np.isfinite(upper_middle), (lower_middle + upper_middle) / 2, lower_middle)
    # Sorted by cell and falling slow-down, so that the first pair of a cell is the slowest.
    cell_rows = rows[pair_starts] // row_axis.names_per_cell
    cell_columns = columns[pair_starts] // column_axis.names_per_cell
    pair_order = np.lexsort((-medians, cell_columns, cell_rows))
    for pair in pair_order[_group_starts(cell_rows[pair_order], cell_columns[pair_order])]:
        start = pair_starts[pair]
        yield int(rows[start]), int(columns[start]), math.exp(medians[pair]), int(counts[pair])


def _group_starts(rows: Indices, columns: Indices) -> Indices:
    """Returns the index of the first entry of each pair of row and column. Entries of a pair must be adjacent.

    Example: rows 0, 0, 0, 1 and columns 2, 2, 3, 3 give 0, 2 and 3.
    """
    is_start = np.append(True, (np.diff(rows) != 0) | (np.diff(columns) != 0))
    return np.flatnonzero(is_start[: len(rows)])  # without an entry there is no start


def _label(name: str) -> str:
    """Returns the name, or the end of a long name, which usually has the number."""
    return name if len(name) <= _MAX_LABEL else f"\N{HORIZONTAL ELLIPSIS}{name[1 - _MAX_LABEL :]}"


def _legend() -> tuple[LegendEntry, ...]:
    labels = {shade: f"to x{limit:g}" for limit, shade in _SHADES.items()}
    labels |= {_SLOWEST: "above", _DEAD: "transfers nothing", "unmeasured": "no comparable flow", "found": "finding"}
    return tuple(
        LegendEntry(legend_icon(element("rect", x=4, y=1, width=26, height=12, class_=class_)), label)
        for class_, label in labels.items()
    )
