"""Opens what is to be read: a file, or standard input, which a temporary file keeps so that it can be read twice."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from busbw.errors import UsageError

LONGEST_LINE = 1 << 20
"""A longer line is read in pieces."""

BEGINNING_BYTES = 65536
_MAGICS = (
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"PK\x03\x04", "zip"),
)


class LogSource:
    """A log that is open."""

    def __init__(self, name: str, file: IO[bytes], path: str = "") -> None:
        self.name = name
        self.path = path
        """Where its bytes are: of standard input a copy."""
        self._file = file
        self.beginning = file.read(BEGINNING_BYTES)

    def lines(self) -> Iterator[bytes]:
        """From the first on; a line that is longer than any table's comes in pieces."""
        self._file.seek(0)
        read = self._file.readline
        while line := read(LONGEST_LINE):
            yield line

    def whole(self, max_bytes: int) -> bytes:
        """All of it at once.

        Raises:
            UsageError: It is longer than that.
        """
        self._file.seek(0)
        data = self._file.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise UsageError(
                f"{self.name} is one document of more than {max_bytes >> 20} MiB",
                remedy="give each run in a file of its own",
            )
        return data


@contextmanager
def open_source(path: Path) -> Iterator[LogSource]:
    """A source whose beginning is text.

    Raises:
        UsageError: It cannot be read, is empty, or is no text.
    """
    name = str(path)
    try:
        with _file(path) as file:
            source = LogSource("standard input" if name == "-" else name, file, str(file.name))
            _demand_text(source)
            yield source
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}", remedy="give a file that can be read") from error


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
            if not file.seekable():  # a pipe with a name
                with tempfile.NamedTemporaryFile() as kept:
                    shutil.copyfileobj(file, kept)
                    kept.flush()
                    kept.seek(0)
                    yield kept.file
            else:
                yield file


def _demand_text(source: LogSource) -> None:
    data = source.beginning
    if not data.strip():
        raise UsageError(f"{source.name} is empty", remedy="look at what the run that should have made it said")
    for magic, kind in _MAGICS:
        if data.startswith(magic):
            raise UsageError(f"{source.name} is compressed ({kind})", remedy="unpack it first")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UsageError(
            f"{source.name} is UTF-16", remedy="convert it to UTF-8 first, as with iconv -f UTF-16 -t UTF-8"
        )
    if b"\0" in data:
        raise UsageError(f"{source.name} is no text", remedy="give a log, not a binary file")
