"""`busbw import`: reads logs of all known programs; shows their tables, and refused lines with the reasons."""

import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import click
import msgspec
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from busbw import readers
from busbw.cli.options.engine_flags import known_collective
from busbw.cli.options.param_types import NonEmptyPath
from busbw.errors import BusbwError, ExitCode, UsageError
from busbw.exporters.redact import redact_all
from busbw.logs import Log, Refusal, Table
from busbw.readers import Event, LogNote, TableChunk, UserClaims
from busbw.terminal import StreamConsole, activity
from busbw.units import count_text, plain, size_text

_MAX_TABLES = 60
_MAX_REFUSALS = 10
_MAX_SKIPPED = 5


@dataclass
class _Tally:
    """Counts and failures over all files."""

    rows: int = 0
    refused: int = 0
    failures: list[BusbwError] = field(default_factory=list)


@dataclass
class _TableSummary:
    """Summary of a table without its rows."""

    table: Table
    rows: int = 0
    sizes: tuple[int, int] = (0, 0)
    dtypes: set[str] = field(default_factory=set)
    variants: set[str] = field(default_factory=set)
    best_busbw: float | None = None
    best_algbw: float | None = None

    def add(self, table: Table) -> None:
        """Adds another chunk of the same table."""
        for row in table.rows:
            low, high = self.sizes
            self.sizes = (min(low, row.size_bytes), max(high, row.size_bytes)) if self.rows else (row.size_bytes,) * 2
            self.rows += 1
            self.dtypes.update(filter(None, [row.dtype]))
            self.variants.update(filter(None, [row.variant]))
            for figure in row.figures.values():
                self.best_busbw = _larger(self.best_busbw, figure.busbw_gbps)
                self.best_algbw = _larger(self.best_algbw, figure.algbw_gbps)
        self.table = msgspec.structs.replace(table, rows=())


def _larger(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else max(one, other)


@click.command(name="import")
@click.argument("paths", nargs=-1, required=True, metavar="FILE...", type=NonEmptyPath())
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: tables, rows, refused rows, warnings.")
@click.option("--rows", "as_rows", is_flag=True, help="Print every row as a line of JSON, for logs of any length.")
@click.option("--collective", metavar="NAME", help="Collective of a log that does not name it; checked by arithmetic.")
@click.option("--redact", "redacted", is_flag=True, help="With --json: remove host names, paths and environment.")
def import_(paths: tuple[Path, ...], as_json: bool, as_rows: bool, collective: str | None, redacted: bool) -> int:
    """Reads logs: files, folders, or standard input (-), of this program, nccl-tests of any year, and others.

    Exit codes: 0 all rows were read, 1 some rows were refused, 2 a file could not be read.
    """
    if as_json and as_rows:
        raise UsageError("--json and --rows exclude each other", remedy="give only one")
    if redacted and not as_json:
        raise UsageError("--redact needs --json", remedy="add --json")
    claims = UserClaims(None if collective is None else known_collective(collective, "--collective: "))
    tally = _Tally()
    show: Callable[[Path, UserClaims, _Tally], None] = _print_summary
    if as_rows:
        show = _print_rows
    if as_json:
        _print_object(paths, claims, tally, redacted=redacted)
    else:
        for path in _files(paths, tally):
            show(path, claims, tally)
    for error in tally.failures[:-1]:
        click.echo(f"busbw: {error}", err=True)
    if tally.failures:
        raise tally.failures[-1]
    return ExitCode.WRONG_DATA if tally.refused else ExitCode.GOOD


def _files(paths: tuple[Path, ...], tally: _Tally) -> Iterator[Path]:
    """Yields the files; for a folder, all files in it that hold a table."""
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        found, skipped = False, 0
        for file in sorted(file for file in path.rglob("*") if file.is_file() and not _is_hidden(file, path)):
            if reason := _skip_reason(file):
                skipped += 1
                if skipped <= _MAX_SKIPPED:
                    click.echo(f"skipped: {reason}", err=True)
            else:
                found = True
                yield file
        if skipped > _MAX_SKIPPED:
            click.echo(f"skipped: {count_text(skipped - _MAX_SKIPPED, 'more file')} in {path} without a row", err=True)
        if not found:
            tally.failures.append(
                UsageError(f"no file in {path} has a row of a known format", remedy="give a folder of logs")
            )


def _is_hidden(file: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in file.relative_to(folder).parts)


def _skip_reason(file: Path) -> str:
    """Returns why a file of a folder is skipped, which is not an error. Empty for a log."""
    try:
        next(event for event in readers.stream(file) if not isinstance(event, LogNote))
    except UsageError as error:
        return error.what
    except StopIteration:
        return f"{file} has no row"
    return ""


def _events(path: Path, claims: UserClaims, tally: _Tally) -> Iterator[Event]:
    """Yields the events of a file. Stores a read error in the tally, so that other files are still read."""
    try:
        for event in readers.stream(path, claims):
            if isinstance(event, TableChunk):
                tally.rows += len(event.table.rows)
            elif isinstance(event, Refusal):
                tally.refused += 1
            yield event
    except BusbwError as error:
        tally.failures.append(error)


def _print_rows(path: Path, claims: UserClaims, tally: _Tally) -> None:
    sys.stdout.flush()
    out = sys.stdout.buffer
    encoder = msgspec.json.Encoder()
    source = encoder.encode(str(path))
    for event in _events(path, claims, tally):
        if isinstance(event, TableChunk):
            head = b'{"source":' + source + b',"table":%d,' % event.table.first_line
            out.write(b"".join(head + encoder.encode(row)[1:] + b"\n" for row in event.table.rows))
            for warning in event.table.warnings if event.is_last else ():
                click.echo(f"{path}:{event.table.first_line}: {warning}", err=True)
        elif isinstance(event, Refusal):
            click.echo(f"{path}:{event.line}: refused: {event.reason}", err=True)
        else:
            click.echo(f"{path}: {event.sentence}", err=True)
    out.flush()


def _print_object(paths: tuple[Path, ...], claims: UserClaims, tally: _Tally, *, redacted: bool) -> None:
    logs: list[Log] = [readers.collect(str(path), _events(path, claims, tally)) for path in _files(paths, tally)]
    if tally.failures and not tally.rows and not tally.refused:
        return
    if redacted:
        logs = list(redact_all(logs))
    result = {
        "sources": [log.source for log in logs],
        "tables": [{"source": log.source, **msgspec.to_builtins(table)} for log in logs for table in log.tables],
        "rows": sum(len(log.rows) for log in logs),
        "candidate_rows": sum(log.candidate_rows for log in logs),
        "refused": [{"source": log.source, **msgspec.to_builtins(refusal)} for log in logs for refusal in log.refused],
        "warnings": [
            *({"source": log.source, "line": None, "message": text} for log in logs for text in log.warnings),
            *(
                {"source": log.source, "line": table.first_line, "message": text}
                for log in logs
                for table in log.tables
                for text in table.warnings
            ),
            *({"source": None, "line": None, "message": str(error)} for error in tally.failures),
        ],
    }
    click.echo(msgspec.json.format(msgspec.json.encode(result), indent=2).decode())


def _print_summary(path: Path, claims: UserClaims, tally: _Tally) -> None:
    overview = _Overview()
    with activity(f"reading {path}"):
        for event in _events(path, claims, tally):
            overview.add(event)
    if overview.is_empty:
        return
    console = StreamConsole(width=shutil.get_terminal_size((100, 24)).columns, highlight=False)
    for line in overview.lines(path):
        console.print(line)


class _Overview:
    """Contents of a file in bounded memory: the first tables and refusals, and the count of each."""

    def __init__(self) -> None:
        self._summaries: list[_TableSummary] = []
        self._open: dict[int, _TableSummary] = {}
        self._refused: list[Refusal] = []
        self._notes: list[str] = []
        self._rows = self._tables = self._refusals = 0

    @property
    def is_empty(self) -> bool:
        return not (self._rows or self._tables or self._refusals)

    def add(self, event: Event) -> None:
        if isinstance(event, Refusal):
            self._refusals += 1
            if len(self._refused) < _MAX_REFUSALS:
                self._refused.append(event)
        elif isinstance(event, LogNote):
            self._notes.append(event.sentence)
        else:
            self._add_table(event)

    def _add_table(self, chunk: TableChunk) -> None:
        self._rows += len(chunk.table.rows)
        line = chunk.table.first_line
        summary = self._open.pop(line, None)
        if summary is None:
            self._tables += 1
            if self._tables > _MAX_TABLES and chunk.is_last:
                return
            summary = _TableSummary(chunk.table)
            if self._tables <= _MAX_TABLES:
                self._summaries.append(summary)
        summary.add(chunk.table)
        if not chunk.is_last:
            self._open[line] = summary

    def lines(self, path: Path) -> Iterator[Text | Grid | Padding]:
        """Yields the lines for the terminal."""
        seen = count_text(self._rows + self._refusals, "row")
        head = f"{path}: {self._rows:,} of {seen} read, {count_text(self._tables, 'table')}"
        yield Text(plain(head), style="bold")
        if self._summaries:
            yield _grid(self._summaries)
        if self._tables > len(self._summaries):
            yield Text(f"  and {self._tables - len(self._summaries):,} more tables")
        for summary in self._summaries:
            table = summary.table
            if table.complete is False:
                reason = f": {table.end_reason}" if table.end_reason else ""
                yield _remark(f"line {table.first_line}: the run did not finish{reason}", "yellow")
            for warning in table.warnings:
                yield _remark(f"line {table.first_line}: {warning}", "yellow")
        for note in self._notes:
            yield _remark(note, "yellow")
        for refusal in self._refused:
            yield _remark(f"line {refusal.line} refused: {refusal.reason}", "red")
        if self._refusals > len(self._refused):
            yield _remark(f"and {self._refusals - len(self._refused):,} more refused", "red")


def _remark(text: str, style: str) -> Padding:
    return Padding(Text(plain(text), style=style), (0, 0, 0, 2), expand=False)


def _grid(summaries: list[_TableSummary]) -> Grid:
    grid = Grid(box=None, padding=(0, 1), pad_edge=False)
    grid.add_column("line", justify="right")
    grid.add_column("collective", no_wrap=True)
    grid.add_column("ranks", justify="right")
    grid.add_column("type")
    grid.add_column("sizes", no_wrap=True)
    grid.add_column("rows", justify="right")
    grid.add_column("best GB/s", justify="right", no_wrap=True)
    grid.add_column("format", overflow="fold")
    for summary in summaries:
        table = summary.table
        low, high = map(size_text, summary.sizes)
        best = "?"
        if summary.best_busbw is not None:
            best = f"{summary.best_busbw:.2f} bus"
        elif summary.best_algbw is not None:
            best = f"{summary.best_algbw:.2f} alg"
        about = f"{table.format}: {', '.join(sorted(summary.variants))}" if summary.variants else table.format
        grid.add_row(
            str(table.first_line),
            Text(plain(table.collective or "?")),
            str(table.ranks or "?"),
            Text(plain(", ".join(sorted(summary.dtypes))) or "?"),
            "none" if not summary.rows else low if low == high else f"{low} - {high}",
            f"{summary.rows:,}",
            best,
            Text(plain(about)),
        )
    return grid
