"""What is asked of the index: runs that match a filter, and their points."""

import sqlite3
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from msgspec import Struct

from busbw.logs import Placement
from busbw.store.rows import LARGEST

_RUN_COLUMNS = (
    "name, number, time_s, time_source, program, backend, library, hosts, host_count, device, runs.ranks, complete,"
    " runs.rows, wrong, checked"
)


class Filter(Struct, kw_only=True, frozen=True):
    """Which runs and points are wanted; `None` wants all."""

    collective: str | None = None
    dtype: str | None = None
    redop: str | None = None
    ranks: int | None = None
    backend: str | None = None
    library: str | None = None
    """A part of its name and version, in any case."""
    host: str | None = None
    """One of the hosts, whole."""
    device: str | None = None
    """A part of the device's name, in any case."""
    host_or_device: str | None = None
    """A part of the hosts' or the device's names, in any case."""
    since_s: float | None = None
    until_s: float | None = None
    placement: Placement | None = None
    min_bytes: int | None = None
    max_bytes: int | None = None


class RunRow(Struct, kw_only=True, frozen=True):
    """One table of one log in the store."""

    name: str
    number: int
    """Which table of its log, from 1."""
    time_s: float
    """Seconds since 1970."""
    time_source: str
    """`log`, or `file` where the log does not say and the time of its last change stands for it."""
    program: str | None
    backend: str | None
    library: str | None
    hosts: str
    """Separated by spaces."""
    host_count: int
    device: str | None
    ranks: int | None
    complete: bool | None
    rows: int
    wrong: int
    """Measurements with wrong data."""
    checked: int
    """Measurements whose data were checked."""
    collectives: str | None
    """Separated by commas, as are the types and operators."""
    dtypes: str | None
    redops: str | None
    min_bytes: int | None
    max_bytes: int | None
    peak_busbw_gbps: float | None


class StoredPoint(Struct, frozen=True):
    """One measurement in the index."""

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
    size_bytes: int
    placement: Placement
    cycle: int
    line: int
    time_us: float | None
    algbw_gbps: float | None
    busbw_gbps: float | None
    wrong_elements: int | None


class MeasuredSeries(NamedTuple):
    """One placement of one configuration of one run, and what decides what it may be compared with."""

    name: str
    number: int
    time_s: float
    backend: str | None
    hosts: str
    host_count: int
    device: str | None
    method: str
    circumstances: str
    """JSON: what may explain a change."""
    collective: str | None
    dtype: str | None
    redop: str | None
    root: int | None
    ranks: int | None
    group: int
    variant: str | None
    placement: Placement
    times_us: dict[int, float]
    """By size in bytes."""


def list_runs(connection: sqlite3.Connection, wanted: Filter, *, limit: int | None = None) -> list[RunRow]:
    """The runs that match, the newest first; of their configurations only those that match are told."""
    where, values = _where(wanted)
    rows = connection.execute(
        f"SELECT {_RUN_COLUMNS},"
        " group_concat(DISTINCT collective), group_concat(DISTINCT dtype), group_concat(DISTINCT redop),"
        " min(min_bytes), max(max_bytes), max(peak_busbw_gbps)"
        " FROM runs JOIN files ON files.id = runs.file LEFT JOIN series ON series.run = runs.id"
        f"{where} GROUP BY runs.id ORDER BY time_s DESC, name DESC, number DESC LIMIT ?",
        (*values, -1 if limit is None else limit),
    )
    return [_run_line(row) for row in rows]


def count_runs(connection: sqlite3.Connection, wanted: Filter) -> int:
    """How many runs match."""
    where, values = _where(wanted)
    sql = f"SELECT count(DISTINCT runs.id) FROM runs LEFT JOIN series ON series.run = runs.id{where}"
    count: int = connection.execute(sql, values).fetchone()[0]
    return count


def list_measured(connection: sqlite3.Connection, wanted: Filter) -> Iterator[MeasuredSeries]:
    """All configurations that match, each placement by itself; cycles of a size are averaged.

    Where the placement is left open, it is out of place, or what a log has that does not say. Measurements whose data
    were wrong are left out: `count_wrong` counts them.
    """
    text, values = _where(wanted)
    series_of = {
        row[0]: row[1:]
        for row in connection.execute(
            "SELECT series.id, name, number, time_s, runs.backend, runs.hosts, host_count, device, method,"
            " circumstances, collective, dtype, redop, root, series.ranks, member, variant"
            " FROM runs JOIN files ON files.id = runs.file JOIN series ON series.run = runs.id" + text,
            values,
        )
    }
    which, values = _timed(wanted)
    rows = connection.execute(
        f"SELECT series, placement, size_bytes, avg(time_us) FROM points{which} AND coalesce(wrong, 0) = 0"
        " GROUP BY series, size_bytes, placement",
        values,
    )
    for series, points in groupby(rows, key=itemgetter(0)):
        by_placement: dict[Placement, dict[int, float]] = {}
        for _, placement, size_bytes, time_us in points:
            by_placement.setdefault(placement, {})[size_bytes] = time_us
        for placement, times_us in by_placement.items():
            yield MeasuredSeries._make((*series_of[series], placement, times_us))


def count_wrong(connection: sqlite3.Connection, wanted: Filter) -> tuple[int, int]:
    """How many measurements `list_measured` leaves out because their data were wrong, and of how many runs."""
    which, values = _timed(wanted)
    counts: tuple[int, int] = connection.execute(
        f"SELECT count(*), count(DISTINCT series.run) FROM points JOIN series ON series.id = points.series{which}"
        " AND wrong > 0",
        values,
    ).fetchone()
    return counts


def _timed(wanted: Filter) -> tuple[str, tuple[Any, ...]]:
    """The points with a time that match, as SQL and its values."""
    text, values = _where(wanted)
    placements = (wanted.placement,) if wanted.placement else ("out_of_place", "unstated")
    low = 0 if wanted.min_bytes is None else wanted.min_bytes
    high = LARGEST if wanted.max_bytes is None else wanted.max_bytes
    return (
        f" WHERE points.series IN (SELECT series.id FROM runs JOIN series ON series.run = runs.id{text})"
        f" AND placement IN ({', '.join('?' * len(placements))}) AND time_us > 0 AND size_bytes BETWEEN ? AND ?",
        (*values, *placements, low, high),
    )


def list_points(connection: sqlite3.Connection, wanted: Filter, *, limit: int | None = None) -> Iterator[StoredPoint]:
    """The points that match: the newest run first, and in a run by configuration and size."""
    where, values = _where(wanted, points=True)
    rows = connection.execute(
        "SELECT name, number, time_s, collective, dtype, redop, root, series.ranks, member, variant,"
        " points.size_bytes, placement, cycle, line, time_us, algbw_gbps, busbw_gbps, points.wrong"
        # CROSS: in this order, so that the newest come first without sorting all.
        " FROM runs CROSS JOIN files ON files.id = runs.file CROSS JOIN series ON series.run = runs.id"
        f" CROSS JOIN points ON points.series = series.id{where}"
        " ORDER BY runs.time_s DESC, runs.id DESC, series.id, points.size_bytes LIMIT ?",
        (*values, -1 if limit is None else limit),
    )
    for row in rows:
        yield StoredPoint(*row)


def count_points(connection: sqlite3.Connection, wanted: Filter) -> int:
    """How many points match."""
    where, values = _where(wanted, points=True)
    sql = (
        f"SELECT count(*) FROM runs JOIN series ON series.run = runs.id JOIN points ON points.series = series.id{where}"
    )
    count: int = connection.execute(sql, values).fetchone()[0]
    return count


def _run_line(row: tuple[Any, ...]) -> RunRow:
    line = dict(zip(RunRow.__struct_fields__, row, strict=True))
    line["complete"] = None if line["complete"] is None else bool(line["complete"])
    return RunRow(**line)


def _where(wanted: Filter, *, points: bool = False) -> tuple[str, tuple[Any, ...]]:
    """The filter as SQL and its values; without points, a size is wanted of a run that went through it."""
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
    used = [(text, value) for text, value in conditions if value is not None]
    joined = " AND ".join(text for text, _ in used)
    return (f" WHERE {joined}" if joined else ""), tuple(value for _, value in used)
