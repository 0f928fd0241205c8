"""`busbw show`: shows one log or run on one screen."""

import click
from msgspec.structs import asdict

from busbw import readers
from busbw.cli.options.json_option import json_option
from busbw.errors import ExitCode, UsageError
from busbw.expect import ExpectedRange, estimator, network_nics_finder
from busbw.exporters.redact import redact
from busbw.json_output import json_object
from busbw.logs import Log, Row, Table
from busbw.store import find
from busbw.terminal import ExpectationColumns, activity, console, log_lines, terminal_width


@click.command()
@click.argument("run", metavar="RUN|FILE")
@click.option(
    "--table", "numbers", type=click.IntRange(min=1), multiple=True, metavar="N", help="Show only table N; repeatable."
)
@click.option("--plot/--no-plot", "draw", default=True, help="Draw busbw and time over size.  [default: --plot]")
@json_option
@click.option(
    "--redact", "is_redacted", is_flag=True, help="Remove names of hosts and people, paths and ids, for sharing."
)
def show(run: str, numbers: tuple[int, ...], draw: bool, as_json: bool, is_redacted: bool) -> int:
    """Shows RUN (the start of a run's name, or "last") or the log FILE of this or another tool.

    It shows hardware, correctness, table, curves and warnings. Exit code 1 for wrong data.
    """
    with activity(f"reading {run}"):
        log = readers.read(find(run))
    _require_tables(log, numbers)
    shown_log = redact(log) if is_redacted else log
    exit_code = ExitCode.WRONG_DATA if log.has_wrong_data else ExitCode.GOOD
    if as_json:
        click.echo(json_object(_log_fields(shown_log, numbers)))
        return exit_code
    out = console()
    with activity(f"drawing {run}"):
        lines = log_lines(
            shown_log, width=terminal_width(), expected=_expectation_columns, draw=draw, numbers=numbers or None
        )
    for line in lines:
        out.print(line)
    return exit_code


def _require_tables(log: Log, numbers: tuple[int, ...]) -> None:
    """Refuses a log without rows, and a table number that does not exist."""
    if not log.rows:
        reasons = [f"line {refusal.line}: {refusal.reason}" for refusal in log.refused] or list(log.warnings)
        if any(table.complete is False for table in log.tables):
            reasons = ["the run ended before its first row"]
        reason = f": {reasons[0]}" if reasons else ""
        raise UsageError(f"{log.source} has no readable row{reason}", remedy="give a log with a table")
    if missing := [number for number in numbers if number > len(log.tables)]:
        raise UsageError(f"--table {missing[0]}: the log has {len(log.tables)}", remedy="give a smaller number")


def _log_fields(log: Log, numbers: tuple[int, ...]) -> dict[str, object]:
    """Returns the log as it is printed with `--json`: the fields of logs.py, with the expected busbw in each row."""
    tables = []
    for number, table in enumerate(log.tables, start=1):
        if numbers and number not in numbers:
            continue
        columns = _expectation_columns(table)
        rows = [
            {**asdict(row), "expected_busbw_gbps": columns.busbw_gbps(row), "assumption": columns.assumption(row)}
            for row in table.rows
        ]
        tables.append({"table": number, **asdict(table), "rows": rows})
    return {**asdict(log), "tables": tables}


def _expectation_columns(table: Table) -> ExpectationColumns:
    """Returns functions for the columns of the expectation: the busbw of a row, and the assumption behind it."""
    estimate, find_nics = estimator(table), network_nics_finder(table)

    def busbw_gbps(row: Row) -> ExpectedRange | None:
        row_estimate = estimate(row)
        return row_estimate.busbw_gbps if row_estimate else None

    def assumption(row: Row) -> str:
        nics = find_nics(row)
        return f"{nics.assumption} (busbw check --nics)" if nics and nics.assumption else ""

    return ExpectationColumns(busbw_gbps, assumption)
