"""Run folders: their names, their content, and the search for a run by name.

A store is a folder. Each folder in it with a `records.jsonl` is a run, and so is each log file of any tool. Names that
begin with a dot belong to the store itself.
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from busbw.errors import UsageError
from busbw.support.files import path_text, replace_file
from busbw.units import names_text

STORE_VARIABLE = "BUSBW_STORE"
"""Variable with the folder of the store. If unset, the store is `busbw-records` in the current folder."""

RECORDS = "records.jsonl"
"""File that the engine writes: the measurements and their conditions."""

RUN_FILE = "run.json"
"""File with facts that the engine does not know: the typed command, and how the engine's process ended."""

LOG_SUFFIXES = {".jsonl", ".json", ".txt", ".log", ".out", ".md", ".html", ".csv"}
_TIMED_NAME = re.compile(r"\d{8}T\d{6}Z-")
"""Beginning of a name from `run_name`."""
_LAST_TEXT = re.compile(r"last(?:~(\d+))?")
"""`last` is the newest run, and `last~2` is the second run before the newest."""
_MAX_SAME_NAMES = 1000
"""Maximum number of runs with the same second and collective. It ends the search for a free name."""


class RunFile(Struct, kw_only=True, frozen=True):
    """Content of `run.json`."""

    format: int = 1
    command: list[str]
    """Arguments after `busbw`, as typed."""
    started: str
    """Start of the command in ISO 8601 with time zone, slightly before the engine's start."""
    ended: str | None = None
    """End of the command. Null while the run continues, or if the command itself was killed."""
    exit_code: int | None = None
    """Exit code of the engine; 128 + the signal number if a signal ended it. Null like `ended`."""


@dataclass(frozen=True)
class StoreEntry:
    """One run in a store."""

    name: str
    log: Path
    """Path of the log: `records.jsonl` in the run's folder, or the log file itself."""
    size_bytes: int
    mtime_ns: int
    """Modification time in nanoseconds since 1970."""


def default_folder() -> Path:
    """Returns the folder of the store that $BUSBW_STORE sets, or the default folder."""
    return Path(os.environ.get(STORE_VARIABLE) or "busbw-records")


def run_name(moment: datetime, collective: str) -> str:
    """Returns the name of a run that starts at `moment`. Sorting names sorts the runs by the second of their start."""
    return f"{moment:%Y%m%dT%H%M%SZ}-{collective}"


def has_timed_name(name: str) -> bool:
    """True if a name is that of a run or of a session, such as one of `busbw ab`."""
    return _TIMED_NAME.match(name) is not None


def new_run(store: Path, name: str) -> Path:
    """Creates the folder of a new run. If the name exists, a number is appended.

    Two runs that start at the same time never share a folder, because mkdir fails for the second one.

    Raises:
        UsageError: The folder cannot be created.
    """
    try:
        store.mkdir(parents=True, exist_ok=True)
        for number in range(1, _MAX_SAME_NAMES + 1):
            folder = store / (name if number == 1 else f"{name}-{number}")
            with suppress(FileExistsError):
                folder.mkdir()
                return folder
    except OSError as error:
        raise UsageError(
            f"cannot create a folder for the record in {store}: {error.strerror}",
            remedy=f"run in a writable folder, set {STORE_VARIABLE}, or pass --records FILE",
        ) from error
    raise UsageError(f"{store} has {_MAX_SAME_NAMES} runs named {name}", remedy="remove some of them")


def write_run_file(folder: Path, run: RunFile) -> None:
    """Replaces `run.json` atomically. A reader sees either the old or the new content."""
    replace_file(folder / RUN_FILE, msgspec.json.encode(run) + b"\n")


def entries(store: Path) -> Iterator[StoreEntry]:
    """Yields every run in the store, unordered; nothing if the store does not exist.

    Raises:
        UsageError: The folder cannot be read.
    """
    try:
        directory_entries = list(os.scandir(store))
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(
            f"cannot read the store {store}: {error.strerror}", remedy=f"set {STORE_VARIABLE} to a readable folder"
        ) from error
    for directory_entry in directory_entries:
        path = Path(directory_entry.path)
        is_folder, is_log_file = directory_entry.is_dir(), path.suffix in LOG_SUFFIXES
        belongs_to_store = directory_entry.name.startswith(".")
        if belongs_to_store or not (is_folder or is_log_file):
            continue
        log = path / RECORDS if is_folder else path
        try:
            status = log.stat()
        except OSError:  # a folder without records is not a run; a file may have been removed meanwhile
            continue
        if stat.S_ISREG(status.st_mode):
            # `path_text` makes the name valid text for the index and for output.
            yield StoreEntry(path_text(directory_entry.name), log, status.st_size, status.st_mtime_ns)


def find(text: str, store: Path | None = None) -> Path:
    """Returns the log of a run.

    `text` is a path, the name of a run in `store`, the beginning of a name, `last` for the newest run, or `last~1` for
    the run before the newest. None as `store` is the default folder.

    Raises:
        UsageError: No run or several runs match.
    """
    if not text:  # Path("") is the current folder
        raise UsageError("the name of a run or log is empty", remedy="give a path, or a name from `busbw runs`")
    path = Path(text)
    if path.is_dir() and (path / RECORDS).is_file():
        return path / RECORDS
    if path.exists() or text == "-":
        return path
    store = default_folder() if store is None else store
    runs = {entry.name: entry.log for entry in entries(store)}
    if last := _LAST_TEXT.fullmatch(text):
        return _find_last(runs, int(last[1] or 0), store)
    matches = [text] if text in runs else sorted(name for name in runs if name.startswith(text))
    if len(matches) == 1:
        return runs[matches[0]]
    if matches:
        raise UsageError(
            f'"{text}" begins the names of {len(matches)} runs: {names_text(matches, 3)}',
            remedy="type more of the name",
        )
    raise UsageError(
        f'"{text}" is neither a file nor a run in {store}',
        remedy="use a name from `busbw runs`, or last for the newest",
    )


def _find_last(runs: dict[str, Path], runs_back: int, store: Path) -> Path:
    """Returns the log of a run by its distance from the newest: 0 is the newest run, 1 the run before.

    Logs without a time in their name are ignored. Runs that start in the same second are sorted by their names.
    """
    timed = sorted(name for name in runs if _TIMED_NAME.match(name))
    if runs_back >= len(timed):
        count_text = f"has {len(timed)}" if timed else "has none"
        raise UsageError(
            f"run last~{runs_back} does not exist: {store} {count_text}", remedy="create a run with `busbw run`"
        )
    return runs[timed[-1 - runs_back]]
