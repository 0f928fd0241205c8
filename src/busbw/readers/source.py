"""Opens a log file or standard input. Standard input is copied to a temporary file, so that it can be read twice."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from busbw.errors import UsageError

MAX_LINE_BYTES = 1 << 20
"""Bytes. A longer line is read in parts of this length."""

BEGINNING_BYTES = 65536
_MAGICS = (
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"PK\x03\x04", "zip"),
)


class LogSource:
    """An open log."""

    def __init__(self, name: str, file: IO[bytes], path: str = "") -> None:
        self.name = name
        self.path = path
        """Path of the data; that of the temporary copy for standard input."""
        self._file = file
        self.beginning = file.read(BEGINNING_BYTES)

    def lines(self) -> Iterator[bytes]:
        """Yields the lines from the beginning. A line longer than `MAX_LINE_BYTES` is split."""
        self._file.seek(0)
        read = self._file.readline
        while line := read(MAX_LINE_BYTES):
            yield line

    def whole(self, max_bytes: int) -> bytes:
        """Returns the whole content.

        Raises:
            UsageError: The log is longer than `max_bytes`.
        """
        self._file.seek(0)
        data = self._file.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise UsageError(
                f"{self.name} is one document of more than {max_bytes >> 20} MiB",
                remedy="put each run into its own file",
            )
        return data


@contextmanager
def open_source(path: Path) -> Iterator[LogSource]:
    """Opens a log and checks that its beginning is text.

    Raises:
        UsageError: The log cannot be read, is empty, or is not text.
    """
    name = str(path)
    try:
        with _file(path) as file:
            source = LogSource("standard input" if name == "-" else name, file, str(file.name))
            _require_text(source)
            yield source
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}", remedy="pass a readable file") from error


@contextmanager
def _file(path: Path) -> Iterator[IO[bytes]]:
    if str(path) == "-":
        with tempfile.NamedTemporaryFile() as kept:
            shutil.copyfileobj(sys.stdin.buffer, kept)
            kept.flush()
            kept.seek(0)
            yield kept.file
    else:
        with path.open("rb") as file:
            if not file.seekable():  # a named pipe
                with tempfile.NamedTemporaryFile() as kept:
                    shutil.copyfileobj(file, kept)
                    kept.flush()
                    kept.seek(0)
                    yield kept.file
            else:
                yield file


def _require_text(source: LogSource) -> None:
    data = source.beginning
    if not data.strip():
        raise UsageError(f"{source.name} is empty", remedy="check the messages of the run that should write it")
    for magic, kind in _MAGICS:
        if data.startswith(magic):
            raise UsageError(f"{source.name} is compressed ({kind})", remedy="decompress it first")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UsageError(
            f"{source.name} is UTF-16", remedy="convert it to UTF-8, for example with iconv -f UTF-16 -t UTF-8"
        )
    if b"\0" in data:
        raise UsageError(f"{source.name} is not text", remedy="pass a log, not a binary file")
