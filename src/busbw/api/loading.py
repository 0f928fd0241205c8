"""Finds and reads the logs of a path, a run or a store query, for `busbw.load`."""

import os
from collections.abc import Iterable
from os import PathLike
from pathlib import Path

from msgspec.structs import replace

from busbw import readers
from busbw.api.log_collection import LogCollection
from busbw.errors import UsageError
from busbw.logs.log import Log, Table
from busbw.store import Filter, Index, StoredPoint, default_folder, entries, list_points, read_named_logs, series_values

Source = str | PathLike[str]


def load(source: Source | Iterable[Source] | None = None, *, query: Filter | None = None) -> LogCollection:
    """Reads logs of busbw, nccl-tests and other programs.

    Args:
        source: A file, a folder of runs and logs, the name of a run (`last` is the newest), or several of them. With
            `query`, the folder of a store; None for the default store ($BUSBW_STORE, or ./busbw-records).
        query: Selects measurements of a store by the fields of `busbw.Filter`. Only their rows are returned.

    Returns:
        The logs. `LogCollection.skipped` names the files of a folder that could not be read.

    Raises:
        UsageError: A log cannot be read, a folder has no log, or there is neither a source nor a query.
        BusbwError: The store cannot be read.
    """
    if query is not None:
        return _load_query(_store_folder(source), query)
    if source is None:
        raise UsageError("load needs a source or a query", remedy='use busbw.load("last") for the newest run')
    sources = [source] if isinstance(source, str | PathLike) else source
    skipped: list[str] = []
    names = [os.fspath(name) for name in sources]
    logs = tuple(read_named_logs(names, on_note=skipped.append, on_skipped=skipped.append))
    return LogCollection(logs=logs, skipped=tuple(skipped))


def _store_folder(source: Source | Iterable[Source] | None) -> Path:
    if source is None:
        return default_folder()
    if isinstance(source, str | PathLike) and Path(source).is_dir():
        return Path(source)
    raise UsageError(f"a query needs the folder of a store, not {source!r}", remedy="give that folder, or no source")


def _load_query(store: Path, query: Filter) -> LogCollection:
    points_by_log: dict[str, list[StoredPoint]] = {}
    with Index(store) as index:
        for point in index.query(lambda connection: list(list_points(connection, query))):
            points_by_log.setdefault(point.name, []).append(point)
        skipped = tuple(f"{name} was skipped: {problem}" for name, problem in index.problems())
    paths = {entry.name: entry.log for entry in entries(store)}
    logs = tuple(_select_points(readers.read(paths[name]), points) for name, points in points_by_log.items())
    return LogCollection(logs=logs, skipped=skipped)


def _select_points(log: Log, points: list[StoredPoint]) -> Log:
    """Returns the log with these measurements only. Tables without any of these measurements are omitted."""
    selected = set(map(_point_key, points))
    tables = (_select_rows(table, table_number, selected) for table_number, table in enumerate(log.tables, start=1))
    return replace(log, tables=tuple(table for table in tables if table.rows))


def _point_key(point: StoredPoint) -> tuple[object, ...]:
    """Returns the values that identify a measurement in its log. `point.number` is the number of its table, from 1 on.

    The line is not enough: rows in a string of JSON share it.
    """
    series = (point.collective, point.dtype, point.redop, point.root, point.ranks, point.group, point.variant)
    return (point.number, point.line, point.cycle, point.size_bytes, *series, point.placement)


def _select_rows(table: Table, table_number: int, selected: set[tuple[object, ...]]) -> Table:
    rows = []
    for row in table.rows:
        key = (table_number, row.line, row.cycle, row.size_bytes, *series_values(table, row))
        figures = {name: figure for name, figure in row.figures.items() if (*key, name) in selected}
        if figures:
            rows.append(replace(row, figures=figures))
    return replace(table, rows=tuple(rows))
