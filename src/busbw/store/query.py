"""Queries of the index: runs that match a filter, and their series and points.

A run here is one table of a log, a series is one configuration of a run, and a point is one measurement (see rows.py).
"""

import sqlite3
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from msgspec import Struct

from busbw.logs.log import Placement
from busbw.store.rows import MAX_INTEGER

# In the order of the first fields of RunRow.
_RUN_COLUMNS = (
    "name, number, time_s, time_source, program, backend, library, hosts, host_count, device, runs.ranks, complete,"
    " runs.rows, wrong, checked"
)


class Filter(Struct, kw_only=True, frozen=True):
    """Selects runs and points. A field that is None selects all."""

    collective: str | None = None
    """Such as 'all_reduce'."""
    dtype: str | None = None
    """Element type, such as 'float'."""
    redop: str | None = None
    """Reduction operator, such as 'sum'."""
    ranks: int | None = None
    """Exact number of ranks."""
    backend: str | None = None
    """Such as 'host' or 'nccl'."""
    library: str | None = None
    """Part of the library's name and version, case-insensitive."""
    host: str | None = None
    """Full name of one of the hosts."""
    device: str | None = None
    """Part of the device's name, case-insensitive."""
    host_or_device: str | None = None
    """Part of a host's or the device's name, case-insensitive."""
    since_s: float | None = None
    """Earliest start of a run in seconds since 1970."""
    until_s: float | None = None
    """End of the period in seconds since 1970, exclusive: runs start before it."""
    placement: Placement | None = None
    min_bytes: int | None = None
    """Smallest size, inclusive."""
    max_bytes: int | None = None
    """Largest size, inclusive."""


class RunRow(Struct, kw_only=True, frozen=True):
    """One table of one log in the store."""

    name: str
    number: int
    """Number of the table in its log, from 1."""
    time_s: float
    """Seconds since 1970."""
    time_source: str
    """`log`, or `file` if the log has no time and the file's modification time is used."""
    program: str | None
    backend: str | None
    library: str | None
    hosts: str
    """Separated by spaces."""
    host_count: int
    device: str | None
    ranks: int | None
    complete: bool | None
    """True if the run ended regularly. None if the log does not show that."""
    rows: int
    wrong: int
    """Number of measurements with wrong data."""
    checked: int
    """Number of measurements with checked data."""
    collectives: str | None
    """Separated by commas, like `dtypes` and `redops`."""
    dtypes: str | None
    redops: str | None
    min_bytes: int | None
    max_bytes: int | None
    peak_busbw_gbps: float | None


class StoredPoint(Struct, frozen=True):
    """One measurement in the index. `name` (of the log) and `number` (of its table) identify the run, as in RunRow."""

    name: str
    number: int
    time_s: float
    collective: str | None
    dtype: str | None
    redop: str | None
    root: int | None
    ranks: int | None
    group: int
    variant: str | None
    """Library or kernel, if the table compares several."""
    size_bytes: int
    placement: Placement
    cycle: int
    line: int
    """Number of the row's line in the log."""
    time_us: float | None
    algbw_gbps: float | None
    busbw_gbps: float | None
    wrong_elements: int | None
    """None if the data was not checked or the log does not count them."""


class MeasuredSeries(NamedTuple):
    """One placement of one configuration of one run, with the properties that determine comparable runs."""

    name: str
    number: int
    time_s: float
    backend: str | None
    hosts: str
    host_count: int
    device: str | None
    transport: str | None
    """How the host backend moved data. None for other backends."""
    method: str
    """Non-default settings of the measurement that change the meaning of a time, such as "graph_launches 10"."""
    circumstances: str
    """JSON object with properties that may explain a change between runs, such as versions and the environment."""
    collective: str | None
    dtype: str | None
    redop: str | None
    root: int | None
    ranks: int | None
    group: int
    variant: str | None
    placement: Placement
    times_us: dict[int, float]
    """Mean time in microseconds by size in bytes."""


def list_runs(connection: sqlite3.Connection, wanted: Filter, *, limit: int | None = None) -> list[RunRow]:
    """Returns the matching runs, newest first. Sizes, types and busbw of a run come from its matching series only.

    The filter's placement is ignored.
    """
    where, values = _where_clause(wanted)
    rows = connection.execute(
        f"SELECT {_RUN_COLUMNS},"
        " group_concat(DISTINCT collective), group_concat(DISTINCT dtype), group_concat(DISTINCT redop),"
        " min(min_bytes), max(max_bytes), max(peak_busbw_gbps)"
        " FROM runs JOIN files ON files.id = runs.file LEFT JOIN series ON series.run = runs.id"
        f"{where} GROUP BY runs.id ORDER BY time_s DESC, name DESC, number DESC LIMIT ?",
        (*values, _limit_value(limit)),
    )
    return [_decode_run_row(row) for row in rows]


def count_runs(connection: sqlite3.Connection, wanted: Filter) -> int:
    """Returns the number of matching runs. The filter's placement is ignored."""
    where, values = _where_clause(wanted)
    sql = f"SELECT count(DISTINCT runs.id) FROM runs LEFT JOIN series ON series.run = runs.id{where}"
    count: int = connection.execute(sql, values).fetchone()[0]
    return count


def list_measured(connection: sqlite3.Connection, wanted: Filter) -> Iterator[MeasuredSeries]:
    """Yields the matching series, one item per placement. Cycles of a size are averaged.

    If the filter has no placement, in-place measurements are omitted. Measurements with wrong data are always omitted;
    `count_wrong` counts them.
    """
    where, values = _where_clause(wanted)
    # The columns after the id have the order of the fields of MeasuredSeries.
    columns_by_series_id = {
        series_id: columns
        for series_id, *columns in connection.execute(
            "SELECT series.id, name, number, time_s, runs.backend, runs.hosts, host_count, device, transport, method,"
            " circumstances, collective, dtype, redop, root, series.ranks, member, variant"
            " FROM runs JOIN files ON files.id = runs.file JOIN series ON series.run = runs.id" + where,
            values,
        )
    }
    points_where, points_values = _timed_points_clause(wanted)
    # `groupby` needs the rows of a series next to each other.
    rows = connection.execute(
        f"SELECT series, placement, size_bytes, avg(time_us) FROM points{points_where} AND coalesce(wrong, 0) = 0"
        " GROUP BY series, size_bytes, placement ORDER BY series, size_bytes, placement",
        points_values,
    )
    for series_id, series_rows in groupby(rows, key=itemgetter(0)):
        times_by_placement: dict[Placement, dict[int, float]] = {}
        for _, placement, size_bytes, time_us in series_rows:
            times_by_placement.setdefault(placement, {})[size_bytes] = time_us
        for placement, times_us in times_by_placement.items():
            yield MeasuredSeries._make((*columns_by_series_id[series_id], placement, times_us))


def count_wrong(connection: sqlite3.Connection, wanted: Filter) -> tuple[int, int]:
    """Returns how many measurements `list_measured` omits because of wrong data, and in how many runs."""
    where, values = _timed_points_clause(wanted)
    counts: tuple[int, int] = connection.execute(
        f"SELECT count(*), count(DISTINCT series.run) FROM points JOIN series ON series.id = points.series{where}"
        " AND wrong > 0",
        values,
    ).fetchone()
    return counts


def _timed_points_clause(wanted: Filter) -> tuple[str, tuple[Any, ...]]:
    """Returns the SQL WHERE clause for matching points with a time, and the values for its question marks.

    Without a placement in the filter, in-place points do not match.
    """
    where, values = _where_clause(wanted)
    placements = (wanted.placement,) if wanted.placement else ("out_of_place", "unstated")
    min_bytes = 0 if wanted.min_bytes is None else wanted.min_bytes
    max_bytes = MAX_INTEGER if wanted.max_bytes is None else wanted.max_bytes
    return (
        f" WHERE points.series IN (SELECT series.id FROM runs JOIN series ON series.run = runs.id{where})"
        f" AND placement IN ({', '.join('?' * len(placements))}) AND time_us > 0 AND size_bytes BETWEEN ? AND ?",
        (*values, *placements, min_bytes, max_bytes),
    )


def list_points(connection: sqlite3.Connection, wanted: Filter, *, limit: int | None = None) -> Iterator[StoredPoint]:
    """Yields the matching points: the newest run first, within a run by series and size."""
    where, values = _where_clause(wanted, points=True)
    # CROSS JOIN fixes the join order, so that SQLite returns the newest first without sorting all rows.
    rows = connection.execute(
        "SELECT name, number, time_s, collective, dtype, redop, root, series.ranks, member, variant,"
        " points.size_bytes, placement, cycle, line, time_us, algbw_gbps, busbw_gbps, points.wrong"
        " FROM runs CROSS JOIN files ON files.id = runs.file CROSS JOIN series ON series.run = runs.id"
        f" CROSS JOIN points ON points.series = series.id{where}"
        " ORDER BY runs.time_s DESC, runs.id DESC, series.id, points.size_bytes LIMIT ?",
        (*values, _limit_value(limit)),
    )
    for row in rows:
        yield StoredPoint(*row)


def count_points(connection: sqlite3.Connection, wanted: Filter) -> int:
    """Returns the number of matching points."""
    where, values = _where_clause(wanted, points=True)
    sql = (
        f"SELECT count(*) FROM runs JOIN series ON series.run = runs.id JOIN points ON points.series = series.id{where}"
    )
    count: int = connection.execute(sql, values).fetchone()[0]
    return count


def _limit_value(limit: int | None) -> int:
    return -1 if limit is None else limit  # SQLite returns all rows for LIMIT -1


def _decode_run_row(row: tuple[Any, ...]) -> RunRow:
    fields = dict(zip(RunRow.__struct_fields__, row, strict=True))
    fields["complete"] = None if fields["complete"] is None else bool(fields["complete"])  # SQLite has 0 and 1
    return RunRow(**fields)


def _where_clause(wanted: Filter, *, points: bool = False) -> tuple[str, tuple[Any, ...]]:
    """Returns the filter as an SQL WHERE clause, and the values for its question marks.

    With `points`, the filter's sizes and placement select points. Otherwise the placement is ignored, and a series is
    selected if its range of sizes overlaps the filter's range.
    """
    conditions: list[tuple[str, Any]] = [
        ("series.collective = ?", wanted.collective),
        ("series.dtype = ?", wanted.dtype),
        ("series.redop = ?", wanted.redop),
        ("series.ranks = ?", wanted.ranks),
        ("runs.backend = ?", wanted.backend),
        ("instr(lower(runs.library), lower(?))", wanted.library),
        ("instr(' ' || runs.hosts || ' ', ' ' || ? || ' ')", wanted.host),
        ("instr(lower(runs.device), lower(?))", wanted.device),
        ("instr(lower(runs.hosts || ' ' || coalesce(runs.device, '')), lower(?))", wanted.host_or_device),
        ("runs.time_s >= ?", wanted.since_s),
        ("runs.time_s < ?", wanted.until_s),
        ("points.size_bytes >= ?" if points else "series.max_bytes >= ?", wanted.min_bytes),
        ("points.size_bytes <= ?" if points else "series.min_bytes <= ?", wanted.max_bytes),
    ]
    if points:
        conditions.append(("points.placement = ?", wanted.placement))
    active_conditions = [(condition, value) for condition, value in conditions if value is not None]
    clause = " AND ".join(condition for condition, _ in active_conditions)
    return (f" WHERE {clause}" if clause else ""), tuple(value for _, value in active_conditions)
