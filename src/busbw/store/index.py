"""SQLite index of the runs in a store, so that `busbw runs` and `busbw history` need not read all logs.

The index contains only data from the logs. It is updated before each use: a log with a changed size or modification
time is read again, and the entry of a removed log is deleted. So the index can be deleted at any time, and it is
rebuilt if it is damaged or has another version.

A lock file lets only one process at a time change the index. If a process is killed during a change, SQLite's journal
restores the previous state. If the store is not writable, the index is built in memory.
"""

import errno
import fcntl
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from busbw import readers
from busbw.errors import BusbwError
from busbw.readers.documents.busbw_records import SearchRecordError
from busbw.store.layout import StoreEntry, entries
from busbw.store.rows import MAX_INTEGER, insert_log

VERSION = 6
"""Version of the tables below and their content. An index with another version is rebuilt."""

INDEX, LOCK = ".index.sqlite", ".index.lock"

_TABLES = """
CREATE TABLE files(
    id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, size_bytes INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
    problem TEXT, answer TEXT);
CREATE TABLE runs(
    id INTEGER PRIMARY KEY, file INTEGER NOT NULL REFERENCES files ON DELETE CASCADE, number INTEGER NOT NULL,
    time_s REAL NOT NULL, time_source TEXT NOT NULL, program TEXT, program_version TEXT, backend TEXT, library TEXT,
    hosts TEXT NOT NULL, host_count INTEGER NOT NULL, device TEXT, ranks INTEGER, transport TEXT, method TEXT NOT NULL,
    circumstances TEXT NOT NULL, complete INTEGER, rows INTEGER NOT NULL, wrong INTEGER NOT NULL,
    checked INTEGER NOT NULL);
CREATE TABLE series(
    id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE, collective TEXT, dtype TEXT,
    redop TEXT, root INTEGER, ranks INTEGER, member INTEGER NOT NULL, variant TEXT, min_bytes INTEGER NOT NULL,
    max_bytes INTEGER NOT NULL, peak_busbw_gbps REAL, rows INTEGER NOT NULL);
CREATE TABLE points(
    series INTEGER NOT NULL REFERENCES series ON DELETE CASCADE, size_bytes INTEGER NOT NULL,
    placement TEXT NOT NULL, cycle INTEGER NOT NULL, line INTEGER NOT NULL, time_us REAL, algbw_gbps REAL,
    busbw_gbps REAL, wrong INTEGER,
    PRIMARY KEY(series, size_bytes, placement, cycle, line)) WITHOUT ROWID;
CREATE INDEX runs_by_file ON runs(file);
CREATE INDEX runs_by_time ON runs(time_s);
CREATE INDEX series_by_run ON series(run);
CREATE INDEX series_by_kind ON series(collective, dtype);
"""
"""files: one row per log, with the `answer` if the log is the record of a search (`busbw find`).
runs: one row per table of a log. series: one row per configuration of a run. points: one row per measurement.
`series.member` holds `Row.group`, the group of ranks, because "group" is a word of SQL. The classes of query.py explain
the other columns."""

_LOCK_LIMIT_S = 60
"""Maximum wait for another process that updates the index."""
_POLL_S = 0.05
"""Interval between two attempts to take the lock."""
_LOGS_PER_COMMIT = 200
"""Number of logs per commit. If the first indexing of a large store is killed, at most this work is lost."""

_Result = TypeVar("_Result")


class Index:
    """Index of one store, updated when it is opened. Use it in a `with` statement."""

    def __init__(self, store: Path, *, rebuild: bool = False) -> None:
        """Opens and updates the index.

        Args:
            store: Folder of runs.
            rebuild: True to rebuild the index from the logs.

        Raises:
            BusbwError: The store cannot be read.
        """
        self.store = store
        self.messages: list[str] = []
        """Messages for the user about the index itself, one sentence each."""
        self._connection = self._open(rebuild=rebuild)

    def __enter__(self) -> "Index":
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._connection.close()

    def query(self, run_query: Callable[[sqlite3.Connection], _Result]) -> _Result:
        """Runs a query. If the index is damaged, rebuilds it and runs the query again.

        Raises:
            BusbwError: The index is in use, or it is still damaged after the rebuild.
        """
        try:
            return run_query(self._connection)
        except sqlite3.DatabaseError as error:
            is_in_use = "locked" in str(error)
            if is_in_use:
                raise BusbwError(f"the index of {self.store} is in use: {error}", remedy="try again later") from error
            self._connection.close()
            self.messages.append(f"the index was damaged ({error}) and has been rebuilt")
            self._connection = self._open(rebuild=True)
        try:
            return run_query(self._connection)
        except sqlite3.DatabaseError as error:
            raise BusbwError(f"the index of {self.store} cannot be read: {error}", remedy="check the disk") from error

    def problems(self) -> list[tuple[str, str]]:
        """Returns the unreadable files in the store with the reasons, sorted by name."""
        sql = "SELECT name, problem FROM files WHERE problem IS NOT NULL ORDER BY name"
        return self.query(lambda connection: connection.execute(sql).fetchall())

    def searches(self) -> list[tuple[str, str]]:
        """Returns the searches in the store (`busbw find`) with their answers, the newest first."""
        sql = "SELECT name, answer FROM files WHERE answer IS NOT NULL ORDER BY mtime_ns DESC, name DESC"
        return self.query(lambda connection: connection.execute(sql).fetchall())

    def _open(self, *, rebuild: bool) -> sqlite3.Connection:
        """Returns a connection to the updated index, in memory if the store does not exist or is not writable."""
        if not self.store.is_dir():
            return self._update_index(_connect(":memory:"))
        try:
            with _hold_lock(self.store / LOCK):  # only for the update; queries need no lock
                return self._open_index_file(rebuild=rebuild)
        except (OSError, sqlite3.OperationalError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self.messages.append(f"the index cannot be stored in {self.store} ({reason}); it was built in memory")
            return self._update_index(_connect(":memory:"))

    def _open_index_file(self, *, rebuild: bool) -> sqlite3.Connection:
        path = self.store / INDEX
        if rebuild:
            _remove_index(path)
        try:
            return self._update_index(_connect(str(path)))
        except sqlite3.OperationalError:
            raise  # not damage: for example, the file is locked or read-only
        except sqlite3.DatabaseError as error:
            self.messages.append(f"the index was damaged ({error}) and has been rebuilt")
            _remove_index(path)
            return self._update_index(_connect(str(path)))

    def _update_index(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        """Brings the index at a connection up to date and returns the connection; closes it if that fails."""
        try:
            if _read_version(connection) != VERSION:
                _make_tables(connection)
            _update_logs(connection, {entry.name: entry for entry in entries(self.store)})
        except BaseException:
            connection.close()
            raise
        return connection


@contextmanager
def _hold_lock(path: Path) -> Iterator[None]:
    """Holds the lock file, which one process at a time can lock. The kernel releases the lock of a killed process."""
    # O_NONBLOCK: if the path is a pipe, open must not wait for its other end.
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o666), "rb") as lock:
        deadline_s = time.monotonic() + _LOCK_LIMIT_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline_s:
                    raise OSError(
                        errno.EWOULDBLOCK, f"another process has held {path.name} for {_LOCK_LIMIT_S} s"
                    ) from None
            time.sleep(_POLL_S)
        yield


def _connect(path: str) -> sqlite3.Connection:
    # Without an isolation level, only `_transaction` begins and commits transactions.
    connection = sqlite3.connect(path, timeout=_LOCK_LIMIT_S, isolation_level=None)
    try:
        # An index that is lost in a power failure is rebuilt, so writes need not wait for the disk.
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA cache_size = -65536")  # in KiB if negative: 64 MiB
    except BaseException:
        connection.close()
        raise
    return connection


def _remove_index(path: Path) -> None:
    for path_to_remove in (path, path.with_name(f"{path.name}-journal")):
        path_to_remove.unlink(missing_ok=True)


def _read_version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _make_tables(connection: sqlite3.Connection) -> None:
    with _transaction(connection):
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (name,) in names:
            connection.execute(f'DROP TABLE "{name}"')
        for statement in _TABLES.split(";\n"):  # `executescript` would commit the transaction
            if statement.strip():
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _update_logs(connection: sqlite3.Connection, entries_by_name: dict[str, StoreEntry]) -> None:
    """Removes the logs that are no longer in the store, and indexes the new and changed ones."""
    indexed = {
        name: (size_bytes, mtime_ns)
        for name, size_bytes, mtime_ns in connection.execute("SELECT name, size_bytes, mtime_ns FROM files")
    }
    removed = indexed.keys() - entries_by_name.keys()
    changed = [
        entry
        for name, entry in entries_by_name.items()
        if indexed.get(name) != (entry.size_bytes, _indexed_mtime_ns(entry))
    ]
    if removed:
        with _transaction(connection):
            connection.executemany("DELETE FROM files WHERE name = ?", [(name,) for name in removed])
    for first in range(0, len(changed), _LOGS_PER_COMMIT):
        with _transaction(connection):
            for entry in changed[first : first + _LOGS_PER_COMMIT]:
                _index_log(connection, entry)


def _index_log(connection: sqlite3.Connection, entry: StoreEntry) -> None:
    """Replaces the entry of a log by its current content."""
    connection.execute("DELETE FROM files WHERE name = ?", (entry.name,))
    log = problem = answer = None
    try:
        log = readers.read(entry.log)
    except SearchRecordError as error:
        answer = error.answer
    except BusbwError as error:  # one unreadable file must not hide the others
        problem = str(error)
    if log and not log.tables:
        problem = "it has no table with rows"
    values = (entry.name, entry.size_bytes, _indexed_mtime_ns(entry), problem, answer)
    with closing(connection.cursor()) as cursor:
        cursor.execute("INSERT INTO files(name, size_bytes, mtime_ns, problem, answer) VALUES (?, ?, ?, ?, ?)", values)
        file_id = cursor.lastrowid
        assert file_id is not None
        if log:
            insert_log(cursor, file_id, log, changed_s=_indexed_mtime_ns(entry) / 1e9)


def _indexed_mtime_ns(entry: StoreEntry) -> int:
    """Returns the log's modification time in ns from 0 to SQLite's maximum, because a file may have any time."""
    return min(max(entry.mtime_ns, 0), MAX_INTEGER)
