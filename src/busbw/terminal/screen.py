"""Terminal view of a log: description of the run, correctness of the data, table, plots and warnings."""

from collections.abc import Callable, Sequence
from textwrap import wrap
from typing import NamedTuple, Protocol

from rich.text import Text

from busbw.logs import PLACEMENT_WORDS, PLACEMENTS, Figure, Log, Placement, Row, Table
from busbw.terminal import plot
from busbw.terminal.tables import Cell, Column, lines
from busbw.units import count_text, plain, size_text

NOISY_CV_PERCENT = 10
"""Coefficient of variation above which a figure is yellow, because its mean is unreliable."""

_TWO_PLOTS_WIDTH = 110
"""Minimum width in characters for two plots side by side."""

_MAX_SENTENCES = 8


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
    """Returns the unstated assumption of a row's expectation. Empty if there is no assumption.

    An expectation with an assumption does not color figures.
    """

    def deciding_range(self, row: Row) -> RangeLike | None:
        """Returns the range that decides if a row is good. None if it is unknown or rests on an assumption."""
        return None if self.assumption(row) else self.busbw_gbps(row)


class _TableView(NamedTuple):
    """A table with its expectations and placements."""

    table: Table
    expected: ExpectationColumns
    placements: tuple[Placement, ...]


def screen(
    log: Log,
    *,
    width: int,
    expected: Callable[[Table], ExpectationColumns] | None = None,
    draw: bool = True,
    numbers: Sequence[int] | None = None,
) -> list[Text]:
    """Returns the lines to print.

    Args:
        log: Log to show.
        width: Width of the terminal in columns.
        expected: Returns the expectations for a table. None to omit the column.
        draw: True to draw plots.
        numbers: Numbers of the tables to show, from 1. None for all.
    """
    output: list[str | Text] = []
    for number, table in enumerate(log.tables, start=1):
        if numbers is not None and number not in numbers:
            continue
        placements = tuple(name for name in PLACEMENTS if any(name in row.figures for row in table.rows))
        view = _TableView(table, expected(table) if expected else ExpectationColumns(), placements)
        if output:
            output.append("")
        prefix = f"table {number} of {len(log.tables)}, line {table.first_line}: " if len(log.tables) > 1 else ""
        output += _heading(table, prefix)
        output.append(verdict(table))
        if table.rows:
            output += ["", *lines(_columns(view), width)]
        remarks = dict.fromkeys(filter(None, map(view.expected.assumption, table.rows)))
        output += [Text(f"expected: {plain(remark)}", "dim") for remark in remarks]
        if draw:
            output += _pictures(view, width)
        output += _sentences("warning", [*table.warnings, *_row_warnings(table)], "yellow")
    output += _sentences("warning", log.warnings, "yellow")
    output += _sentences("left out", [f"line {line.line}: {line.reason}" for line in log.refused], "yellow")
    lined = [Text(line) if isinstance(line, str) else line for line in output]
    return [part for line in lined for part in _wrapped(line, width)]


def _wrapped(line: Text, width: int) -> list[Text]:
    """Wraps a sentence with an indent of two. Tables and plots already fit the width."""
    if line.cell_len <= width:
        return [line]
    return [
        Text(part, style=line.style) for part in wrap(line.plain, width, subsequent_indent="  ", break_on_hyphens=False)
    ]


def verdict(table: Table) -> Text:
    """Line on the correctness of the data."""
    figures = [(row, name, figure) for row in table.rows for name, figure in row.figures.items()]
    wrong = [entry for entry in figures if entry[2].wrong_elements]
    checked = sum(figure.check == "checked" for _, _, figure in figures)
    end = "" if table.complete is not False else f"; {_ending_text(table)}"
    if not figures:
        return Text(f"data: no row{end}", style="red")
    if wrong:
        row, name, figure = wrong[0]
        place = plain(" ".join(filter(None, [size_text(row.size_bytes), row.dtype, PLACEMENT_WORDS[name]])))
        first = figure.first_wrong[0] if figure.first_wrong else None
        at = f", first at rank {first.rank}, index {first.index}" if first else ""
        count = count_text(figure.wrong_elements or 0, "element")
        return Text(
            f"data: WRONG in {len(wrong)} of {len(figures)} measurements: {place} ({count}{at}){end}", "bold red"
        )
    if checked == len(figures):
        return Text(f"data: right in all {count_text(checked, 'measurement')}{end}", style="yellow" if end else "green")
    if checked:
        return Text(
            f"data: right in the {checked} of {len(figures)} measurements that were checked{end}", style="yellow"
        )
    return Text(f"data: not checked, or not stated in the log{end}", style="yellow")


def _ending_text(table: Table) -> str:
    if table.end_reason and table.end_reason != "killed":
        return f"the run ended early ({plain(table.end_reason)})"
    return "the log has no end: the run was killed or is still running"


def _heading(table: Table, prefix: str) -> list[Text]:
    names = list(dict.fromkeys(row.collective for row in table.rows if row.collective))
    title = ", ".join(names) or table.collective or table.program or "unknown collective"
    hosts = table.hosts
    hosts_text = f"{count_text(len(hosts), 'host')} ({', '.join(hosts[:3])}{', ...' if len(hosts) > 3 else ''})"
    kinds = ("dtype", "redop", "root", "ranks")
    shared = {kind: next(iter({getattr(row, kind) for row in table.rows})) for kind in kinds if _agree(table, kind)}
    ranks = table.ranks or shared.get("ranks")
    properties = [
        shared.get("dtype"),
        shared.get("redop"),
        None if (root := shared.get("root")) is None else f"root {root}",
    ]
    title = " ".join([title, *(str(part) for part in properties if part)])
    made = [Text(prefix + plain(title), style="bold")]
    if table.title:
        made.append(Text(plain(table.title)))
    facts = [
        count_text(ranks, "rank") if ranks else "unknown number of ranks",
        f"on {hosts_text}" if hosts else "",
        ", ".join(table.devices),
    ]
    made.append(Text(plain("ran: " + " ".join(filter(None, facts[:2])) + (f", {facts[2]}" if facts[2] else ""))))
    by = [table.library, table.program_version, table.start_time, f"format {table.format}"]
    made.append(Text(plain("by:  " + ", ".join(part for part in by if part))))
    return made


def _agree(table: Table, kind: str) -> bool:
    return len({getattr(row, kind) for row in table.rows}) == 1


def _columns(view: _TableView) -> list[Column]:
    rows = view.table.rows
    columns = [Column("size", [Cell(size_text(row.size_bytes)) for row in rows])]
    for weight, name in enumerate(("group", "cycle", "root", "redop", "dtype", "variant", "collective"), start=30):
        if not _agree(view.table, name):
            values = [getattr(row, name) for row in rows]
            cells = [Cell("" if value is None else plain(str(value))) for value in values]
            columns.append(Column(name, cells, right=False, weight=weight))
    for placement in view.placements:
        columns += _placement_columns(view, placement)
    expected = [view.expected.busbw_gbps(row) for row in rows]
    texts = [f"{_number(span.low)}-{_number(span.high)}" if span else "" for span in expected]
    columns.append(Column("expected", [Cell(text, "dim") for text in texts], weight=20, group="busbw GB/s"))
    return columns


def _placement_columns(view: _TableView, placement: Placement) -> list[Column]:
    rows = view.table.rows
    figures = [row.figures.get(placement, Figure()) for row in rows]
    group = PLACEMENT_WORDS[placement]
    times = [_number(figure.time_us if figure.time_us is not None else figure.cpu_time_us) for figure in figures]
    busbw = [
        Cell(_number(figure.busbw_gbps), _style(figure, view.expected.deciding_range(row)))
        for row, figure in zip(rows, figures, strict=True)
    ]
    p99 = [_number(figure.stats.p99_us if figure.stats else None) for figure in figures]
    spread = [figure.stats.cv_percent if figure.stats else None for figure in figures]
    return [
        Column("time us", [Cell(text) for text in times], group=group),
        Column("device", [Cell(_number(figure.device_time_us)) for figure in figures], weight=12, group=group),
        Column("launch", [Cell(_number(figure.launch_time_us)) for figure in figures], weight=6, group=group),
        Column("p99 us", [Cell(text) for text in p99], weight=10, group=group),
        Column(
            "cv %",
            [
                Cell(_number(value), "yellow" if value is not None and value > NOISY_CV_PERCENT else "")
                for value in spread
            ],
            weight=8,
            group=group,
        ),
        Column("algbw", [Cell(_number(figure.algbw_gbps)) for figure in figures], weight=15, group=group),
        Column("busbw", busbw, group=group),
        Column("wrong", [_wrong(figure) for figure in figures], weight=25, group=group),
    ]


def _style(figure: Figure, expected: RangeLike | None) -> str:
    """Returns red below the expected range and green otherwise. Empty if unknown."""
    if expected is None or figure.busbw_gbps is None:
        return ""
    return "red" if figure.busbw_gbps < expected.low else "green"


def _wrong(figure: Figure) -> Cell:
    if figure.wrong_elements:
        return Cell(str(figure.wrong_elements), "bold red")
    texts = {"checked": "0", "not_applicable": "N/A", "not_checked": "-", "unstated": ""}
    return Cell(texts[figure.check])


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}" if value >= 100 else f"{value:.2f}"


def _pictures(view: _TableView, width: int) -> list[str | Text]:
    rows = view.table.rows
    spans = {row.size_bytes: span.typical for row in rows if (span := view.expected.busbw_gbps(row))}
    is_side_by_side = width >= _TWO_PLOTS_WIDTH
    each = (width - 2) // 2 if is_side_by_side else width
    left = plot.busbw_over_size(rows, width=each, height=_height(is_side_by_side), expected=spans)
    right = plot.time_over_size(rows, width=each, height=_height(is_side_by_side))
    if not left and not right:
        return []
    if left and right and is_side_by_side:
        return ["", *plot.join_columns(left, right, min(each, plot.WIDTH) + 2).splitlines()]
    return [line for picture in (left, right) if picture for line in ("", *picture.splitlines())]


def _height(is_side_by_side: bool) -> int:
    return plot.HEIGHT if is_side_by_side else plot.HEIGHT - 4


def _row_warnings(table: Table) -> list[str]:
    """Returns each distinct warning of the measurements, with its first place and the number of others."""
    places: dict[str, list[str]] = {}
    for row in table.rows:
        for name, figure in row.figures.items():
            for warning in figure.warnings:
                place = " ".join(filter(None, [size_text(row.size_bytes), PLACEMENT_WORDS[name]]))
                places.setdefault(warning, []).append(place)
    return [
        f"{found[0]}{f' and {len(found) - 1} more' if len(found) > 1 else ''}: {warning}"
        for warning, found in places.items()
    ]


def _sentences(kind: str, sentences: Sequence[str], style: str) -> list[Text]:
    made = [Text(f"{kind}: {plain(sentence)}", style=style) for sentence in sentences[:_MAX_SENTENCES]]
    if len(sentences) > _MAX_SENTENCES:
        made.append(Text(f"{kind}: and {len(sentences) - _MAX_SENTENCES} more (busbw import shows all)", style=style))
    return made
