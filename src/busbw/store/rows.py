"""Inserts a log into the index: one row per run, per series (one configuration of a run), and per point of a series.

A point is one measurement: one placement of one size.
"""

import sqlite3
from collections.abc import Iterator
from datetime import datetime, timezone

import msgspec

from busbw import comparability
from busbw.logs.log import Log, Row, Table

MAX_INTEGER = (1 << 63) - 1
"""Maximum integer that SQLite can store."""

_TIME_FORMATS = ("%Y-%m-%d %H:%M:%S", "%Y/%m/%d %H:%M:%S", "%a %b %d %H:%M:%S %Y", "%Y-%m-%dT%H:%M:%S")


def insert_log(cursor: sqlite3.Cursor, file_id: int, log: Log, *, changed_s: float) -> None:
    """Inserts the tables of a log into the index: each as one row of `runs`, with its series and their points.

    Args:
        cursor: Cursor within a transaction.
        file_id: Id of the log in `files`.
        log: The log.
        changed_s: Modification time of the file in seconds since 1970, used for tables without a start time.
    """
    for number, table in enumerate(log.tables, start=1):
        stated_s = parse_time_s(table.start_time)
        figures = [figure for row in table.rows for figure in row.figures.values()]
        values = {
            "file": file_id,
            "number": number,
            "time_s": changed_s if stated_s is None else stated_s,
            "time_source": "file" if stated_s is None else "log",
            "program": table.program,
            "program_version": table.program_version,
            "backend": _backend_name(table),
            "library": table.library,
            "hosts": " ".join(sorted(table.hosts)),
            "host_count": len(table.hosts),
            "device": ", ".join(sorted(table.devices)) or None,
            "ranks": table.ranks,
            "transport": comparability.transport_of(table),
            "method": comparability.method_text(table),
            "circumstances": msgspec.json.encode(_circumstances(table)).decode(),
            "complete": table.complete,
            "rows": len(table.rows),
            "wrong": sum(1 for figure in figures if figure.wrong_elements),
            "checked": sum(1 for figure in figures if figure.check == "checked"),
        }
        placeholders = ", ".join("?" * len(values))
        cursor.execute(f"INSERT INTO runs({', '.join(values)}) VALUES ({placeholders})", tuple(values.values()))
        assert cursor.lastrowid is not None
        _insert_series(cursor, cursor.lastrowid, table)


def parse_time_s(time: str | None) -> float | None:
    """Converts a time in a log to seconds since 1970. A time without a zone is UTC. None if the text is not a time."""
    if not time:
        return None
    text = time.strip().replace("Z", "+00:00")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        parsed_moments = (_parse_format(text, time_format) for time_format in _TIME_FORMATS)
        first_moment = next(filter(None, parsed_moments), None)
        if first_moment is None:
            return None
        moment = first_moment
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    try:
        time_s = moment.timestamp()
        datetime.fromtimestamp(time_s, timezone.utc)  # raises for a time that cannot be printed
    except (ValueError, OverflowError):
        return None
    return time_s


def _parse_format(text: str, time_format: str) -> datetime | None:
    try:
        return datetime.strptime(text, time_format)  # without a zone, like every time format here
    except ValueError:
        return None


def _backend_name(table: Table) -> str | None:
    """Returns the backend that the log states, or the first word of its library."""
    if stated := table.settings.get("backend"):
        return stated
    return table.library.split()[0].lower() if table.library else None


def _circumstances(table: Table) -> dict[str, str]:
    """Returns properties that may explain a change between runs."""
    versions = {"library": table.library, "program": table.program_version}
    facts = {name: value for name, value in versions.items() if value} | table.environment | table.settings
    return comparability.without_run_identity(facts)


def series_values(table: Table, row: Row) -> tuple[object, ...]:
    """Returns the columns `collective` to `variant` of the table `series` for a row, in the order of `StoredPoint`.

    The column `member` has the group of the row.
    """
    ranks = table.ranks_of(row)
    return (table.collective_of(row), row.dtype, row.redop, row.root, ranks, row.group, row.variant)


def _insert_series(cursor: sqlite3.Cursor, run_id: int, table: Table) -> None:
    rows_by_configuration: dict[tuple[object, ...], list[Row]] = {}
    for row in table.rows:
        rows_by_configuration.setdefault(series_values(table, row), []).append(row)
    for configuration, rows in rows_by_configuration.items():
        sizes = [row.size_bytes for row in rows]
        figures = [figure for row in rows for figure in row.figures.values()]
        peak_busbw_gbps = max((figure.busbw_gbps for figure in figures if figure.busbw_gbps is not None), default=None)
        cursor.execute(
            "INSERT INTO series(run, collective, dtype, redop, root, ranks, member, variant, min_bytes, max_bytes,"
            " peak_busbw_gbps, rows) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (run_id, *configuration, min(sizes), max(sizes), peak_busbw_gbps, len(rows)),
        )
        assert cursor.lastrowid is not None
        cursor.executemany(
            "INSERT OR REPLACE INTO points VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            _point_values(cursor.lastrowid, rows),
        )


def _point_values(series_id: int, rows: list[Row]) -> Iterator[tuple[object, ...]]:
    """Yields the columns of `points` for each measurement."""
    for row in rows:
        for placement, figure in row.figures.items():
            yield (
                series_id,
                row.size_bytes,
                placement,
                row.cycle,
                row.line,
                figure.time_us,
                figure.algbw_gbps,
                figure.busbw_gbps,
                figure.wrong_elements,
            )
