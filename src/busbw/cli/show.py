"""`busbw show`: one log or run on one screen."""

import click

from busbw import readers
from busbw.errors import ExitCode, UsageError
from busbw.expect import ExpectedRange, estimator, network_nics_finder
from busbw.exporters.redact import redact
from busbw.logs import Log, Row, Table
from busbw.store import find
from busbw.terminal import ExpectationColumns, activity, console, screen, width_of


@click.command()
@click.argument("run", metavar="RUN|FILE")
@click.option("--table", "numbers", type=click.IntRange(min=1), multiple=True, metavar="N", help="Only table N.")
@click.option("--plot/--no-plot", "draw", default=True, help="Draw busbw and time over size.  [default: --plot]")
@click.option("--redact", "is_redacted", is_flag=True, help="For sharing: no names of hosts and people, paths, ids.")
def show(run: str, numbers: tuple[int, ...], draw: bool, is_redacted: bool) -> int:
    """Shows RUN (a run's name or the beginning of it, or "last") or the log FILE of this or another tool.

    What ran on what, whether the data were right, the table, curves, warnings. Exit code 1 where data are wrong.
    """
    with activity(f"reading {run}"):
        log = readers.read(find(run))
    _demand(log, numbers)
    shown = redact(log) if is_redacted else log
    out = console()
    with activity(f"drawing {run}"):
        lines = screen(shown, width=width_of(), expected=_expected, draw=draw, numbers=numbers or None)
    for line in lines:
        out.print(line)
    figures = (figure for row in log.rows for figure in row.figures.values())
    return ExitCode.WRONG_DATA if any(figure.wrong_elements for figure in figures) else ExitCode.GOOD


def _demand(log: Log, numbers: tuple[int, ...]) -> None:
    """Refuses to show nothing."""
    if not log.rows:
        reasons = [f"line {line.line}: {line.reason}" for line in log.refused] or list(log.warnings)
        if any(table.complete is False for table in log.tables):
            reasons = ["the run ended before its first row"]
        why = f": {reasons[0]}" if reasons else ""
        raise UsageError(f"no row of a table could be read from {log.source}{why}", remedy="give a log with its table")
    if wrong := [number for number in numbers if number > len(log.tables)]:
        raise UsageError(f"--table {wrong[0]}: the log has {len(log.tables)}", remedy="give a number up to that")


def _expected(table: Table) -> ExpectationColumns:
    estimate, crossed = estimator(table), network_nics_finder(table)

    def busbw_gbps(row: Row) -> ExpectedRange | None:
        known = estimate(row)
        return known.busbw_gbps if known else None

    def assumed(row: Row) -> str:
        nics = crossed(row)
        return f"{nics.assumption} (busbw check --nics)" if nics and nics.assumption else ""

    return ExpectationColumns(busbw_gbps, assumed)
