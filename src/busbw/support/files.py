"""Atomic replacement of files, and guarded reading of files that users name."""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EFBIG, EINVAL
from pathlib import Path
from typing import IO, BinaryIO

from busbw.support.termination_signals import deferred_signals

_MAX_USER_FILE_BYTES = 2**20


def path_text(path: str | os.PathLike[str]) -> str:
    """Returns a path for messages and logs. Bytes that are not UTF-8 are escaped with a backslash."""
    return os.fsencode(path).decode(errors="backslashreplace")


@contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Adds the path to an OSError without one. A failed write, such as on a full disk, does not name its file."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = path_text(path)
        raise


def write_file(path: Path, content: bytes) -> None:
    """Writes a file that no other program reads yet.

    Raises:
        OSError: The file cannot be written; the error names the file.
    """
    with named_errors(path):
        path.write_bytes(content)


def replace_file(path: Path, content: bytes | IO[bytes]) -> None:
    """Creates a file, or replaces it atomically and keeps its mode. A reader sees either the old or the new content.

    Raises:
        OSError: The file cannot be written; the error names the file, and the old file is unchanged.
    """
    partial = path.with_name(f".{path.name[:100]}.{os.getpid()}")  # cut, because file names have a maximum length
    with deferred_signals():
        try:
            with named_errors(path), partial.open("wb") as file:
                write_content(content, file)
            if path.exists():
                partial.chmod(path.stat().st_mode)
            partial.replace(path)
        finally:
            with suppress(OSError):
                partial.unlink()


def write_content(content: bytes | IO[bytes], out: BinaryIO) -> None:
    """Writes bytes, or a whole file from its beginning."""
    if isinstance(content, bytes):
        out.write(content)
    else:
        content.seek(0)
        shutil.copyfileobj(content, out)


def read_user_file(path: Path, *, max_bytes: int = _MAX_USER_FILE_BYTES) -> bytes:
    """Reads a file that a user named. Pipes and endless devices are rejected, so the call cannot hang.

    Raises:
        OSError: The file cannot be read, is not a regular file, or is larger than `max_bytes`.
    """
    # Without O_NONBLOCK, opening a pipe waits for its writer.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(EINVAL, "it is not a regular file", str(path))
        content = stream.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(EFBIG, f"it is larger than {max_bytes >> 20} MiB", str(path))
    return content
