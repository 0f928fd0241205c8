"""Run folder of `busbw fastpath tune`: keeps the measurements, so that the same command can resume the tuning."""

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
from busbw.store import default_folder, new_run, run_name
from busbw.support.files import replace_file

SETTINGS_FILE = "tuning.json"
"""Settings of the tuning, as settings_bytes() returns them."""
TABLE_FILE = "fastpath.table"
"""Written to the folder when the tuning has finished."""
_LOCK_FILE = ".lock"
_RUN_NAME_SUFFIX = "fastpath-tune"


def settings_bytes(targets: Sequence[TuningTarget], collectives: Sequence[str]) -> bytes:
    """Settings that must be equal to resume a tuning, as JSON. At least one target is without symmetric windows."""
    ordinary = [target for target in targets if not target.in_windows]
    in_windows = [target for target in targets if target.in_windows]
    first = ordinary[0]  # library, type and sizes are the same for all ordinary targets
    settings = {
        "library_sha256": hashlib.sha256(first.library.read_bytes()).hexdigest(),
        "host": socket.gethostname(),
        "devices": engine.devices(),
        "busbw": __version__,
        "ranks": [target.ranks for target in ordinary],
        "collectives": list(collectives),
        "dtype": first.dtype,
        "sizes_bytes": list(first.sizes),
        "sizes_in_windows_bytes": list(in_windows[0].sizes) if in_windows else [],
    }
    return msgspec.json.format(msgspec.json.encode(settings)) + b"\n"


def open_folder(requested: Path | None, settings: bytes) -> tuple[Path, bool]:
    """Returns the folder for the measurements, and True if it may contain earlier ones.

    If `requested` is None, takes the newest unfinished tuning with equal settings in the run store, or a new folder.

    Raises:
        UsageError: The requested folder cannot be created, or contains other files or a tuning with other settings.
    """
    if requested is None:
        if unfinished := _find_unfinished(settings):
            return unfinished, True
        folder = new_run(default_folder(), run_name(datetime.now(timezone.utc), _RUN_NAME_SUFFIX))
    else:
        folder = make_folder(requested)
        if _has_settings(folder, settings):
            return folder, True
    replace_file(folder / SETTINGS_FILE, settings)
    return folder, False


def _find_unfinished(settings: bytes) -> Path | None:
    """Returns the newest unfinished tuning with these settings in the run store. None without such a tuning."""
    for folder in sorted(default_folder().glob(f"*-{_RUN_NAME_SUFFIX}*"), reverse=True):
        with suppress(OSError):
            if not (folder / TABLE_FILE).exists() and (folder / SETTINGS_FILE).read_bytes() == settings:
                return folder
    return None


def _has_settings(folder: Path, settings: bytes) -> bool:
    """True if the folder contains a tuning with these settings, false if it is empty.

    Raises:
        UsageError: The folder contains something else.
    """
    try:
        if (folder / SETTINGS_FILE).read_bytes() == settings:
            return True
        problem = "was measured with other settings"
    except FileNotFoundError:
        if not any(folder.iterdir()):
            return False
        problem = "contains other files"
    raise UsageError(f"the folder {folder} {problem}", remedy="name another folder")


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Locks the folder against other tunings. The lock ends with the process.

    Raises:
        BusbwError: Another tuning has locked the folder.
    """
    with (folder / _LOCK_FILE).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BusbwError(
                f"another tuning is running in {folder}",
                remedy="wait until it has finished, or name another --records-folder",
            ) from error
        yield


def make_folder(folder: Path) -> Path:
    """Creates the folder if it does not exist, and returns it.

    Raises:
        UsageError: The folder cannot be created.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot create the folder {folder}: {error.strerror}", remedy="name another folder"
        ) from error
    return folder
