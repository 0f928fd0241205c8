"""Captures: archives of everything that checks read on a machine. A capture yields the same result on any machine.

An archive holds the values under their keys (tree.py), and `manifest.json` with folders, links and unreadable values.
"""

import gzip
import io
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from busbw.doctor.model import Absent, Unreadable, key_text
from busbw.doctor.sources.recording import Outcome, Recording
from busbw.errors import UsageError
from busbw.support.files import read_user_file
from busbw.units import plain

T = TypeVar("T")

MANIFEST = "manifest.json"
_FORMAT = 1
_MAX_ARCHIVE_BYTES = 256 << 20
"""Maximum length of all files. A node with 16 NICs has less than 2 MiB."""
_MAX_VALUE_BYTES = 4 << 20
_MAX_FILES = 20_000
_MAX_KEY_LENGTH, _MAX_DEPTH = 1024, 50
_GZIP = b"\x1f\x8b"
_MESSAGE_TOO_LARGE = "it is too large for a capture"

_Entry = tuple[str, int, IO[bytes] | None]
"""Name, length and content of a file. The content is None for an entry that is no regular file."""


class Manifest(Struct, kw_only=True, frozen=True):
    """Values of a capture that are no files, and reasons for missing values."""

    format: int = _FORMAT
    folders: dict[str, tuple[str, ...]] = {}
    targets: dict[str, str] = {}
    """Keys without symbolic links, by the key that was asked for."""
    absent: tuple[str, ...] = ()
    """Keys that did not exist."""
    unreadable: dict[str, str] = {}
    """Reason, or the missing value, by the key that cannot be read."""


class Capture:
    """Tree of a capture.

    A key that the capture does not have was absent on the machine if the manifest lists it, or if the manifest lists no
    absent key at all, as in a capture written by hand. Otherwise no check has read the key.
    """

    def __init__(self, files: dict[str, bytes], manifest: Manifest) -> None:
        self.files = files
        self.manifest = manifest
        self._absent = frozenset(manifest.absent)
        self._folders: dict[str, set[str]] = {}
        for key in filter(_is_plausible, [*files, *manifest.targets]):
            parts = key.split("/")
            for depth in range(1, len(parts)):
                self._folders.setdefault("/".join(parts[:depth]), set()).add(parts[depth])

    def read(self, key: str) -> bytes:
        """Returns the content of a file, the output of a command, or a fact."""
        self._raise_if_unreadable(key)
        if key not in self.files:
            if key in self._folders:
                raise Unreadable(f"{key_text(key)} is not a regular file")
            raise self._missing(key)
        return self.files[key]

    def names(self, key: str) -> tuple[str, ...]:
        """Returns the names in a folder."""
        if key in self.manifest.folders:
            return self.manifest.folders[key]
        self._raise_if_unreadable(key)
        if key not in self._folders or self._absent:
            raise self._missing(key)
        return tuple(self._folders[key])

    def target(self, key: str) -> str:
        """Returns the key of a file or folder without symbolic links in it."""
        if key in self.manifest.targets:
            return self.manifest.targets[key]
        if key not in self._absent and any(
            key in names for names in (self.files, self._folders, self.manifest.folders)
        ):
            return key
        self._raise_if_unreadable(key)
        raise self._missing(key)

    def _missing(self, key: str) -> Unreadable:
        if self._absent and key not in self._absent:
            return Unreadable(f"{key_text(key)}, which nobody has read for this capture")
        return Absent(f"{key_text(key)} does not exist")

    def _raise_if_unreadable(self, key: str) -> None:
        if key in self.manifest.unreadable:
            raise Unreadable(plain(self.manifest.unreadable[key]))


def capture_of(recording: Recording) -> Capture:
    """Returns a capture with everything that was recorded."""
    files, folders, targets = _values(recording.files), _values(recording.folders), _values(recording.targets)
    errors = {**_errors(recording.targets), **_errors(recording.folders), **_errors(recording.files)}
    manifest = Manifest(
        folders={key: tuple(sorted(names)) for key, names in folders.items()},
        # A target is omitted if the file shows it: the file exists, and its key has no symbolic link.
        targets={key: target for key, target in targets.items() if target != key or key not in files},
        absent=tuple(sorted(key for key, error in errors.items() if isinstance(error, Absent))),
        unreadable={key: str(error) for key, error in errors.items() if not isinstance(error, Absent)},
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
    """Reads an archive from anybody, or the folder of an unpacked one, within limits. Nothing is written to disk.

    Raises:
        UsageError: The file cannot be read, or is no capture.
    """
    try:
        files, too_long = _read_files(path)
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
    if manifest.format > _FORMAT:
        raise UsageError(f"{path} has format {manifest.format}, but this busbw knows {_FORMAT}", remedy="update busbw")
    return Capture(files, replace(manifest, unreadable=manifest.unreadable | too_long))


def _read_files(path: Path) -> tuple[dict[str, bytes], dict[str, str]]:
    """Returns the files of an archive or a folder, and for each file that is too long a reason, by key."""
    length = 0
    files: dict[str, bytes] = {}
    too_long: dict[str, str] = {}
    entries = _folder_entries(path) if path.is_dir() else _archive_entries(path)
    for count, (name, size, content) in enumerate(entries):
        length += size
        if length > _MAX_ARCHIVE_BYTES or count > _MAX_FILES:
            raise ValueError(_MESSAGE_TOO_LARGE)
        key = name.encode(errors="surrogateescape").decode(errors="replace")
        if content is None or not _is_plausible(key):
            continue
        if size > _MAX_VALUE_BYTES and key != MANIFEST:
            too_long[key] = f"{key_text(key)} is longer than {_MAX_VALUE_BYTES >> 20} MiB"
        else:
            files[key] = content.read()
    return files, too_long


def _folder_entries(folder: Path) -> Iterator[_Entry]:
    for file in folder.rglob("*"):
        if file.is_file() and not file.is_symlink():
            with file.open("rb") as content:
                yield str(file.relative_to(folder)), file.stat().st_size, content


def _archive_entries(path: Path) -> Iterator[_Entry]:
    archived = read_user_file(path, max_bytes=_MAX_ARCHIVE_BYTES)
    if archived.startswith(_GZIP):
        # Headers of an archive can be of any length, so the limit also applies to them.
        archived = gzip.GzipFile(fileobj=io.BytesIO(archived)).read(_MAX_ARCHIVE_BYTES + 1)
        if len(archived) > _MAX_ARCHIVE_BYTES:
            raise ValueError(_MESSAGE_TOO_LARGE)
    with tarfile.open(fileobj=io.BytesIO(archived), mode="r:") as archive:
        for member in archive:
            yield member.name.removeprefix("./"), member.size, archive.extractfile(member) if member.isreg() else None


def _is_plausible(key: str) -> bool:
    """True if a file of the kernel can have this path."""
    return len(key) <= _MAX_KEY_LENGTH and key.count("/") <= _MAX_DEPTH
