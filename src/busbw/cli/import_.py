"""`busbw import`: reads logs of all known programs; shows their tables, and refused lines with the reasons.

A reader yields a file as events: chunks of a table (`TableChunk`), refused lines (`Refusal`) and remarks (`LogNote`).
Files of any length are read in bounded memory, except with `--json`.
"""

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click
import msgspec
from rich.padding import Padding
from rich.text import Text

from busbw import readers
from busbw.cli.options.completion import complete_collective
from busbw.cli.options.engine_flags import find_collective
from busbw.cli.options.param_types import NonEmptyPath
from busbw.errors import BusbwError, ExitCode, UsageError
from busbw.exporters.redact import redact_all
from busbw.logs.log import Log, Refusal, Table
from busbw.logs.plain_rows import PlainRows, field_values
from busbw.readers import Event, LogNote, TableChunk, UserClaims
from busbw.support.files import path_text
from busbw.support.json_output import encode_item, json_object, object_with_lists, print_object
from busbw.terminal import Column, StreamConsole, activity, table_lines
from busbw.units import count_text, escape_json, plain, shorten, size_range_text

_ROWS_REFUSED = ExitCode.WRONG_DATA
"""Exit code if rows were refused. `busbw import` gives 1 this meaning (docs/reference/exit-codes.md)."""
_MAX_TABLES = 60
"""Maximum number of tables of a file that are shown."""
_MAX_REFUSALS = 10
"""Maximum number of refused lines of a file that are shown."""
_MAX_SKIPPED = 5
"""Maximum number of skipped files of a folder that are named."""


@dataclass
class _Totals:
    """Counts and read errors over all files."""

    row_count: int = 0
    refused_count: int = 0
    failures: list[BusbwError] = field(default_factory=list)


@dataclass
class _TableSummary:
    """Summary of a table without its rows. Chunks of the table are added as they are read."""

    table: Table
    """The last chunk without its rows. It has the warnings about the whole table."""
    row_count: int = 0
    size_range: tuple[int, int] | None = None
    """Minimum and maximum in bytes. None without rows."""
    dtypes: set[str] = field(default_factory=set)
    variants: set[str] = field(default_factory=set)
    best_busbw_gbps: float | None = None
    best_algbw_gbps: float | None = None

    def add(self, table: Table) -> None:
        """Adds another chunk of the same table."""
        rows = table.rows
        sizes_bytes = list(field_values(rows, "size_bytes"))
        self.dtypes.update(filter(None, field_values(rows, "dtype")))
        self.variants.update(filter(None, field_values(rows, "variant")))
        busbws_gbps: list[float | None] = [self.best_busbw_gbps]
        algbws_gbps: list[float | None] = [self.best_algbw_gbps]
        if isinstance(rows, PlainRows):  # faster than to make the rows
            for figures in (rows.columns.out_of_place, rows.columns.in_place):
                busbws_gbps += figures.busbws_gbps
                algbws_gbps += figures.algbws_gbps
        else:
            for row in rows:
                busbws_gbps += [figure.busbw_gbps for figure in row.figures.values()]
                algbws_gbps += [figure.algbw_gbps for figure in row.figures.values()]
        self.row_count += len(rows)
        if sizes_bytes:
            known_bytes = [*sizes_bytes, *(self.size_range or ())]
            self.size_range = (min(known_bytes), max(known_bytes))
        self.best_busbw_gbps = _maximum(busbws_gbps)
        self.best_algbw_gbps = _maximum(algbws_gbps)
        self.table = msgspec.structs.replace(table, rows=())


def _maximum(values: Iterable[float | None]) -> float | None:
    """Maximum of the known values. None if all are unknown."""
    return max((value for value in values if value is not None), default=None)


@click.command(name="import")
@click.argument("paths", nargs=-1, required=True, metavar="FILE...", type=NonEmptyPath())
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: tables, rows, refused rows, warnings.")
@click.option("--rows", "as_rows", is_flag=True, help="Print every row as a line of JSON, for logs of any length.")
@click.option(
    "--collective",
    metavar="NAME",
    shell_complete=complete_collective,
    help="Collective of a log that does not name it; checked by arithmetic.",
)
@click.option("--redact", "redacted", is_flag=True, help="With --json: remove host names, paths and environment.")
def import_(paths: tuple[Path, ...], as_json: bool, as_rows: bool, collective: str | None, redacted: bool) -> int:
    """Reads logs: files, folders, or standard input (-), of this program, nccl-tests of any year, and others.

    Exit codes: 0 all rows were read, 1 some rows were refused, 2 a file could not be read.
    """
    if as_json and as_rows:
        raise UsageError("--json and --rows exclude each other", remedy="give only one")
    if redacted and not as_json:
        raise UsageError("--redact needs --json", remedy="add --json")
    claims = UserClaims(None if collective is None else find_collective(collective, "--collective: "))
    totals = _Totals()
    print_file: Callable[[Path, UserClaims, _Totals], None] = _print_rows if as_rows else _print_summary
    if as_json:
        _print_object(paths, claims, totals, redacted=redacted)
    else:
        for path in _log_files(paths, totals):
            print_file(path, claims, totals)
    if totals.failures:
        *printed, raised = totals.failures  # the raised error is printed last, and sets the exit code
        for error in printed:
            _print_remark(f"busbw: {error}")
        raise raised
    return _ROWS_REFUSED if totals.refused_count else ExitCode.GOOD


def _log_files(paths: tuple[Path, ...], totals: _Totals) -> Iterator[Path]:
    """Yields the files. A folder stands for its files with a row, which may be a refused one.

    Names the first skipped files of a folder on stderr, and counts the others.
    """
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        has_log, skipped_count = False, 0
        files = [file for file in path.rglob("*") if file.is_file() and not _is_hidden(file, path)]
        for file in sorted(files):
            if reason := _skip_reason(file):
                skipped_count += 1
                if skipped_count <= _MAX_SKIPPED:
                    _print_remark(f"skipped: {reason}")
            else:
                has_log = True
                yield file
        if skipped_count > _MAX_SKIPPED:
            more_files = count_text(skipped_count - _MAX_SKIPPED, "more file")
            _print_remark(f"skipped: {more_files} in {path} without a row")
        if not has_log:
            totals.failures.append(
                UsageError(f"no file in {path} has a row of a known format", remedy="give a folder of logs")
            )


def _is_hidden(file: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in file.relative_to(folder).parts)


def _skip_reason(file: Path) -> str:
    """Returns the reason to skip a file of a folder. Empty for a log."""
    try:
        has_row = any(isinstance(event, TableChunk | Refusal) for event in readers.stream(file))
    except UsageError as error:
        return error.problem
    return "" if has_row else f"{file} has no row"


def _events(path: Path, claims: UserClaims, totals: _Totals) -> Iterator[Event]:
    """Yields the events of a file, and counts its rows. Stores a read error, so that other files are still read."""
    try:
        for event in readers.stream(path, claims):
            if isinstance(event, TableChunk):
                totals.row_count += len(event.table.rows)
            elif isinstance(event, Refusal):
                totals.refused_count += 1
            yield event
    except BusbwError as error:
        totals.failures.append(error)


def _print_rows(path: Path, claims: UserClaims, totals: _Totals) -> None:
    """Prints each row as one JSON object, for `--rows`."""
    sys.stdout.flush()
    out, encode = sys.stdout.buffer, msgspec.json.Encoder().encode
    for event in _events(path, claims, totals):
        if isinstance(event, TableChunk):
            # Joins two objects to one: {"source":"a.log","table":7} and {"size_bytes":8} give
            # {"source":"a.log","table":7,"size_bytes":8}.
            source = json_object({"source": path_text(path), "table": event.table.first_line}).removesuffix(b"}")
            for row in event.table.rows:
                out.write(source + b"," + escape_json(encode(row)).removeprefix(b"{") + b"\n")
            if event.is_last:
                for warning in event.table.warnings:
                    _print_remark(f"{path}:{event.table.first_line}: {warning}")
        elif isinstance(event, Refusal):
            _print_remark(f"{path}:{event.line}: refused: {event.reason}")
        else:
            _print_remark(f"{path}: {event.sentence}")
    out.flush()


def _print_remark(text: str) -> None:
    """Prints a sentence about a file on stderr. Names and log text in it must not control or flood the terminal."""
    click.echo(shorten(plain(text)), err=True)


def _print_object(paths: tuple[Path, ...], claims: UserClaims, totals: _Totals, *, redacted: bool) -> None:
    """Prints one JSON object about all files, for `--json`. Prints nothing if reading failed before the first row."""
    logs: list[Log] = [
        readers.collect(path_text(path), _events(path, claims, totals)) for path in _log_files(paths, totals)
    ]
    if totals.failures and not totals.row_count and not totals.refused_count:
        return
    if redacted:
        logs = list(redact_all(logs))
    result = {
        "sources": [log.source for log in logs],
        "rows": totals.row_count,
        "candidate_rows": sum(log.candidate_rows for log in logs),
    }
    lists = {
        "tables": (_encode_table(log, table) for log in logs for table in log.tables),
        "refused": (_encode_refusal(log, refusal) for log in logs for refusal in log.refused),
        "warnings": map(encode_item, _warning_objects(logs, totals.failures)),
    }
    print_object(result, lists, b"\n")


def _encode_table(log: Log, table: Table) -> Iterator[bytes]:
    fields = {"source": log.source, **msgspec.to_builtins(msgspec.structs.replace(table, rows=()))}
    return object_with_lists(fields, {"rows": map(encode_item, table.rows)}, b"\n")


def _encode_refusal(log: Log, refusal: Refusal) -> Iterator[bytes]:
    return encode_item({"source": log.source, **msgspec.to_builtins(refusal)})


def _warning_objects(logs: Sequence[Log], failures: Sequence[BusbwError]) -> Iterator[dict[str, object]]:
    """Yields warnings about logs, then those about tables, then read errors."""
    for log in logs:
        for text in log.warnings:
            yield {"source": log.source, "line": None, "message": text}
    for log in logs:
        for table in log.tables:
            for text in table.warnings:
                yield {"source": log.source, "line": table.first_line, "message": text}
    for error in failures:
        yield {"source": None, "line": None, "message": str(error)}


def _print_summary(path: Path, claims: UserClaims, totals: _Totals) -> None:
    """Prints the tables of a file and its refused lines, for a terminal."""
    overview = _FileOverview()
    with activity(f"reading {path}"):
        for event in _events(path, claims, totals):
            overview.add(event)
    if overview.is_empty:
        return
    console = StreamConsole(width=shutil.get_terminal_size((100, 24)).columns, highlight=False)
    for line in overview.lines(path, console.width):
        console.print(line)


class _FileOverview:
    """Contents of a file: the first tables and refused lines, all notes, and counts. A file has few notes."""

    def __init__(self) -> None:
        self._summaries: list[_TableSummary] = []
        """The first tables."""
        self._incomplete: dict[int, _TableSummary] = {}
        """Tables with further chunks to come, by their first line."""
        self._refusals: list[Refusal] = []
        """The first refused lines."""
        self._notes: list[str] = []
        self._row_count = self._table_count = self._refusal_count = 0

    @property
    def is_empty(self) -> bool:
        return not (self._row_count or self._table_count or self._refusal_count)

    def add(self, event: Event) -> None:
        if isinstance(event, Refusal):
            self._refusal_count += 1
            if len(self._refusals) < _MAX_REFUSALS:
                self._refusals.append(event)
        elif isinstance(event, LogNote):
            self._notes.append(event.sentence)
        else:
            self._add_table(event)

    def _add_table(self, chunk: TableChunk) -> None:
        self._row_count += len(chunk.table.rows)
        line = chunk.table.first_line
        summary = self._incomplete.pop(line, None)
        if summary is None:  # the first chunk of the table
            self._table_count += 1
            is_shown = self._table_count <= _MAX_TABLES
            if not is_shown and chunk.is_last:
                return
            summary = _TableSummary(chunk.table)
            if is_shown:
                self._summaries.append(summary)
        summary.add(chunk.table)
        # A table that is not shown is kept too, so that its next chunk does not count as another table.
        if not chunk.is_last:
            self._incomplete[line] = summary

    def lines(self, path: Path, width: int) -> Iterator[Text | Padding]:
        """Yields the lines for the terminal."""
        candidate_rows = count_text(self._row_count + self._refusal_count, "row")
        heading = f"{path}: {self._row_count:,} of {candidate_rows} read, {count_text(self._table_count, 'table')}"
        yield Text(plain(heading), style="bold")
        if self._summaries:
            yield from table_lines(_summary_columns(self._summaries), width)
        if self._table_count > len(self._summaries):
            yield Text(f"  and {self._table_count - len(self._summaries):,} more tables")
        for summary in self._summaries:
            table = summary.table
            if table.early_end_text:
                yield _remark(f"line {table.first_line}: {table.early_end_text}", "yellow")
            for warning in table.warnings:
                yield _remark(f"line {table.first_line}: {warning}", "yellow")
        for note in self._notes:
            yield _remark(note, "yellow")
        for refusal in self._refusals:
            yield _remark(f"line {refusal.line} refused: {refusal.reason}", "red")
        if self._refusal_count > len(self._refusals):
            yield _remark(f"and {self._refusal_count - len(self._refusals):,} more refused", "red")


def _remark(text: str, style: str) -> Padding:
    """An indented line below the tables."""
    return Padding(Text(plain(text), style=style), (0, 0, 0, 2), expand=False)


def _summary_columns(summaries: list[_TableSummary]) -> list[Column]:
    tables = [summary.table for summary in summaries]
    sizes = [size_range_text(summary.size_range) if summary.size_range else "none" for summary in summaries]
    return [
        Column("line", [table.first_line for table in tables]),
        Column("collective", [plain(table.collective or "?") for table in tables], is_number=False),
        Column("ranks", [table.ranks or "?" for table in tables]),
        Column("type", [plain(", ".join(sorted(summary.dtypes))) or "?" for summary in summaries], is_number=False),
        Column("sizes", sizes, is_number=False),
        Column("rows", [f"{summary.row_count:,}" for summary in summaries]),
        Column("best GB/s", [_best_text(summary) for summary in summaries]),
        Column("format", [_format_text(summary) for summary in summaries], is_number=False),
    ]


def _best_text(summary: _TableSummary) -> str:
    if summary.best_busbw_gbps is not None:
        return f"{summary.best_busbw_gbps:.2f} bus"
    return "?" if summary.best_algbw_gbps is None else f"{summary.best_algbw_gbps:.2f} alg"


def _format_text(summary: _TableSummary) -> str:
    variants = f": {', '.join(sorted(summary.variants))}" if summary.variants else ""
    return plain(f"{summary.table.format}{variants}")
