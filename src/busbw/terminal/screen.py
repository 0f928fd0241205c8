"""Terminal view of a log: description of the run, correctness of the data, table, plots and warnings.

`busbw show` prints it. A figure has the measured values of one placement of a row (logs.py).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from textwrap import wrap
from typing import Any, NamedTuple, Protocol

from rich.text import Text

from busbw.collectives import COMM_OPS
from busbw.late_ranks import late_ranks, other_warnings
from busbw.logs import PLACEMENT_WORDS, PLACEMENTS, SAMPLE_LABELS, Figure, Log, Placement, Row, Table
from busbw.sequences import map_sequence
from busbw.terminal import plot
from busbw.terminal.comm_ops_table import comm_ops_columns
from busbw.terminal.tables import Cell, Column, table_lines
from busbw.units import count_text, names_text, plain, size_text

NOISY_CV_PERCENT = 10
"""Coefficient of variation above which a figure is yellow, because its mean is unreliable."""

_TWO_PLOTS_WIDTH = 110
"""Minimum width in characters for two plots side by side."""

MAX_TABLES = 50
"""Maximum number of tables that are shown if the user selects none."""
MAX_ROWS = 2000
"""Maximum number of rows of a table that are shown."""
_MAX_HOSTS = 3
"""Maximum number of hosts that the heading names."""

_MAX_GROUPS = 16
"""Maximum number of groups that the heading describes."""

_MAX_SENTENCES = 8
"""Maximum number of sentences that are shown of one kind, such as warnings."""


class RangeLike(Protocol):
    """Typical value with the range of a healthy system."""

    @property
    def low(self) -> float:
        """Lower end."""

    @property
    def typical(self) -> float:
        """Typical value."""

    @property
    def high(self) -> float:
        """Upper end."""


class ExpectationColumns(NamedTuple):
    """Expectations for the rows of a table."""

    busbw_gbps: Callable[[Row], RangeLike | None] = lambda _row: None
    """Returns the expected busbw of a row. None if unknown."""
    assumption: Callable[[Row], str] = lambda _row: ""
    """Returns the assumption that a row's expectation needs but the log does not state. Empty without one.

    An expectation with an assumption does not color figures.
    """

    def deciding_range(self, row: Row) -> RangeLike | None:
        """Returns the range that decides if a row is good. None if it is unknown or rests on an assumption."""
        return None if self.assumption(row) else self.busbw_gbps(row)


class _TableView(NamedTuple):
    """A table with its expectations and the placements that it has."""

    table: Table
    expected: ExpectationColumns
    placements: tuple[Placement, ...]


def log_lines(
    log: Log,
    *,
    width: int,
    expected: Callable[[Table], ExpectationColumns] | None = None,
    draw: bool = True,
    numbers: Sequence[int] | None = None,
) -> Iterator[Text]:
    """Yields the lines that describe a log. Of a long one they are the first tables and the first rows.

    Args:
        log: Log to show.
        width: Width of the terminal in columns.
        expected: Returns the expectations for a table. None to omit the column.
        draw: True to draw plots.
        numbers: Numbers of the tables to show, from 1. None for the first MAX_TABLES.
    """
    hidden = _HiddenTables()
    has_output = False
    for number, table in enumerate(log.tables, start=1):
        if number > MAX_TABLES if numbers is None else number not in numbers:
            if numbers is None:
                hidden.add(table)
            continue
        output: list[str | Text] = []
        placements = tuple(placement for placement in PLACEMENTS if any(placement in row.figures for row in table.rows))
        view = _TableView(table, expected(table) if expected else ExpectationColumns(), placements)
        if has_output:
            output.append("")
        has_output = True
        prefix = f"table {number} of {len(log.tables)}, line {table.first_line}: " if len(log.tables) > 1 else ""
        output += _heading(table, prefix)
        output.append(_correctness_line(table))
        output += _sentences("late", [late.text for late in late_ranks(table.rows)], "yellow")
        shown_rows = table.rows[:MAX_ROWS]
        if shown_rows:
            is_comm_ops = table.collective == COMM_OPS
            columns = comm_ops_columns(table, shown_rows) if is_comm_ops else _columns(view, shown_rows)
            output += ["", *table_lines(columns, width)]
        if len(table.rows) > len(shown_rows):
            more_text = count_text(len(table.rows) - len(shown_rows), "more row")
            output.append(Text(f"and {more_text}; `busbw export csv` writes all", "yellow"))
        assumptions = dict.fromkeys(filter(None, map(view.expected.assumption, shown_rows)))
        output += [Text(f"expected: {plain(assumption)}", "dim") for assumption in assumptions]
        if draw and table.collective != COMM_OPS:
            output += _plots(view, width)
        output += _sentences("warning", [*table.warnings, *_row_warnings(table)], "yellow")
        yield from _finish(output, width)
    output = [*hidden.lines(), *_sentences("warning", log.warnings, "yellow")]
    refusals = map_sequence(lambda refusal: f"line {refusal.line}: {refusal.reason}", log.refused)
    yield from _finish([*output, *_sentences("left out", refusals, "yellow")], width)


class _HiddenTables:
    """Counts the tables after the first MAX_TABLES. Wrong data in them must not be overlooked."""

    def __init__(self) -> None:
        self._count = self._wrong_count = 0

    def add(self, table: Table) -> None:
        self._count += 1
        self._wrong_count += any(figure.wrong_elements for row in table.rows for figure in row.figures.values())

    def lines(self) -> list[str | Text]:
        """Returns the lines on these tables. Empty without such tables."""
        if not self._count:
            return []
        style = "bold red" if self._wrong_count else "yellow"
        wrong_text = f", {self._wrong_count:,} of them with WRONG data" if self._wrong_count else ""
        return ["", Text(f"and {count_text(self._count, 'more table')}{wrong_text}; --table N shows one", style)]


def _finish(output: Sequence[str | Text], width: int) -> Iterator[Text]:
    for line in output:
        yield from _wrap(Text(line) if isinstance(line, str) else line, width)


def _wrap(line: Text, width: int) -> list[Text]:
    """Wraps a sentence and indents its further lines by two. Tables and plots already fit the width."""
    if line.cell_len <= width:
        return [line]
    wrapped = wrap(line.plain, width, subsequent_indent="  ", break_on_hyphens=False)
    return [Text(text, style=line.style) for text in wrapped]


def _correctness_line(table: Table) -> Text:
    """Returns the line that states if the data of the table is correct."""
    measurements = wrong = checked = 0
    first_wrong_text = ""
    for row in table.rows:
        for placement, figure in row.figures.items():
            measurements += 1
            checked += figure.check == "checked"
            if figure.wrong_elements:
                wrong += 1
                first_wrong_text = first_wrong_text or _wrong_case_text(row, placement, figure)
    end = f"; {plain(table.early_end_text)}" if table.early_end_text else ""
    if not measurements:
        return Text(f"data: no row{end}", style="red")
    if wrong:
        return Text(f"data: WRONG in {wrong} of {measurements} measurements: {first_wrong_text}{end}", "bold red")
    if checked == measurements:
        return Text(f"data: right in all {count_text(checked, 'measurement')}{end}", style="yellow" if end else "green")
    if checked:
        return Text(
            f"data: right in the {checked} of {measurements} measurements that were checked{end}", style="yellow"
        )
    return Text(f"data: not checked, or not stated in the log{end}", style="yellow")


def _wrong_case_text(row: Row, placement: Placement, figure: Figure) -> str:
    """Describes a measurement with wrong data: size, type, placement, number of wrong elements and the first one."""
    case = plain(" ".join(filter(None, [size_text(row.size_bytes), row.dtype, PLACEMENT_WORDS[placement]])))
    first_wrong = figure.first_wrong[0] if figure.first_wrong else None
    location = f", first at rank {first_wrong.rank}, index {first_wrong.index}" if first_wrong else ""
    return f"{case} ({count_text(figure.wrong_elements or 0, 'element')}{location})"


def _heading(table: Table, prefix: str) -> list[Text]:
    """Describes the run: collective with the properties that all rows share, ranks with hosts, library and format."""
    collectives = list(dict.fromkeys(row.collective for row in table.rows if row.collective))
    title = (
        COMM_OPS
        if table.collective == COMM_OPS
        else ", ".join(collectives) or table.collective or table.program or "unknown collective"
    )
    root = _shared_value(table, "root")
    root_text = None if root is None else f"root {root}"
    properties = [_shared_value(table, "dtype"), _shared_value(table, "redop"), root_text]
    title = " ".join([title, *(str(value) for value in properties if value)])
    heading = [Text(prefix + plain(title), style="bold")]
    if table.title:
        heading.append(Text(plain(table.title)))
    ranks = table.ranks or _shared_value(table, "ranks")
    ranks_text = count_text(ranks, "rank") if ranks else "unknown number of ranks"
    if hosts := table.hosts:
        ranks_text += f" on {count_text(len(hosts), 'host')} ({names_text(hosts, _MAX_HOSTS)})"
    if table.devices:
        ranks_text += f", {', '.join(table.devices)}"
    heading.append(Text(plain(f"ran: {ranks_text}")))
    heading += _group_lines(table)
    sources = [table.library, table.program_version, table.start_time, f"format {table.format}"]
    heading.append(Text(plain("by:  " + ", ".join(source for source in sources if source))))
    return heading


def _group_lines(table: Table) -> list[Text]:
    """Describes each group: its ranks and hosts. Empty if all ranks form one group."""
    hosts_by_group = table.hosts_by_group
    if len(hosts_by_group) < 2:
        return []
    lines = []
    for group, hosts in sorted(hosts_by_group.items())[:_MAX_GROUPS]:
        ranks_text = count_text(sum(rank.group == group for rank in table.rank_list), "rank")
        hosts_text = f" on {names_text(hosts, _MAX_HOSTS)}" if hosts else ""
        lines.append(Text(plain(f"group {group}: {ranks_text}{hosts_text}")))
    if len(hosts_by_group) > _MAX_GROUPS:
        lines.append(Text(f"and {len(hosts_by_group) - _MAX_GROUPS} more groups"))
    return lines


def _is_shared(table: Table, field: str) -> bool:
    """True if all rows have the same value in this field."""
    values = (getattr(row, field) for row in table.rows)
    first_value = next(values, None)
    return bool(table.rows) and all(value == first_value for value in values)


def _shared_value(table: Table, field: str) -> Any:
    """Returns the value of this field that all rows share. None if they differ or there is no row."""
    return getattr(table.rows[0], field) if _is_shared(table, field) else None


def _columns(view: _TableView, rows: Sequence[Row]) -> list[Column]:
    columns = [Column("size", [Cell(size_text(row.size_bytes)) for row in rows])]
    for weight, name in enumerate(("group", "cycle", "root", "redop", "dtype", "variant", "collective"), start=30):
        if not _is_shared(view.table, name):
            values = [getattr(row, name) for row in rows]
            cells = [Cell("" if value is None else plain(str(value))) for value in values]
            columns.append(Column(name, cells, right=False, weight=weight))
    for placement in view.placements:
        columns += _placement_columns(view, rows, placement)
    ranges = [view.expected.busbw_gbps(row) for row in rows]
    texts = [f"{_number(expected.low)}-{_number(expected.high)}" if expected else "" for expected in ranges]
    columns.append(Column("expected", [Cell(text, "dim") for text in texts], weight=20, group="busbw GB/s"))
    return columns


_COMPARED_COLUMNS = (
    ("with us", "together_time_us"),
    ("ratio", "together_ratio"),
    ("imbalance", "imbalance"),
    ("bound us", "bound_us"),
    ("to bound", "bound_ratio"),
)
"""Columns of runs with a neighbor (--with) or a skew (--skew): heading and field of a figure."""


def _placement_columns(view: _TableView, rows: Sequence[Row], placement: Placement) -> list[Column]:
    figures = [row.figures.get(placement, Figure()) for row in rows]
    group = PLACEMENT_WORDS[placement]
    times = [_number(figure.time_us if figure.time_us is not None else figure.cpu_time_us) for figure in figures]
    busbw = [
        Cell(_number(figure.busbw_gbps), _busbw_style(figure, view.expected.deciding_range(row)))
        for row, figure in zip(rows, figures, strict=True)
    ]
    return [
        Column("time us", [Cell(text) for text in times], group=group),
        Column("device", [Cell(_number(figure.device_time_us)) for figure in figures], weight=12, group=group),
        Column("launch", [Cell(_number(figure.launch_time_us)) for figure in figures], weight=6, group=group),
        # One column per clock of the samples, because only some measure the same as the time of the row.
        *(
            Column(f"{label} p99 us".lstrip(), _p99_cells(figures, label), weight=10, group=group)
            for label in SAMPLE_LABELS
        ),
        *(
            Column(f"{label} cv %".lstrip(), _cv_cells(figures, label), weight=8, group=group)
            for label in SAMPLE_LABELS
        ),
        Column("algbw", [Cell(_number(figure.algbw_gbps)) for figure in figures], weight=15, group=group),
        Column("busbw", busbw, group=group),
        Column("wrong", [_wrong_cell(figure) for figure in figures], weight=25, group=group),
        Column("algorithm", [_algorithm_cell(figure) for figure in figures], right=False, weight=4, group=group),
        *(
            Column(title, [Cell(_number(getattr(figure, field))) for figure in figures], weight=28, group=group)
            for title, field in _COMPARED_COLUMNS
        ),
    ]


def _cv_cells(figures: Sequence[Figure], sample_label: str) -> list[Cell]:
    values = [
        figure.stats.cv_percent if figure.stats and figure.sample_label == sample_label else None for figure in figures
    ]
    return [
        Cell(_number(value), "yellow" if value is not None and value > NOISY_CV_PERCENT else "") for value in values
    ]


def _p99_cells(figures: Sequence[Figure], sample_label: str) -> list[Cell]:
    return [
        Cell(_number(figure.stats.p99_us if figure.stats and figure.sample_label == sample_label else None))
        for figure in figures
    ]


def _busbw_style(figure: Figure, expected: RangeLike | None) -> str:
    """Returns red below the expected range and green otherwise. Empty if unknown."""
    if expected is None or figure.busbw_gbps is None:
        return ""
    return "red" if figure.busbw_gbps < expected.low else "green"


def _algorithm_cell(figure: Figure) -> Cell:
    channels = f" x{figure.channels}" if figure.channels else ""
    return Cell(plain(figure.algorithm_text + channels))


def _wrong_cell(figure: Figure) -> Cell:
    if figure.wrong_elements:
        return Cell(str(figure.wrong_elements), "bold red")
    texts = {"checked": "0", "not_applicable": "N/A", "not_checked": "-", "unstated": ""}
    return Cell(texts[figure.check])


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}" if value >= 100 else f"{value:.2f}"


def _plots(view: _TableView, width: int) -> list[str | Text]:
    """Plots busbw and time: side by side if the width allows it, otherwise lower and one above the other."""
    rows = view.table.rows
    expected = {row.size_bytes: value.typical for row in rows if (value := view.expected.busbw_gbps(row))}
    is_side_by_side = width >= _TWO_PLOTS_WIDTH
    plot_width = (width - 2) // 2 if is_side_by_side else width
    height = plot.HEIGHT if is_side_by_side else plot.HEIGHT - 4
    busbw_plot = plot.busbw_over_size(rows, width=plot_width, height=height, expected=expected)
    time_plot = plot.time_over_size(rows, width=plot_width, height=height)
    if busbw_plot and time_plot and is_side_by_side:
        return ["", *plot.join_columns(busbw_plot, time_plot, min(plot_width, plot.WIDTH) + 2).splitlines()]
    return [line for drawn in (busbw_plot, time_plot) if drawn for line in ("", *drawn.splitlines())]


def _row_warnings(table: Table) -> list[str]:
    """Returns each distinct warning of the measurements, with its first size and the number of other measurements."""
    first_cases: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for row in table.rows:
        for placement, figure in row.figures.items():
            for warning in other_warnings(figure):
                case = " ".join(filter(None, [size_text(row.size_bytes), PLACEMENT_WORDS[placement]]))
                first_cases.setdefault(warning, case)
                counts[warning] += 1
    return [
        f"{case}{f' and {counts[warning] - 1} more' if counts[warning] > 1 else ''}: {warning}"
        for warning, case in first_cases.items()
    ]


def _sentences(kind: str, sentences: Sequence[str], style: str) -> list[Text]:
    texts = [Text(f"{kind}: {plain(sentence)}", style=style) for sentence in sentences[:_MAX_SENTENCES]]
    hidden = len(sentences) - _MAX_SENTENCES
    if hidden > 0:
        texts.append(Text(f"{kind}: and {hidden} more (busbw import shows all)", style=style))
    return texts
