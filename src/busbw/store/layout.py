"""Run folders: how they are named, what is in them, and how a run is found by its name.

A store is a folder. Each folder in it that holds `records.jsonl` is a run, and so is each log file that lies in it,
whichever tool wrote it. Names that begin with a dot belong to the store itself.
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
from busbw.files import replace_file

STORE_VARIABLE = "BUSBW_STORE"
"""Names the folder of the store; without it, it is `busbw-records` in the current folder."""

RECORDS = "records.jsonl"
"""What the engine wrote: the measurements and what they were made with."""

RUN_FILE = "run.json"
"""What the engine cannot know of itself: the command as it was typed, and how its process ended."""

_LOG_SUFFIXES = {".jsonl", ".json", ".txt", ".log", ".out", ".md", ".html", ".csv"}
_TIMED = re.compile(r"\d{8}T\d{6}Z-")
_LAST = re.compile(r"last(?:~(\d+))?")
_MAX_SAME_NAMES = 1000


class RunFile(Struct, kw_only=True, frozen=True):
    """What stands in `run.json`."""

    format: int = 1
    command: list[str]
    """What was typed after `busbw`."""
    started: str
    """ISO 8601 with zone; of the command, so a little before the engine's own."""
    ended: str | None = None
    """Null while the run goes on, or when the command itself was killed."""
    exit_code: int | None = None
    """The engine's, 128 + the signal where one ended it; null as above."""


@dataclass(frozen=True)
class StoreEntry:
    """One run in a store."""

    name: str
    log: Path
    """What a reader reads."""
    size_bytes: int
    mtime_ns: int


def default_folder() -> Path:
    """The store that is used when none is named."""
    return Path(os.environ.get(STORE_VARIABLE) or "busbw-records")


def run_name(moment: datetime, collective: str) -> str:
    """The name of a run that begins now: sorted by name is sorted by time."""
    return f"{moment:%Y%m%dT%H%M%SZ}-{collective}"


def new_run(store: Path, name: str) -> Path:
    """Makes the folder of a new run; one of the same name gets a number behind it.

    Making a folder either succeeds or finds it there, so two runs that begin at once never share one.

    Raises:
        UsageError: The folder cannot be made.
    """
    try:
        store.mkdir(parents=True, exist_ok=True)
        for number in range(1, _MAX_SAME_NAMES):
            folder = store / (name if number == 1 else f"{name}-{number}")
            with suppress(FileExistsError):
                folder.mkdir()
                return folder
    except OSError as error:
        raise UsageError(
            f"cannot make a folder for the record in {store}: {error.strerror}",
            remedy=f"run in a folder where you may write, name one with {STORE_VARIABLE}, or give --records FILE",
        ) from error
    raise UsageError(f"{store} has {_MAX_SAME_NAMES} runs named {name}", remedy="remove some of them")


def write_run_file(folder: Path, run: RunFile) -> None:
    """Writes `run.json` whole: a reader finds the old one or the new one."""
    replace_file(folder / RUN_FILE, msgspec.json.encode(run) + b"\n")


def entries(store: Path) -> Iterator[StoreEntry]:
    """Every run in the store, in no order. A store that is not there has none."""
    try:
        found = list(os.scandir(store))
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(
            f"cannot read the store {store}: {error.strerror}", remedy=f"name a folder with {STORE_VARIABLE}"
        ) from error
    for item in found:
        is_folder = item.is_dir()
        path = Path(item.path)
        if item.name.startswith(".") or not (is_folder or path.suffix in _LOG_SUFFIXES):
            continue
        with suppress(OSError):  # a folder without records is no run yet; a file may just have been removed
            log = path / RECORDS if is_folder else path
            status = log.stat()
            if not stat.S_ISREG(status.st_mode):
                continue
            # The index and what is printed are text.
            name = os.fsencode(item.name).decode(errors="backslashreplace")
            yield StoreEntry(name, log, status.st_size, status.st_mtime_ns)


def find(text: str, store: Path | None = None) -> Path:
    """The log of a run that a user names: a path, a run's name or the beginning of it, `last`, `last~1` before it.

    Raises:
        UsageError: There is none of that name, or several.
    """
    path = Path(text)
    if path.is_dir() and (path / RECORDS).is_file():
        return path / RECORDS
    if path.exists() or text == "-":
        return path
    store = default_folder() if store is None else store
    runs = {entry.name: entry.log for entry in entries(store)}
    if last := _LAST.fullmatch(text):
        return _last(runs, int(last[1] or 0), store)
    matches = [text] if text in runs else sorted(name for name in runs if name.startswith(text))
    if len(matches) == 1:
        return runs[matches[0]]
    if matches:
        shown = ", ".join(matches[:3]) + (f" and {len(matches) - 3} more" if len(matches) > 3 else "")
        raise UsageError(f'"{text}" begins the names of {len(matches)} runs: {shown}', remedy="give more of the name")
    raise UsageError(
        f'"{text}" is neither a file nor a run in {store}',
        remedy="busbw runs lists the runs; the newest is called last",
    )


def _last(runs: dict[str, Path], back: int, store: Path) -> Path:
    """By name, which begins with the time; other people's logs have no place in that order."""
    timed = sorted(name for name in runs if _TIMED.match(name))
    if back >= len(timed):
        has = f"has {len(timed)}" if timed else "has none"
        raise UsageError(f"run last~{back} was asked for and {store} {has}", remedy="busbw run makes one")
    return runs[timed[-1 - back]]
