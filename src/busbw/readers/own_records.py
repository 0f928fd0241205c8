"""Reads this program's own records (docs/records.md)."""

from collections.abc import Iterator

from busbw import records
from busbw.errors import UsageError
from busbw.logs import Figure, Placement, Rank, Row, Table
from busbw.readers.events import Claims, Event, Note, Piece
from busbw.readers.source import Source


def recognises(beginning: str) -> bool:
    """Records begin with the line of a run."""
    return beginning.startswith("{") and '"kind":"run"' in beginning.partition("\n")[0].replace(" ", "")


def stream(source: Source, claims: Claims) -> Iterator[Event]:
    """All rows; a last line that was cut off is named.

    Raises:
        UsageError: They are broken, or of another major version.
    """
    try:
        run = records.read(source.path)
    except records.RecordsError as error:
        raise UsageError(error.what.replace(source.path, source.name), remedy=error.remedy) from error
    yield Piece(table_of(run))
    if run.truncated:
        yield Note("the last line is cut off: the run was killed while it wrote; what stands before is whole")


def table_of(run: records.Run) -> Table:
    """A run as a table: the placements of one row of one group, which are a line each in the records, become one."""
    header, end = run.header, run.end
    return Table(
        format=f"records {header.schema_version}",
        program=header.program,
        collective=header.collective,
        command=" ".join(header.args),
        start_time=header.start_time,
        program_version=f"busbw {header.busbw_version}",
        library=f"{header.backend} {header.backend_version}",
        ranks=len(header.ranks),
        rank_list=tuple(_rank(rank) for rank in header.ranks),
        settings=_settings(header),
        environment=header.environment,
        rows=tuple(_rows(run)),
        complete=end is not None,
        end_reason=_end_reason(end),
        claimed_average_busbw_gbps=end.average_busbw_gbps if end else None,
        claimed_out_of_bounds=end.out_of_bounds if end else None,
        warnings=(*header.notes, *run.warnings),
    )


def _rank(rank: records.Rank) -> Rank:
    return Rank(
        rank=rank.rank,
        group=rank.group,
        pid=rank.pid,
        host=rank.host,
        device=rank.device,
        bus_id=rank.bus_id,
        device_name=rank.device_name,
    )


def _settings(header: records.Header) -> dict[str, str]:
    """Everything else that describes the run, as words; what was not asked for is left out."""
    settings = {"backend": header.backend, "run_id": header.run_id}
    for name in header.settings.__struct_fields__:
        value = getattr(header.settings, name)
        if value is not None:
            settings[name] = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return settings | {f"machine.{name}": value for name, value in header.machine.items()}


def _end_reason(end: records.End | None) -> str | None:
    """How it ended, where it did not end by having done all."""
    if end is None:
        return "killed"
    return None if end.reason == "completed" else end.message or end.reason


def _rows(run: records.Run) -> list[Row]:
    rows: list[Row] = []
    first: dict[Placement, records.Row] = {}
    line = 1
    for number, record in enumerate(run, start=1):
        if not isinstance(record, records.Row):
            continue
        if first and (record.placement in first or _key(next(iter(first.values()))) != _key(record)):
            rows.append(_row(line, first))
            first = {}
        line = line if first else number
        first[record.placement] = record
    return [*rows, _row(line, first)] if first else rows


def _key(row: records.Row) -> tuple[object, ...]:
    """What the placements of one row have in common."""
    return (row.cycle, row.group, row.collective, row.requested_bytes, row.size_bytes, row.dtype, row.redop, row.root)


def _row(line: int, placements: dict[Placement, records.Row]) -> Row:
    row = next(iter(placements.values()))
    return Row(
        line=line,
        collective=row.collective,
        size_bytes=row.size_bytes,
        count=row.count,
        dtype=row.dtype,
        redop=row.redop,
        root=row.root,
        ranks=row.ranks,
        group=row.group,
        cycle=row.cycle,
        figures={name: _figure(record) for name, record in placements.items()},
        timestamp=row.timestamp,
    )


def _figure(row: records.Row) -> Figure:
    return Figure(
        time_us=row.time_us,
        cpu_time_us=row.cpu_time_us,
        algbw_gbps=row.algbw_gbps,
        busbw_gbps=row.busbw_gbps,
        check=row.check.state,
        wrong_elements=row.check.wrong_elements,
        first_wrong=tuple(row.check.first_wrong),
        stats=row.stats,
        samples_us=tuple(map(tuple, row.samples_us)),
        warnings=tuple(row.warnings),
    )
