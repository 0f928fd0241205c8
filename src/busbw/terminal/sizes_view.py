"""View of a table of sizes: heading, columns and plots of measured collectives."""

from collections.abc import Callable, Sequence
from math import inf
from typing import Any, NamedTuple

from rich.text import Text

from busbw.expect import ExpectedRange
from busbw.logs.log import (
    COMPARISON_HEADINGS,
    PLACEMENT_WORDS,
    PLACEMENTS,
    SAMPLE_LABELS,
    Figure,
    Placement,
    Row,
    Table,
    comparison_columns,
)
from busbw.logs.plain_rows import field_values, last_rows_of_points
from busbw.terminal import plot
from busbw.terminal.tables import Cell, Column
from busbw.units import plain, size_text

NOISY_CV_PERCENT = 10
"""Coefficient of variation above which a figure is yellow, because its mean is unreliable."""

_COMPARISON_WEIGHTS = range(28, 28 - len(COMPARISON_HEADINGS), -1)
"""Weights of the columns of a comparison. If not all columns fit, those with the lowest weight are dropped first.

Columns that identify a row have higher weights. One weight is that of the column `wrong`: both are dropped together.
"""

_TWO_PLOTS_WIDTH = 110
"""Minimum width in characters for two plots side by side."""
_PLOT_GAP = 2
"""Columns between two plots side by side."""
_STACKED_PLOT_HEIGHT = plot.HEIGHT - 4
"""Lines of each plot if they are one above the other. The plots are lower, so that both fit a screen."""


class ExpectationColumns(NamedTuple):
    """Expectations for the rows of a table."""

    busbw_gbps: Callable[[Row], ExpectedRange | None] = lambda _row: None
    """Returns the expected busbw of a row. None if unknown."""
    assumption: Callable[[Row], str] = lambda _row: ""
    """Returns the assumption that a row's expectation needs but the log does not state. Empty without one.

    An expectation with an assumption does not color figures.
    """

    def deciding_range(self, row: Row) -> ExpectedRange | None:
        """Returns the range that decides if a row is good. None if it is unknown or rests on an assumption."""
        return None if self.assumption(row) else self.busbw_gbps(row)


class SizesView:
    """View of a table of collectives: each row is a size."""

    def __init__(self, table: Table, expected: ExpectationColumns) -> None:
        self._table = table
        self._expected = expected

    @property
    def title(self) -> str:
        """The collective, with the properties that all rows share."""
        table = self._table
        collectives = list(dict.fromkeys(filter(None, field_values(table.rows, "collective"))))
        title = ", ".join(collectives) or table.collective or table.program or "unknown collective"
        root = shared_value(table, "root")
        root_text = None if root is None else f"root {root}"
        properties = [shared_value(table, "dtype"), shared_value(table, "redop"), root_text]
        return " ".join([title, *(str(value) for value in properties if value)])

    def columns(self, rows: Sequence[Row]) -> list[Column]:
        """Returns the columns of these rows of the table."""
        columns = [Column("size", [size_text(row.size_bytes) for row in rows])]
        # `Column.weight` decides which columns are dropped first. These columns are dropped last, because they tell the
        # rows apart.
        for weight, name in enumerate(("group", "cycle", "root", "redop", "dtype", "variant", "collective"), start=30):
            if not is_shared(self._table, name):
                values = [getattr(row, name) for row in rows]
                cells = [None if value is None else plain(str(value)) for value in values]
                columns.append(Column(name, cells, is_number=False, weight=weight))
        for placement in PLACEMENTS:
            if any(placement in row.figures for row in last_rows_of_points(self._table.rows)):
                columns += _placement_columns(rows, placement, self._expected)
        ranges = [self._expected.busbw_gbps(row) for row in rows]
        texts = [f"{_number(expected.low)}-{_number(expected.high)}" if expected else "" for expected in ranges]
        columns.append(Column("expected", [Cell(text, "dim") for text in texts], weight=20, group="busbw GB/s"))
        return columns

    def plots(self, width: int) -> list[str | Text]:
        """Plots busbw and time: side by side if the width allows it, otherwise lower and one above the other."""
        rows = self._table.rows
        expected = {
            row.size_bytes: value.typical
            for row in last_rows_of_points(rows)
            if (value := self._expected.busbw_gbps(row))
        }
        is_side_by_side = width >= _TWO_PLOTS_WIDTH
        plot_width = (width - _PLOT_GAP) // 2 if is_side_by_side else width
        height = plot.HEIGHT if is_side_by_side else _STACKED_PLOT_HEIGHT
        busbw_plot = plot.busbw_over_size(last_rows_of_points(rows), width=plot_width, height=height, expected=expected)
        time_plot = plot.time_over_size(last_rows_of_points(rows), width=plot_width, height=height)
        if busbw_plot and time_plot and is_side_by_side:
            left_width = min(plot_width, plot.WIDTH) + _PLOT_GAP
            return ["", *plot.join_columns(busbw_plot, time_plot, left_width).splitlines()]
        lines: list[str | Text] = []
        for drawn in filter(None, (busbw_plot, time_plot)):
            lines += ["", *drawn.splitlines()]
        return lines


def _placement_columns(rows: Sequence[Row], placement: Placement, expected: ExpectationColumns) -> list[Column]:
    figures = [row.figures.get(placement, Figure()) for row in rows]
    group = PLACEMENT_WORDS[placement]
    times = [_number(figure.time_us if figure.time_us is not None else figure.cpu_time_us) for figure in figures]
    busbw = [
        Cell(_number(figure.busbw_gbps), _busbw_style(figure, expected.deciding_range(row)))
        for row, figure in zip(rows, figures, strict=True)
    ]
    return [
        Column("time us", times, group=group),
        Column("device", [_number(figure.device_time_us) for figure in figures], weight=12, group=group),
        Column("launch", [_number(figure.launch_time_us) for figure in figures], weight=6, group=group),
        # Samples of another clock than the row's time are not comparable with that time, so they have own columns.
        *(
            Column(f"{label} {name}".lstrip(), _statistic_cells(figures, label, field), weight=weight, group=group)
            for name, field, weight in (("p99 us", "p99_us", 10), ("cv %", "cv_percent", 8))
            for label in SAMPLE_LABELS
        ),
        Column("algbw", [_number(figure.algbw_gbps) for figure in figures], weight=15, group=group),
        Column("busbw", busbw, group=group),
        Column("wrong", [_wrong_cell(figure) for figure in figures], weight=25, group=group),
        Column("algorithm", [_algorithm_text(figure) for figure in figures], is_number=False, weight=4, group=group),
        *(
            Column(heading, list(map(_number, values)), weight=weight, group=group)
            for weight, (heading, values) in zip(_COMPARISON_WEIGHTS, comparison_columns(figures), strict=True)
        ),
    ]


def _statistic_cells(figures: Sequence[Figure], sample_label: str, field: str) -> list[Cell]:
    """Returns a statistic of the samples that have this label. A cell is yellow if the mean is unreliable."""
    values = [
        getattr(figure.stats, field) if figure.stats and figure.sample_label == sample_label else None
        for figure in figures
    ]
    max_value = NOISY_CV_PERCENT if field == "cv_percent" else inf
    return [Cell(_number(value), "yellow" if value is not None and value > max_value else "") for value in values]


def _busbw_style(figure: Figure, expected: ExpectedRange | None) -> str:
    """Returns red below the expected range and green otherwise. Empty if unknown."""
    if expected is None or figure.busbw_gbps is None:
        return ""
    return "red" if figure.busbw_gbps < expected.low else "green"


def _algorithm_text(figure: Figure) -> str:
    channels = f" x{figure.channels}" if figure.channels else ""
    return plain(figure.algorithm_text + channels)


def _wrong_cell(figure: Figure) -> Cell:
    if figure.wrong_elements:
        return Cell(str(figure.wrong_elements), "bold red")
    texts = {"checked": "0", "not_applicable": "N/A", "not_checked": "-", "unstated": ""}
    return Cell(texts[figure.check])


def _number(value: float | None) -> str:
    if value is None:
        return ""
    if value >= 1000:
        return f"{value:.0f}"
    if value >= 100:
        return f"{value:.1f}"
    return f"{value:.2f}"


def is_shared(table: Table, field: str) -> bool:
    """True if all rows have the same value in this field."""
    values = field_values(table.rows, field)
    first_value = next(values, None)
    return bool(table.rows) and all(value == first_value for value in values)


def shared_value(table: Table, field: str) -> Any:
    """Returns the value of this field that all rows share. None if they differ or there is no row."""
    return getattr(table.rows[0], field) if is_shared(table, field) else None
