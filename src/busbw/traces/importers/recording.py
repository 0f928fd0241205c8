"""Opens files of foreign recordings."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from busbw.errors import UsageError
from busbw.files import path_text

_GZIP = b"\x1f\x8b"
_MAX_LINE_BYTES = 1 << 20


@contextmanager
def open_recording(path: Path) -> Iterator[IO[bytes]]:
    """Opens a file. Compression with gzip is removed.

    Raises:
        UsageError: The file cannot be read, or its compression is damaged at the beginning.
    """
    try:
        with path.open("rb") as file:
            is_compressed = file.peek(2)[:2] == _GZIP
            yield cast(IO[bytes], gzip.GzipFile(fileobj=file)) if is_compressed else file
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UsageError(f"{path_text(path)} is not a valid gzip file", remedy="copy the file again") from error
    except OSError as error:
        raise UsageError(f"cannot read {path_text(path)}: {error.strerror}", remedy="pass a readable file") from error


def read_block(file: IO[bytes], size: int) -> bytes:
    """Reads up to `size` bytes. A compressed file that was cut off ends at the cut."""
    try:
        return file.read(size)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        return b""


def read_lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yields the lines. A line longer than 1 MiB comes in parts. A cut compressed file ends at the cut."""
    try:
        while line := file.readline(_MAX_LINE_BYTES):
            yield line
    except (EOFError, zlib.error, gzip.BadGzipFile):
        return
