"""Converts a log to rows of the index: runs, series (one configuration each), and points of a series."""

import re
import sqlite3
from collections.abc import Iterable
from datetime import datetime, timezone
from itertools import groupby

import msgspec

from busbw.logs import Log, Row, Table

LARGEST = (1 << 63) - 1
"""Largest integer that SQLite can store."""

_METHOD = {
    "aggregated_iterations": ("aggregated_iterations", "1"),
    "agg iters": ("aggregated_iterations", "1"),
    "graph_launches": ("graph_launches", "0"),
    "graph": ("graph_launches", "0"),
    "unalign_elements": ("unalign_elements", "0"),
    "unalign": ("unalign_elements", "0"),
    "blocking": ("blocking", "0"),
    "average": ("average", "1"),
}
"""Settings that change the meaning of a time: the name in a log, to the name in the index and the default value."""

_TIME_FORMS = ("%Y-%m-%d %H:%M:%S", "%Y/%m/%d %H:%M:%S", "%a %b %d %H:%M:%S %Y", "%Y-%m-%dT%H:%M:%S")

_CIRCUMSTANCE = re.compile(r"machine\.|iterations$|version|build$|driver|plugin", re.IGNORECASE)
"""Settings that may explain a change."""


def insert(cursor: sqlite3.Cursor, file: int, log: Log, *, changed_s: float) -> None:
    """Inserts the log's tables into the index.

    Args:
        cursor: Cursor within a transaction.
        file: Row of the log in `files`.
        log: The log.
        changed_s: Time of change of the file. It is used for tables without a start time.
    """
    for number, table in enumerate(log.tables, start=1):
        stated_s = seconds(table.start_time)
        figures = [figure for row in table.rows for figure in row.figures.values()]
        values = {
            "file": file,
            "number": number,
            "time_s": changed_s if stated_s is None else stated_s,
            "time_source": "file" if stated_s is None else "log",
            "program": table.program,
            "program_version": table.program_version,
            "backend": backend_of(table),
            "library": table.library,
            "hosts": " ".join(sorted(table.hosts)),
            "host_count": len(table.hosts),
            "device": ", ".join(sorted(table.devices)) or None,
            "ranks": table.ranks,
            "method": method_of(table),
            "circumstances": msgspec.json.encode(_circumstances(table)).decode(),
            "complete": table.complete,
            "rows": len(table.rows),
            "wrong": sum(1 for figure in figures if figure.wrong_elements),
            "checked": sum(1 for figure in figures if figure.check == "checked"),
        }
        places = ", ".join("?" * len(values))
        cursor.execute(f"INSERT INTO runs({', '.join(values)}) VALUES ({places})", tuple(values.values()))
        assert cursor.lastrowid is not None
        _insert_series(cursor, cursor.lastrowid, table)


def seconds(time: str | None) -> float | None:
    """Converts a time in a log to seconds since 1970. A time without a zone is UTC. None if the text is not a time."""
    if not time:
        return None
    text = time.strip().replace("Z", "+00:00")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        found = (_parsed(text, form) for form in _TIME_FORMS)
        known = next((moment for moment in found if moment), None)
        if known is None:
            return None
        moment = known
    try:
        found_s = (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()
        datetime.fromtimestamp(found_s, timezone.utc)  # fails for a time that cannot be printed
    except (ValueError, OverflowError):
        return None
    return found_s


def _parsed(text: str, form: str) -> datetime | None:
    try:
        return datetime.strptime(text, form).replace(tzinfo=timezone.utc)
    except ValueError:
        return None


def backend_of(table: Table) -> str | None:
    """Returns the backend that the log states, or the first word of its library."""
    if stated := table.settings.get("backend"):
        return stated
    return table.library.split()[0].lower() if table.library else None


def method_of(table: Table) -> str:
    """Returns the non-default settings that change the meaning of a time: 'graph_launches 10'."""
    found = ((*_METHOD[name], value) for name, value in table.settings.items() if name in _METHOD)
    return ", ".join(sorted(f"{name} {value}" for name, usual, value in found if value != usual))


def _circumstances(table: Table) -> dict[str, str]:
    """Returns properties that may explain a change between runs."""
    versions = {"library": table.library, "program": table.program_version}
    settings = {name: value for name, value in table.settings.items() if _CIRCUMSTANCE.search(name)}
    return {name: value for name, value in versions.items() if value} | settings | table.environment


def _configuration(table: Table, row: Row) -> tuple[object, ...]:
    ranks = table.ranks_of(row)
    return (table.collective_of(row), row.dtype, row.redop, row.root, ranks, row.group, row.variant)


def _insert_series(cursor: sqlite3.Cursor, run: int, table: Table) -> None:
    by_configuration: dict[tuple[object, ...], list[Row]] = {}
    for configuration, rows in groupby(table.rows, key=lambda row: _configuration(table, row)):
        by_configuration.setdefault(configuration, []).extend(rows)
    for configuration, members in by_configuration.items():
        sizes = [row.size_bytes for row in members]
        figures = [figure for row in members for figure in row.figures.values()]
        peak = max((figure.busbw_gbps for figure in figures if figure.busbw_gbps is not None), default=None)
        cursor.execute(
            "INSERT INTO series(run, collective, dtype, redop, root, ranks, member, variant, min_bytes, max_bytes,"
            " peak_busbw_gbps, rows) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (run, *configuration, min(sizes), max(sizes), peak, len(members)),
        )
        assert cursor.lastrowid is not None
        cursor.executemany(
            "INSERT OR REPLACE INTO points VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", _points(cursor.lastrowid, members)
        )


def _points(series: int, rows: list[Row]) -> Iterable[tuple[object, ...]]:
    for row in rows:
        for placement, figure in row.figures.items():
            yield (
                series,
                row.size_bytes,
                placement,
                row.cycle,
                row.line,
                figure.time_us,
                figure.algbw_gbps,
                figure.busbw_gbps,
                figure.wrong_elements,
            )
