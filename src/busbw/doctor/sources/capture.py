"""Captures: archives of everything that checks read on a machine. A capture yields the same result on any machine.

An archive holds the values under their keys (tree.py), and `manifest.json` with folders, links and unreadable values.
"""

import gzip
import io
import tarfile
import zlib
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from busbw.doctor.model import Absent, Unreadable, absolute_path
from busbw.doctor.sources.archive import MAX_VALUE_BYTES, is_plausible, members
from busbw.doctor.sources.recording import Outcome, Recording
from busbw.errors import UsageError
from busbw.units import plain

T = TypeVar("T")

MANIFEST = "manifest.json"
FORMAT = 1


class Manifest(Struct, kw_only=True, frozen=True):
    """Values of a capture that are no files, and reasons for missing values."""

    format: int = FORMAT
    busbw_version: str = ""
    folders: dict[str, tuple[str, ...]] = {}
    targets: dict[str, str] = {}
    """Keys without symbolic links, by the key that was asked for."""
    absent: tuple[str, ...] = ()
    """Keys that do not exist, although a folder lists them."""
    unreadable: dict[str, str] = {}
    """Reason, or the missing value, by the key that cannot be read."""


class Capture:
    """Tree of a capture. A key that the capture does not have was absent on the machine."""

    def __init__(self, files: dict[str, bytes], manifest: Manifest) -> None:
        self.files = files
        self.manifest = manifest
        self._absent = frozenset(manifest.absent)
        self._folders: dict[str, set[str]] = {}
        for key in filter(is_plausible, [*files, *manifest.targets]):
            parts = key.split("/")
            for depth in range(1, len(parts)):
                self._folders.setdefault("/".join(parts[:depth]), set()).add(parts[depth])

    def read(self, key: str) -> bytes:
        """Returns the content of a file, the output of a command, or a fact."""
        self._raise_if_unreadable(key)
        if key not in self.files:
            if key in self._folders:
                raise Unreadable(f"{absolute_path(key)} is not a regular file")
            raise Absent(f"{absolute_path(key)} does not exist")
        return self.files[key]

    def names(self, key: str) -> tuple[str, ...]:
        """Returns the names in a folder."""
        if key in self.manifest.folders:
            return self.manifest.folders[key]
        self._raise_if_unreadable(key)
        if key not in self._folders:
            raise Absent(f"{absolute_path(key)} does not exist")
        return tuple(self._folders[key])

    def target(self, key: str) -> str:
        """Returns the key of a file or folder without symbolic links in it."""
        if key in self.manifest.targets:
            return self.manifest.targets[key]
        if key not in self._absent and any(key in each for each in (self.files, self._folders, self.manifest.folders)):
            return key
        self._raise_if_unreadable(key)
        raise Absent(f"{absolute_path(key)} does not exist")

    def _raise_if_unreadable(self, key: str) -> None:
        if key in self.manifest.unreadable:
            raise Unreadable(plain(self.manifest.unreadable[key]))


def capture_of(recording: Recording, *, busbw_version: str) -> Capture:
    """Returns a capture with everything that was recorded."""
    files, folders, targets = _values(recording.files), _values(recording.folders), _values(recording.targets)
    errors = {**_errors(recording.targets), **_errors(recording.folders), **_errors(recording.files)}
    manifest = Manifest(
        busbw_version=busbw_version,
        folders={key: tuple(sorted(names)) for key, names in folders.items()},
        # A target is omitted if the file shows it: the file exists, and its key has no symbolic link.
        targets={key: target for key, target in targets.items() if target != key or key not in files},
        absent=tuple(sorted(key for key, error in errors.items() if isinstance(error, Absent))),
        unreadable={key: str(error) for key, error in errors.items() if not isinstance(error, Absent)}
        | {key: f"an answer for {absolute_path(key)} in time" for key in recording.unfinished()},
    )
    return Capture(files, manifest)


def _values(outcomes: dict[str, Outcome[T]]) -> dict[str, T]:
    return {key: outcome for key, outcome in tuple(outcomes.items()) if not isinstance(outcome, Unreadable)}


def _errors(outcomes: dict[str, Outcome[T]]) -> dict[str, Unreadable]:
    return {key: outcome for key, outcome in tuple(outcomes.items()) if isinstance(outcome, Unreadable)}


def archive_bytes(capture: Capture) -> bytes:
    """Returns a capture as a compressed archive. Equal captures yield equal archives."""
    target = io.BytesIO()
    with gzip.GzipFile(fileobj=target, mode="wb", mtime=0) as zipped, tarfile.open(fileobj=zipped, mode="w") as archive:
        manifest = msgspec.json.format(msgspec.json.encode(capture.manifest), indent=1)
        for key, content in [(MANIFEST, manifest), *sorted(capture.files.items())]:
            member = tarfile.TarInfo(key)
            member.size = len(content)
            member.mode = 0o644
            archive.addfile(member, io.BytesIO(content))
    return target.getvalue()


def read_capture(path: Path) -> Capture:
    """Reads an archive, or the folder of an unpacked one. Nothing is written to disk.

    Raises:
        UsageError: The file cannot be read, or is no capture.
    """
    files: dict[str, bytes] = {}
    too_long: dict[str, str] = {}
    try:
        for key, size, content in members(path, MANIFEST):
            if size > MAX_VALUE_BYTES and key != MANIFEST:
                too_long[key] = f"{absolute_path(key)} is longer than {MAX_VALUE_BYTES >> 20} MiB"
            else:
                files[key] = content.read()
    except (OSError, EOFError, ValueError, OverflowError, zlib.error, tarfile.TarError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else plain(str(error))
        raise UsageError(
            f"cannot read the capture {path}: {reason}", remedy="write one with busbw doctor --capture FILE"
        ) from error
    if not files and not too_long:
        raise UsageError(f"{path} holds no capture", remedy="write one with busbw doctor --capture FILE")
    try:
        manifest = msgspec.json.decode(files.pop(MANIFEST, b"{}"), type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(
            f"{MANIFEST} in {path} is not valid: {plain(str(error))}", remedy="write a new capture"
        ) from error
    if manifest.format > FORMAT:
        raise UsageError(f"{path} has format {manifest.format}, but this busbw knows {FORMAT}", remedy="update busbw")
    return Capture(files, replace(manifest, unreadable=manifest.unreadable | too_long))
