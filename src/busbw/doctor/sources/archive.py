"""Reads the files of an archive or a folder from anybody, within limits. Nothing is written to disk."""

import gzip
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from busbw.files import read_user_file

MAX_ARCHIVE_BYTES = 256 << 20
"""Maximum length of all files. A node with 16 NICs has less than 2 MiB."""
MAX_VALUE_BYTES = 4 << 20
"""Maximum length of a file that is a value."""
_MAX_FILES = 20_000
_MAX_NAME_LENGTH, _MAX_DEPTH = 1024, 50
_GZIP = b"\x1f\x8b"
_MESSAGE_TOO_LARGE = "it is too large for a capture"

Member = tuple[str, int, IO[bytes]]
"""Name, length and content of a file. The content can be read until the next member."""
_Entry = tuple[str, int, IO[bytes] | None]
"""As `Member`. The content is None for an entry that is no regular file."""


def members(path: Path, index: str) -> Iterator[Member]:
    """Yields the files of an archive or a folder.

    Args:
        path: Archive, also a compressed one, or folder.
        index: File that a folder must contain.

    Raises:
        ValueError: The archive or folder is too large, or the file is no archive.
        OSError: The archive or folder cannot be read.
    """
    length = 0
    entries = _folder_entries(path, index) if path.is_dir() else _archive_entries(path)
    for count, (raw_name, size, content) in enumerate(entries):
        length += size
        if length > MAX_ARCHIVE_BYTES or count > _MAX_FILES:
            raise ValueError(_MESSAGE_TOO_LARGE)
        name = raw_name.encode(errors="surrogateescape").decode(errors="replace")
        if content is not None and is_plausible(name):
            yield name, size, content


def is_plausible(name: str) -> bool:
    """True if a file of the kernel can have this path."""
    return len(name) <= _MAX_NAME_LENGTH and name.count("/") <= _MAX_DEPTH


def _folder_entries(path: Path, index: str) -> Iterator[_Entry]:
    if not (path / index).is_file():
        raise ValueError(f"the folder has no {index}")
    for file in path.rglob("*"):
        if file.is_file() and not file.is_symlink():
            with file.open("rb") as content:
                yield str(file.relative_to(path)), file.stat().st_size, content


def _archive_entries(path: Path) -> Iterator[_Entry]:
    content = read_user_file(path, max_bytes=MAX_ARCHIVE_BYTES)
    if content.startswith(_GZIP):
        # Headers of an archive can be of any length, so the limit also applies to them.
        content = gzip.GzipFile(fileobj=io.BytesIO(content)).read(MAX_ARCHIVE_BYTES + 1)
        if len(content) > MAX_ARCHIVE_BYTES:
            raise ValueError(_MESSAGE_TOO_LARGE)
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isreg() else None
            yield member.name.removeprefix("./"), member.size, file
