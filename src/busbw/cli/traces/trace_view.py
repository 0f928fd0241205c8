"""Prints the analysis of a trace: facts, table of operations, ranks, findings and the changes that would save most."""

from collections.abc import Iterator

from rich.text import Text

from busbw.cli.traces.lines import column_lines, fact_lines, hidden_line
from busbw.support.json_output import json_object
from busbw.terminal import console, labeled_lines, terminal_width
from busbw.traces.analysis import TraceAnalysis
from busbw.traces.analysis.text import fact_texts, operation_columns, rank_columns, saving_text
from busbw.units import plain

_MAX_OPERATION_ROWS = 40
_MAX_RANK_ROWS = 16


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
        yield from fact_lines(name, text, width)
    yield from column_lines(operation_columns(analysis, _MAX_OPERATION_ROWS), width)
    yield from hidden_line(len(analysis.rows) - _MAX_OPERATION_ROWS, "row")
    caption = f"calls and bytes of one rank per {analysis.period}"
    if any(row.transfer_us is not None for row in analysis.rows):
        caption += "; transfer: after the last rank has arrived; algbw, busbw: of the transfer in GB/s; <, >: bounds"
    yield from labeled_lines("", caption, width, "dim")
    if any(rank.communication_us is not None for rank in analysis.ranks):
        yield from column_lines(rank_columns(analysis, _MAX_RANK_ROWS), width)
        yield from hidden_line(len(analysis.ranks) - _MAX_RANK_ROWS, "rank")
        caption = f"means per {analysis.period}; waits: for later ranks; late: by its own computing, at most"
        yield from labeled_lines("", caption, width, "dim")
    yield Text()
    for finding in analysis.findings:
        yield from fact_lines("found", finding.text, width, "yellow")
    for number, change in enumerate(analysis.changes, start=1):
        saving = f"{saving_text(change, analysis.period)} ({change.basis})"
        yield from fact_lines(f"change {number}", f"{saving}: {change.text}. Assumes: {change.assumption}.", width)
    for problem in analysis.problems:
        yield from fact_lines("problem", problem, width, "yellow")
    for note in analysis.notes:
        yield from fact_lines("note", note, width, "dim")
