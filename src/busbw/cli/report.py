"""`busbw report`: writes one HTML file with verdict, curves and rows, built by `busbw.report`."""

import dataclasses
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import click
from msgspec.structs import replace

from busbw.cli.options.completion import complete_log, complete_names
from busbw.cli.options.output_file import reject_input, write_whole
from busbw.cli.options.param_types import NonEmptyPath
from busbw.cli.options.redact_option import redact_option
from busbw.cli.options.reference_option import reference_option, select_reference
from busbw.cli.options.system_option import SYSTEM_WORDS, find_system, sharp_option
from busbw.cli.options.trace_argument import find_trace
from busbw.cli.outcome.possible_causes import (
    cause_sentences,
    causes_in_log,
    causes_in_run,
    run_cause_sentences,
)
from busbw.errors import ExitCode, UsageError
from busbw.exporters.redact import redact_all, with_expectation_fields
from busbw.judge import ReferenceSelection
from busbw.logs.log import Log
from busbw.logs.plain_rows import first_rows, has_wrong_data
from busbw.readers.documents.busbw_records import SearchRecordError
from busbw.report import Page, ReportInput, build, build_trace, render
from busbw.searches.recorded_search import read_search, redact_search
from busbw.store import find, read_named_logs
from busbw.support.files import path_text
from busbw.system import System, systems
from busbw.terminal import activity
from busbw.traces.analysis import analyze, make_timeline, prepare_trace
from busbw.traces.model import Trace
from busbw.traces.redact import redact_trace
from busbw.units import count_text

_MAX_TABLES = 500
"""Maximum number of tables of a log in one page. Browsers become slow with more."""
_MAX_ROWS = 20_000
"""Maximum number of rows of a table that one page covers."""


@click.command()
@click.argument("names", metavar="RUN|FILE|FOLDER|TRACE...", nargs=-1, required=True, shell_complete=complete_log)
@click.option(
    "-o",
    "--output",
    type=NonEmptyPath(dir_okay=False, allow_dash=True),
    metavar="FILE",
    default="report.html",
    show_default=True,
    help="Output file, replaced if it exists; -: standard output.",
)
@reference_option("Judge by a reference instead of the expectation, as in `busbw check`.")
@click.option(
    "--system",
    "system_options",
    metavar="[N[.T]=]NAME|FILE|auto|here",
    shell_complete=complete_names(lambda: (*SYSTEM_WORDS, *systems()), or_files=True),
    multiple=True,
    help="System of the logs; N= applies to log N only, N.T= to its table T only; auto, here: as in `busbw check`.  "
    "[default: auto]",
)
@sharp_option
@click.option("--title", metavar="TEXT", help="Heading of the page.  [default: name of the log, or number of logs]")
@redact_option
def report(
    names: Sequence[str],
    output: Path,
    reference_name: str | None,
    system_options: Sequence[str],
    title: str | None,
    *,
    sharp: bool,
    is_redacted: bool,
) -> int:
    """Writes one HTML file about runs and logs (verdict, curves, comparison, scatter, rows), or about one trace.

    It compares two logs with each other. The file needs no network and no other file. Exit code 1 for wrong data.
    """
    reject_input(output, names)
    with activity("reading"):
        if len(names) == 1 and (trace := find_trace(names[0])):
            return _write_trace_page(trace, system_options, title, is_redacted=is_redacted, output=output)
        warnings: list[str] = []
        try:
            whole_logs = list(read_named_logs(names, warnings.append, warnings.append))
        except SearchRecordError:
            if len(names) > 1:
                raise UsageError("a search has a page of its own", remedy="report it alone") from None
            return _write_search_page(find(names[0]), title, is_redacted=is_redacted, output=output)
        have_wrong_data = list(map(has_wrong_data, whole_logs))
        logs = list(map(_first_tables, whole_logs, have_wrong_data))
    if not any(log.has_rows for log in logs):
        raise UsageError(f"{logs[0].source} has no readable row", remedy="run busbw import to see why")
    systems_by_log = _select_systems(logs, system_options)
    reference_selection = select_reference(reference_name)
    if is_redacted:
        inputs, reference_selection = _redact_inputs(logs, systems_by_log, reference_selection)
        warnings = [f"{count_text(len(warnings), 'warning')} about files removed here."] if warnings else []
    else:
        inputs = [
            ReportInput(log, log_systems, find_causes=_causes)
            for log, log_systems in zip(logs, systems_by_log, strict=True)
        ]
    inputs = [dataclasses.replace(report_input, sharp=sharp) for report_input in inputs]
    with activity("judging and drawing"):
        page = build(inputs, selection=reference_selection, warnings=warnings, title=title, is_redacted=is_redacted)
    _write_page(page, output)
    return ExitCode.WRONG_DATA if any(have_wrong_data) else ExitCode.GOOD


def _write_trace_page(
    trace: Trace, system_options: Sequence[str], title: str | None, *, is_redacted: bool, output: Path
) -> int:
    if len(system_options) > 1:
        raise UsageError(f"--system {system_options[1]}: a trace has one system", remedy="set it once")
    prepared = prepare_trace(redact_trace(trace) if is_redacted else trace)
    analysis = analyze(prepared, system=find_system(system_options[0]) if system_options else None)
    return _write_page(
        build_trace(analysis, make_timeline(prepared, analysis), title=title, is_redacted=is_redacted), output
    )


def _write_search_page(path: Path, title: str | None, *, is_redacted: bool, output: Path) -> int:
    from busbw.report.search import build_search  # slow, and only pages of searches need it

    search, source = read_search(path), path_text(path)
    if is_redacted:
        search, source = redact_search(search), "search"
    return _write_page(build_search(search, source, title=title, is_redacted=is_redacted), output)


def _causes(log: Log) -> tuple[str, ...]:
    """Returns sentences on the causes that the log states, or else that its environment variables suggest."""
    if causes := causes_in_log(Path(log.source)):
        return tuple(cause_sentences(causes, f"busbw doctor --log {shlex.quote(log.source)}"))
    return tuple(run_cause_sentences(causes_in_run(log)))


def _write_page(page: Page, output: Path) -> int:
    write_whole(None if str(output) == "-" else output, render(page).encode())
    if str(output) != "-":
        click.echo(f"{output}: {page.headline}")
    return ExitCode.GOOD


def _first_tables(log: Log, log_has_wrong_data: bool) -> Log:
    """Returns the part of a long log that a page can show, with a warning if it is not the whole log.

    `log_has_wrong_data` is true if the whole log has wrong data.
    """
    tables = tuple(replace(table, rows=first_rows(table.rows, _MAX_ROWS)) for table in log.tables[:_MAX_TABLES])
    row_count, shown_count = log.row_count, sum(len(table.rows) for table in tables)
    if shown_count == row_count and len(tables) == len(log.tables):
        return log
    warning = (
        f"this page covers {shown_count:,} of {count_text(row_count, 'row')} in {len(tables):,} of "
        f"{count_text(len(log.tables), 'table')}: the first {_MAX_TABLES:,} tables with {_MAX_ROWS:,} rows each; "
        "`busbw check` judges all"
    )
    first = replace(log, tables=tables, candidate_rows=shown_count + len(log.refused))
    if log_has_wrong_data and not has_wrong_data(first):
        warning += "; the rest has WRONG data"
    return replace(first, warnings=(*log.warnings, warning))


def _select_systems(logs: Sequence[Log], system_options: Sequence[str]) -> list[tuple[System | None, ...]]:
    """Returns the system of each table of each log, as set by `--system`. None for auto: the devices decide.

    A table has the system that is set for the table, else for its log, else for all logs.
    """
    selected: dict[tuple[int, int], System | None] = {}  # by numbers of log and table from 1; 0 means all
    for option_value in system_options:
        log_number, table_number, system_name = _parse_system_option(option_value, logs)
        if (log_number, table_number) in selected:
            raise UsageError(f"--system {option_value}: the system is set twice", remedy="set it once")
        selected[log_number, table_number] = find_system(system_name)

    def system_of(log_number: int, table_number: int) -> System | None:
        for key in ((log_number, table_number), (log_number, 0), (0, 0)):
            if key in selected:
                return selected[key]
        return None

    return [
        tuple(system_of(log_number, table_number) for table_number in range(1, len(log.tables) + 1))
        for log_number, log in enumerate(logs, start=1)
    ]


def _parse_system_option(option_value: str, logs: Sequence[Log]) -> tuple[int, int, str]:
    """Returns the numbers of log and table, and the system, of `N.T=NAME`, `N=NAME` or `NAME`. 0 means all."""
    match = re.fullmatch(r"(\d+)(?:\.(\d+))?=(.*)", option_value)
    if not match:
        return 0, 0, option_value
    log_number = int(match[1])
    if not 1 <= log_number <= len(logs):
        log_count_text = f"there {'is' if len(logs) == 1 else 'are'} {count_text(len(logs), 'log')}"
        raise UsageError(f"--system {option_value}: {log_count_text}", remedy="count the logs from 1")
    if match[2] is None:
        return log_number, 0, match[3]
    table_number, table_count = int(match[2]), len(logs[log_number - 1].tables)
    if not 1 <= table_number <= table_count:
        table_count_text = count_text(table_count, "table")
        raise UsageError(f"--system {option_value}: that log has {table_count_text}", remedy="count the tables from 1")
    return log_number, table_number, match[3]


def _redact_inputs(
    logs: Sequence[Log], systems_by_log: Sequence[tuple[System | None, ...]], reference: ReferenceSelection | None
) -> tuple[list[ReportInput], ReferenceSelection | None]:
    """Redacts logs and reference consistently: a name gets the same replacement in all of them."""
    reference_log = reference.log if reference else None
    all_logs = [*logs, reference_log] if reference_log else logs
    redacted_logs = redact_all(all_logs)
    inputs = [
        ReportInput(
            _without_titles(redacted_log),
            log_systems,
            judged=tuple(with_expectation_fields(redacted_log, log).tables),
        )
        # The log of the reference follows all others.
        for log, redacted_log, log_systems in zip(logs, redacted_logs[: len(logs)], systems_by_log, strict=True)
    ]
    if reference is None or reference_log is None:
        return inputs, reference
    log = with_expectation_fields(redacted_logs[-1], reference_log)
    return inputs, replace(reference, name="the reference", log=log)


def _without_titles(log: Log) -> Log:
    """Removes the redacted titles of the tables."""
    return replace(log, tables=tuple(replace(table, title=None) for table in log.tables))
