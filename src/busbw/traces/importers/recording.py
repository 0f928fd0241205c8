"""Opens files of foreign recordings."""

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from busbw.errors import UsageError
from busbw.support.files import path_text
from busbw.traces.building import TraceBuilder

_GZIP = b"\x1f\x8b"
"""First bytes of a file that gzip compressed."""
_BLOCK_BYTES = 1 << 20

BufferedFile = io.BufferedReader | gzip.GzipFile


@contextmanager
def open_recording(path: Path) -> Iterator[BufferedFile]:
    """Opens a file, and decompresses it if it is compressed with gzip.

    Raises:
        UsageError: The file cannot be read, or its compression is damaged at the beginning.
    """
    try:
        # O_NONBLOCK, because opening a pipe would otherwise wait for its writer.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            is_compressed = file.peek(2)[:2] == _GZIP
            yield gzip.GzipFile(fileobj=file) if is_compressed else file
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UsageError(f"{path_text(path)} is not a valid gzip file", remedy="copy the file again") from error
    except OSError as error:
        raise UsageError(f"cannot read {path_text(path)}: {error.strerror}", remedy="pass a readable file") from error


def read_block(file: BufferedFile, size: int) -> bytes:
    """Reads `size` bytes, or fewer bytes at the end. A compressed file that was cut off ends at the cut."""
    parts = []
    try:
        while size > 0 and (part := file.read1(size)):
            parts.append(part)
            size -= len(part)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        pass
    return b"".join(parts)


def read_lines(file: BufferedFile) -> Iterator[bytes]:
    """Yields the lines without line feeds. A line longer than 1 MiB comes in parts."""
    rest = b""
    while block := read_block(file, _BLOCK_BYTES):
        *lines, rest = (rest + block).split(b"\n")
        yield from lines
        if len(rest) > _BLOCK_BYTES:
            yield rest
            rest = b""
    if rest:
        yield rest


def add_damage(builder: TraceBuilder, path: Path) -> None:
    """Adds the problem that the end of a file is damaged."""
    builder.add_problem(f"the end of {path_text(path.name)} is missing or damaged; operations before it are used")
