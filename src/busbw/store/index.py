"""The index over a store: what is in each run, in SQLite, so that a million rows are filtered at once.

It holds nothing that is not in the logs and is always brought up to date before it is asked: a log whose size or time
of change is another is read again, one that is gone is forgotten. So it may be deleted at any time, and is built anew
when it is damaged or of another version. A lock file lets one process at a time change it; a kill in the middle of a
change leaves the state before it, by SQLite's journal. Where the store cannot be written it is built in memory.
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
from busbw.logs import Log
from busbw.store.layout import StoreEntry, entries
from busbw.store.rows import LARGEST, insert

VERSION = 3
"""Of the tables below and what is put into them; an index of another version is built anew."""

INDEX, LOCK = ".index.sqlite", ".index.lock"

_TABLES = """
CREATE TABLE files(
    id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, size_bytes INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
    problem TEXT);
CREATE TABLE runs(
    id INTEGER PRIMARY KEY, file INTEGER NOT NULL REFERENCES files ON DELETE CASCADE, number INTEGER NOT NULL,
    time_s REAL NOT NULL, time_source TEXT NOT NULL, program TEXT, program_version TEXT, backend TEXT, library TEXT,
    hosts TEXT NOT NULL, host_count INTEGER NOT NULL, device TEXT, ranks INTEGER, method TEXT NOT NULL,
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

_WAIT_S = 60
_BETWEEN_LOOKS_S = 0.05
_BATCH = 200
"""Logs per commit: a kill while a large store is indexed for the first time costs no more than these."""

_Answer = TypeVar("_Answer")


class Index:
    """The index of one store, up to date when it was opened. Use it in a `with`."""

    def __init__(self, store: Path, *, rebuild: bool = False) -> None:
        """Opens and updates it.

        Args:
            store: The folder of runs.
            rebuild: Whether to build it anew from the logs.

        Raises:
            BusbwError: The store cannot be read.
        """
        self.store = store
        self.words: list[str] = []
        """What a user should know about the index itself, a sentence each."""
        self._connection = self._opened(rebuild=rebuild)

    def __enter__(self) -> "Index":
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._connection.close()

    def ask(self, question: Callable[[sqlite3.Connection], _Answer]) -> _Answer:
        """What the question makes of the tables. Where it meets damage, the index is built anew and it is asked again.

        Raises:
            BusbwError: The index was built anew and is still damaged.
        """
        try:
            return question(self._connection)
        except sqlite3.DatabaseError as error:
            if "locked" in str(error):
                raise BusbwError(f"the index of {self.store} is in use: {error}", remedy="try again later") from error
            self._connection.close()
            self.words.append(f"the index was damaged ({error}) and has been built anew")
            self._connection = self._opened(rebuild=True)
        try:
            return question(self._connection)
        except sqlite3.DatabaseError as error:
            raise BusbwError(f"the index of {self.store} cannot be read: {error}", remedy="check the disk") from error

    def problems(self) -> list[tuple[str, str]]:
        """Files in the store that could not be read, by name, each with the reason."""
        wanted = "SELECT name, problem FROM files WHERE problem IS NOT NULL ORDER BY name"
        return self.ask(lambda connection: connection.execute(wanted).fetchall())

    def _opened(self, *, rebuild: bool) -> sqlite3.Connection:
        if not self.store.is_dir():
            return self._updated(_connect(":memory:"))
        try:
            with _locked(self.store / LOCK):
                return self._on_disk(rebuild=rebuild)
        except (OSError, sqlite3.OperationalError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self.words.append(f"the index cannot be kept in {self.store} ({reason}); it was built for this once")
            return self._updated(_connect(":memory:"))

    def _on_disk(self, *, rebuild: bool) -> sqlite3.Connection:
        path = self.store / INDEX
        if rebuild:
            _remove(path)
        try:
            return self._updated(_connect(str(path)))
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            self.words.append(f"the index was damaged ({error}) and has been built anew")
            _remove(path)
            return self._updated(_connect(str(path)))

    def _updated(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        try:
            if _version(connection) != VERSION:
                _make_tables(connection)
            _update(connection, {entry.name: entry for entry in entries(self.store)})
        except BaseException:
            connection.close()
            raise
        return connection


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Only one process at a time; it goes with the process, also with one that is killed."""
    # Not waiting for who may write, should it be a pipe.
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o666), "rb") as lock:
        end_s = time.monotonic() + _WAIT_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end_s:
                    raise OSError(errno.EWOULDBLOCK, f"another process has held {path.name} for {_WAIT_S} s") from None
            time.sleep(_BETWEEN_LOOKS_S)
        yield


def _connect(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None)
    try:
        # What is lost with the power is built anew, so no write waits for the disk.
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA cache_size = -65536")
    except BaseException:
        connection.close()
        raise
    return connection


def _remove(path: Path) -> None:
    for leftover in (path, path.with_name(f"{path.name}-journal")):
        leftover.unlink(missing_ok=True)


def _version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _make_tables(connection: sqlite3.Connection) -> None:
    with _transaction(connection):
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (name,) in names:
            connection.execute(f'DROP TABLE "{name}"')
        for statement in _TABLES.split(";\n"):
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


def _update(connection: sqlite3.Connection, there: dict[str, StoreEntry]) -> None:
    known = {
        name: (size_bytes, mtime_ns)
        for name, size_bytes, mtime_ns in connection.execute("SELECT name, size_bytes, mtime_ns FROM files")
    }
    gone = known.keys() - there.keys()
    changed = [entry for name, entry in there.items() if known.get(name) != (entry.size_bytes, _changed_ns(entry))]
    if gone:
        with _transaction(connection):
            connection.executemany("DELETE FROM files WHERE name = ?", [(name,) for name in gone])
    for first in range(0, len(changed), _BATCH):
        with _transaction(connection):
            for entry in changed[first : first + _BATCH]:
                _take(connection, entry)


def _take(connection: sqlite3.Connection, entry: StoreEntry) -> None:
    """Puts a log in the place of what was known of it."""
    connection.execute("DELETE FROM files WHERE name = ?", (entry.name,))
    log, problem = _read(entry)
    values = (entry.name, entry.size_bytes, _changed_ns(entry), problem)
    with closing(connection.cursor()) as cursor:
        cursor.execute("INSERT INTO files(name, size_bytes, mtime_ns, problem) VALUES (?, ?, ?, ?)", values)
        file = cursor.lastrowid
        assert file is not None
        if log:
            insert(cursor, file, log, changed_s=_changed_ns(entry) / 1e9)


def _changed_ns(entry: StoreEntry) -> int:
    """When its log was changed, as far as the index can hold that: a file's time may be anything."""
    return min(max(entry.mtime_ns, 0), LARGEST)


def _read(entry: StoreEntry) -> tuple[Log | None, str | None]:
    """The log, or why there is none: one file that cannot be read must not hide the others."""
    try:
        log = readers.read(entry.log)
    except BusbwError as error:
        return None, str(error)
    return (log, None) if log.tables else (log, "no row of a table was found in it")
