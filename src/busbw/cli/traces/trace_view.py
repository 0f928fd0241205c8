"""Prints the analysis of a trace: facts, table of operations, ranks, findings and the changes that would save most."""

import textwrap
from collections.abc import Iterator, Sequence

from rich.text import Text

from busbw.json_output import json_object
from busbw.terminal import Cell, Column, console, table_lines, terminal_width
from busbw.traces.analysis import TraceAnalysis
from busbw.traces.analysis.text import TextColumn, fact_texts, operation_columns, rank_columns, saving_text
from busbw.units import count_text, plain

_MAX_OPERATION_ROWS = 40
_MAX_RANK_ROWS = 16
_LABEL_WIDTH = 10


def print_trace(analysis: TraceAnalysis, *, as_json: bool) -> None:
    """Prints the analysis as text or as one JSON object."""
    out = console()
    if as_json:
        out.print(json_object(analysis).decode())
        return
    for line in _trace_lines(analysis, terminal_width()):
        out.print(line)


def _trace_lines(analysis: TraceAnalysis, width: int) -> Iterator[Text]:
    yield Text(plain(analysis.name), "bold")
    for name, text in fact_texts(analysis):
        yield from _labeled_lines(name, text, width)
    yield from _table_lines(operation_columns(analysis, _MAX_OPERATION_ROWS), width)
    yield from _hidden_line(len(analysis.rows) - _MAX_OPERATION_ROWS, "row")
    caption = f"calls and bytes of one rank per {analysis.period}"
    if any(row.transfer_us is not None for row in analysis.rows):
        caption += "; transfer: after the last rank has arrived; algbw, busbw: of the transfer in GB/s; <, >: bounds"
    yield from _wrapped(caption, width, "dim")
    if any(one.communication_us is not None for one in analysis.ranks):
        yield from _table_lines(rank_columns(analysis, _MAX_RANK_ROWS), width)
        yield from _hidden_line(len(analysis.ranks) - _MAX_RANK_ROWS, "rank")
        yield from _wrapped(
            f"means per {analysis.period}; waits: for later ranks; late: by its own computing", width, "dim"
        )
    yield Text()
    for finding in analysis.findings:
        yield from _labeled_lines("found", finding.text, width, "yellow")
    for number, change in enumerate(analysis.changes, start=1):
        saving = f"{saving_text(change, analysis.period)} ({change.basis})"
        yield from _labeled_lines(f"change {number}", f"{saving}: {change.text}. Assumes: {change.assumption}.", width)
    for problem in analysis.problems:
        yield from _labeled_lines("problem", problem, width, "yellow")
    for note in analysis.notes:
        yield from _labeled_lines("note", note, width, "dim")


def _table_lines(columns: Sequence[TextColumn], width: int) -> Iterator[Text]:
    yield Text()
    yield from table_lines(
        [
            Column(one.name, [Cell(plain(cell)) for cell in one.cells], right=one.is_number, weight=one.weight)
            for one in columns
        ],
        width,
    )


def _hidden_line(count: int, noun: str) -> Iterator[Text]:
    if count > 0:
        yield Text(f"and {count_text(count, f'more {noun}')}; --json has all", "yellow")


def _labeled_lines(label: str, text: str, width: int, style: str = "") -> Iterator[Text]:
    yield from _wrapped(f"{label + ':':<{_LABEL_WIDTH}}{plain(text)}", width, style, " " * _LABEL_WIDTH)


def _wrapped(text: str, width: int, style: str, indent: str = "") -> Iterator[Text]:
    for line in textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False):
        yield Text(line, style)
