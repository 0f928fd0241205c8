"""Where a tuning keeps what it measures, so that the same command goes on where one was stopped."""

import fcntl
import hashlib
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from busbw import __version__, engine
from busbw.errors import BusbwError, UsageError
from busbw.fastpath.tuning import TuningTarget
from busbw.files import replace_file
from busbw.store import default_folder, new_run, run_name

SETTINGS_FILE = "tuning.json"
TABLE_FILE = "fastpath.table"
"""Stands in the folder once the tuning has come to its end."""
_LOCK_FILE = ".lock"
_SUFFIX = "fastpath-tune"


def settings_bytes(asked: Sequence[TuningTarget], collectives: Sequence[str]) -> bytes:
    """What must be the same for measurements to go on with."""
    ordinary = [each for each in asked if not each.in_windows]
    windows = [each for each in asked if each.in_windows]
    first = ordinary[0]
    settings = {
        "library_sha256": hashlib.sha256(first.library.read_bytes()).hexdigest(),
        "host": socket.gethostname(),
        "devices": engine.devices(),
        "busbw": __version__,
        "ranks": [each.ranks for each in ordinary],
        "collectives": list(collectives),
        "dtype": first.dtype,
        "sizes_bytes": list(first.sizes),
        "sizes_in_windows_bytes": list(windows[0].sizes) if windows else [],
    }
    return msgspec.json.format(msgspec.json.encode(settings)) + b"\n"


def open_folder(named: Path | None, settings: bytes) -> tuple[Path, bool]:
    """The folder to measure in, and whether some of it may have been measured already.

    Without a name it is the newest of the store in which the same was tuned and not ended, or a new one.

    Raises:
        UsageError: The named one holds something else, or none can be made.
    """
    if named is None:
        for old in sorted(default_folder().glob(f"*-{_SUFFIX}*"), reverse=True):
            with suppress(OSError):
                if not (old / TABLE_FILE).exists() and (old / SETTINGS_FILE).read_bytes() == settings:
                    return old, True
        where = new_run(default_folder(), run_name(datetime.now(timezone.utc), _SUFFIX))
    else:
        where = make_folder(named)
        try:
            if (where / SETTINGS_FILE).read_bytes() == settings:
                return where, True
            what = "was measured with other settings"
        except FileNotFoundError:
            what = "holds other files" if any(where.iterdir()) else ""
        if what:
            raise UsageError(f"the folder {named} {what}", remedy="name another one")
    replace_file(where / SETTINGS_FILE, settings)
    return where, False


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Nobody else measures in the folder meanwhile; whoever dies gives it up.

    Raises:
        BusbwError: Somebody does.
    """
    with (folder / _LOCK_FILE).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BusbwError(
                f"another tuning measures in {folder}", remedy="wait for its end, or name another --records-folder"
            ) from error
        yield


def make_folder(folder: Path) -> Path:
    """The folder, which is there then.

    Raises:
        UsageError: It cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make the folder {folder}: {error.strerror}", remedy="name another one") from error
    return folder
