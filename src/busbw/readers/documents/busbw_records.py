"""Reads busbw's own records (docs/reference/records.md).

A record file has one line for the header, one per warning, one per placement of each row, and one for the end. The
record of a search (`busbw find`) has flows instead of rows and is refused.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

from busbw import records
from busbw.errors import UsageError
from busbw.logs.log import Figure, Placement, Rank, Row, Table
from busbw.readers.lines.source import LogSource
from busbw.readers.tables.events import Event, LogNote, TableChunk, UserClaims
from busbw.searches.records import SearchEndRecord, stream_search

_CHUNK_ROWS = 1000
"""Rows per chunk of a long table. The value is small because a row holds all times of all ranks."""
_LIBRARY_NOTE = "Library: "
"""Beginning of the note that repeats the library version, which is not a warning."""
_SEARCH_BEGINNING = '{"kind":"search"'
"""Beginning of the record of a search."""


class SearchRecordError(UsageError):
    """A file is the record of a search, and a log was expected."""

    def __init__(self, name: str, answer: str) -> None:
        super().__init__(f"{name} is a search without rows: {answer}", remedy="show it with busbw report")
        self.answer = answer
        """The findings, one sentence each."""


def recognizes(beginning: str) -> bool:
    """True if the first line is the header of a run or of a search."""
    is_run = beginning.startswith("{") and '"kind":"run"' in beginning.partition("\n")[0].replace(" ", "")
    return is_run or beginning.startswith(_SEARCH_BEGINNING)


def stream(source: LogSource, claims: UserClaims) -> Iterator[Event]:
    """Yields all rows as chunks of one table, and a note if the last line is cut off.

    `claims` is not used, because the header states the collective. Each reader has this parameter.

    Raises:
        UsageError: The records are broken or have another major version.
        SearchRecordError: The records are of a search. The message has the answer of the search.
    """
    if source.beginning.startswith(_SEARCH_BEGINNING.encode()):
        ends = [line for line in stream_search(source.path) if isinstance(line, SearchEndRecord)]
        answer = ends[0].answer.rstrip(".") if ends else "it has no end"
        raise SearchRecordError(source.name, answer)
    context = _RunContext()
    rows = _merge_placements(context.rows(records.stream(source.path)))
    try:
        # Each chunk waits until the next one is read, because only the last one has the end of the run.
        chunk = list(islice(rows, _CHUNK_ROWS))
        while next_chunk := list(islice(rows, _CHUNK_ROWS)):
            yield TableChunk(context.table(chunk), is_last=False)
            chunk = next_chunk
    except records.RecordsError as error:
        # The message names the path that was read: for standard input, that is a temporary copy.
        raise UsageError(error.problem.replace(source.path, source.name), remedy=error.remedy) from error
    yield TableChunk(context.table(chunk))
    if context.is_cut:
        yield LogNote("the last line is cut off: the run was killed while it wrote; all earlier lines are complete")


def table_of(run: records.RunRecords) -> Table:
    """Returns a run as a table. Records have one line per placement; the table has one row for both."""
    context = _RunContext()
    return context.table(list(_merge_placements(context.rows(run))))


class _RunContext:
    """Header, warnings and end of a run, collected while its rows are read."""

    def __init__(self) -> None:
        self._header: records.HeaderRecord | None = None
        self._warnings: list[str] = []
        self._end: records.EndRecord | None = None
        self.is_cut = False
        """True if the last line is incomplete, which `records.stream` yields as None."""

    def rows(self, run_records: Iterable[records.Record | None]) -> Iterator[tuple[int, records.RowRecord]]:
        """Yields the row records with their line numbers and stores the other records."""
        for number, record in enumerate(run_records, start=1):
            if isinstance(record, records.RowRecord):
                yield number, record
            elif isinstance(record, records.HeaderRecord):
                self._header = record
            elif isinstance(record, records.WarningRecord):
                self._warnings.append(record.message)
            elif isinstance(record, records.EndRecord):
                self._end = record
            else:
                self.is_cut = True

    def table(self, rows: list[Row]) -> Table:
        """Returns a table of these rows, with the header and the other records so far."""
        header, end = self._header, self._end
        assert header is not None  # the first line
        return Table(
            format=f"records {header.schema_version}",
            program=header.program,
            collective=header.collective,
            command=" ".join(header.args),
            start_time=header.start_time,
            program_version=f"busbw {header.busbw_version}",
            library=_library(header),
            ranks=len(header.ranks),
            rank_list=tuple(_make_rank(rank) for rank in header.ranks),
            settings=_settings(header),
            environment=header.environment,
            rows=tuple(rows),
            complete=end is not None and end.reason in records.COMPLETE_END_REASONS,
            end_reason=_end_reason(end),
            claimed_average_busbw_gbps=end.average_busbw_gbps if end else None,
            claimed_out_of_bounds=end.out_of_bounds if end else None,
            warnings=(*(note for note in header.notes if not note.startswith(_LIBRARY_NOTE)), *self._warnings),
        )


def _library(header: records.HeaderRecord) -> str:
    """Returns the library's name in the form that other logs use, so that runs of one library compare as equal."""
    version = header.machine.get("nccl_version")
    return f"NCCL {version}" if version else f"{header.backend} {header.backend_version}"


def _make_rank(rank: records.RankRecord) -> Rank:
    return Rank(**{name: getattr(rank, name) for name in Rank.__struct_fields__})


def _settings(header: records.HeaderRecord) -> dict[str, str]:
    """Returns the properties of the run that have no field in `Table`, as text, without unset settings."""
    settings = {"backend": header.backend, "run_id": header.run_id}
    if header.busbw_build is not None:
        settings["busbw_build"] = header.busbw_build
    for name in header.settings.__struct_fields__:
        value = getattr(header.settings, name)
        if value is not None:
            settings[name] = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return settings | {f"machine.{name}": value for name, value in header.machine.items()}


def _end_reason(end: records.EndRecord | None) -> str | None:
    """Returns the reason of an early end; None if the run completed, or if the record has no end."""
    return None if end is None or end.reason == "completed" else end.message or end.reason


def _merge_placements(row_records: Iterable[tuple[int, records.RowRecord]]) -> Iterator[Row]:
    """Merges the consecutive records of both placements of a row."""
    placements: dict[Placement, records.RowRecord] = {}
    first_line = 1
    for number, record in row_records:
        if placements:
            first_record = next(iter(placements.values()))
            if record.placement in placements or _row_key(first_record) != _row_key(record):
                yield _make_row(first_line, placements)
                placements = {}
        if not placements:
            first_line = number
        placements[record.placement] = record
    if placements:
        yield _make_row(first_line, placements)


def _row_key(row: records.RowRecord) -> tuple[object, ...]:
    """Values that both placements of one row share."""
    return (row.cycle, row.group, row.collective, row.requested_bytes, row.size_bytes, row.dtype, row.redop, row.root)


def _make_row(line: int, placements: dict[Placement, records.RowRecord]) -> Row:
    row = next(iter(placements.values()))
    return Row(
        line=line,
        collective=row.collective,
        size_bytes=row.size_bytes,
        count=row.count,
        dtype=None if row.dtype == "none" else row.dtype,
        redop=row.redop,
        root=row.root,
        ranks=row.ranks,
        group=row.group,
        cycle=row.cycle,
        lifecycle=row.lifecycle,
        figures={
            "unstated" if row.lifecycle else name: _make_figure(record)  # a call of comm_ops has no placement
            for name, record in placements.items()
        },
        timestamp=row.timestamp,
    )


def _make_figure(row: records.RowRecord) -> Figure:
    return Figure(
        time_us=row.time_us,
        cpu_time_us=row.cpu_time_us,
        device_time_us=row.device_time_us,
        launch_time_us=row.launch_time_us,
        algbw_gbps=row.algbw_gbps,
        busbw_gbps=row.busbw_gbps,
        check=row.check.state,
        wrong_elements=row.check.wrong_elements,
        first_wrong=tuple(row.check.first_wrong),
        stats=row.stats,
        samples_us=tuple(map(tuple, row.samples_us)),
        sample_clock=row.sample_clock,
        arrivals_us=tuple(row.rank_arrivals_us),
        late_ranks=tuple(row.late_ranks),
        algorithm=row.algorithm,
        protocol=row.protocol,
        channels=row.channels,
        skew=row.skew,
        together=row.together,
        warnings=tuple(row.warnings),
    )
