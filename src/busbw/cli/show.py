"""`busbw show`: shows one log, run or trace on one screen."""

from collections.abc import Iterator

import click
from msgspec import to_builtins
from msgspec.structs import asdict, replace

from busbw import readers
from busbw.cli.options.completion import complete_log
from busbw.cli.options.json_option import json_option
from busbw.cli.options.redact_option import redact_option
from busbw.cli.options.system_option import find_system, system_option
from busbw.cli.options.trace_argument import find_trace
from busbw.cli.traces import print_trace
from busbw.errors import ExitCode, UsageError
from busbw.expect import ExpectedRange, estimator, network_nics_finder
from busbw.exporters.redact import redact
from busbw.logs.log import Log, Row, Table
from busbw.logs.plain_rows import has_wrong_data
from busbw.store import find
from busbw.support.files import path_text
from busbw.support.json_output import encode_item, object_with_lists, print_object
from busbw.system import System
from busbw.terminal import ExpectationColumns, activity, console, log_lines, terminal_width
from busbw.traces.analysis import analyze, prepare_trace
from busbw.traces.redact import redact_trace


@click.command()
@click.argument("run", metavar="RUN|FILE|TRACE", shell_complete=complete_log)
@click.option(
    "--table", "numbers", type=click.IntRange(min=1), multiple=True, metavar="N", help="Show only table N; repeatable."
)
@click.option("--plot/--no-plot", "draw", default=True, help="Draw busbw and time over size.  [default: --plot]")
@system_option
@json_option
@redact_option
def show(
    run: str,
    numbers: tuple[int, ...],
    draw: bool,
    system_name: str,
    as_json: bool,
    is_redacted: bool,
) -> int:
    """Shows RUN (the start of a run's name, or "last"), the log FILE of this or another tool, or a TRACE of a job.

    It shows hardware, correctness, table, curves and warnings; of a trace its operations, late ranks, and the changes
    that would save most. Exit code 1 for wrong data.
    """
    system = find_system(system_name)
    with activity(f"reading {run}"):
        trace = find_trace(run)
        if trace is not None:
            analysis = analyze(prepare_trace(redact_trace(trace) if is_redacted else trace), system=system)
    if trace is not None:
        print_trace(analysis, as_json=as_json)
        return ExitCode.GOOD
    path = find(run)
    if path.is_dir():
        raise UsageError(f"{path_text(run)} is a directory without a trace", remedy="name one of its files")
    with activity(f"reading {run}"):
        log = readers.read(path)
    _require_tables(log, numbers)
    shown_log = redact(log) if is_redacted else log
    exit_code = ExitCode.WRONG_DATA if has_wrong_data(log) else ExitCode.GOOD
    if as_json:
        lists = {"tables": _encode_tables(shown_log, numbers, system), "refused": map(encode_item, shown_log.refused)}
        print_object(replace(shown_log, tables=(), refused=()), lists)
        return exit_code
    out = console()
    lines = log_lines(
        shown_log,
        width=terminal_width(),
        expected=lambda table: _expectation_columns(table, system),
        draw=draw,
        numbers=numbers or None,
    )
    for line in lines:
        out.print(line)
    return exit_code


def _require_tables(log: Log, numbers: tuple[int, ...]) -> None:
    """Refuses a log without rows, and a table number that does not exist."""
    if not log.has_rows:
        reasons = [f"line {refusal.line}: {refusal.reason}" for refusal in log.refused[:1]] or list(log.warnings)
        if any(table.complete is False for table in log.tables):
            reasons = ["the run ended before its first row"]
        reason = f": {reasons[0]}" if reasons else ""
        raise UsageError(f"{log.source} has no readable row{reason}", remedy="give a log with a table")
    if missing := [number for number in numbers if number > len(log.tables)]:
        raise UsageError(f"--table {missing[0]}: the log has {len(log.tables)}", remedy="give a smaller number")


def _encode_tables(log: Log, numbers: tuple[int, ...], system: System | None) -> Iterator[Iterator[bytes]]:
    """Yields the tables for `--json`, with the fields of logs.py and the expected busbw in each row."""
    for number, table in enumerate(log.tables, start=1):
        if not numbers or number in numbers:
            fields = {"table": number, **to_builtins(replace(table, rows=()))}
            yield object_with_lists(fields, {"rows": map(encode_item, _rows_with_expectation(table, system))})


def _rows_with_expectation(table: Table, system: System | None) -> Iterator[dict[str, object]]:
    columns = _expectation_columns(table, system)
    for row in table.rows:
        yield {**asdict(row), "expected_busbw_gbps": columns.busbw_gbps(row), "assumption": columns.assumption(row)}


def _expectation_columns(table: Table, system: System | None) -> ExpectationColumns:
    """Returns functions for the columns of the expectation: the busbw of a row, and the assumption behind it."""
    estimate, find_nics = estimator(table, system), network_nics_finder(table, system)

    # Several passes over the sizes repeat rows, and an estimate takes long. So each estimate is kept.
    range_by_row: dict[tuple[object, ...], ExpectedRange | None] = {}

    def busbw_gbps(row: Row) -> ExpectedRange | None:
        key = (row.configuration, row.size_bytes)
        if key not in range_by_row:
            row_estimate = estimate(row)
            range_by_row[key] = row_estimate.busbw_gbps if row_estimate else None
        return range_by_row[key]

    def assumption(row: Row) -> str:
        nics = find_nics(row)
        return f"{nics.assumption} (busbw check --nics)" if nics and nics.assumption else ""

    return ExpectationColumns(busbw_gbps, assumption)
