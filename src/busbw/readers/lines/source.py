"""Opens a log file or standard input.

Standard input and pipes are copied to a temporary file, to read them twice. UTF-16 is copied as UTF-8.
"""

import codecs
import io
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import IO

from busbw.errors import UsageError
from busbw.logs.sequences import temporary_file_errors
from busbw.support.files import path_text

MAX_LINE_BYTES = 8 << 20
"""Only the beginning of a longer line is read, of this length."""

BEGINNING_BYTES = 65536
"""Length of the beginning from which `recognizes` of a reader decides."""
_BLOCK_BYTES = 1 << 16
"""Length of a block without the rest of its last line."""
_COPY_BYTES = 1 << 20
_COMPRESSED_BEGINNINGS = (
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
        """Name for messages."""
        self.path = path
        """Path of the data; that of the temporary copy for standard input or a pipe."""
        self._file = file
        self.beginning = file.read(BEGINNING_BYTES)

    def lines(self) -> Iterator[bytes]:
        """Yields the lines of `blocks`."""
        return chain.from_iterable(map(io.BytesIO, self.blocks()))

    def blocks(self) -> Iterator[bytes]:
        """Yields whole lines together, from the beginning. The rest of a line after `MAX_LINE_BYTES` is left out.

        Carriage returns divide a line. If the first one is within this length, the next block continues the line. If it
        is in the rest, the next block begins with the text after it.
        """
        file = self.rewind()
        while block := file.read(min(_BLOCK_BYTES, MAX_LINE_BYTES)):
            last_start = block.rfind(b"\n") + 1
            if last_start < len(block):
                block += file.readline(MAX_LINE_BYTES - (len(block) - last_start))
            yield block
            if not block.endswith(b"\n") and b"\r" not in block[last_start:]:
                _skip_rest_of_line(file)

    def rewind(self) -> IO[bytes]:
        """Returns the file at its beginning."""
        self._file.seek(0)
        return self._file


def _skip_rest_of_line(file: IO[bytes]) -> None:
    """Skips the rest of a line. If text of the line follows a carriage return in it, skips only up to this text."""
    is_divided = False
    part = b""
    while not part.endswith(b"\n"):
        part = file.readline(MAX_LINE_BYTES) or b"\n"
        text = (part if is_divided else part.partition(b"\r")[2]).lstrip(b"\r\n")
        if text:
            file.seek(-len(text), io.SEEK_CUR)
            return
        is_divided |= b"\r" in part


@contextmanager
def open_source(path: Path) -> Iterator[LogSource]:
    """Opens a log and checks that its beginning is text.

    Raises:
        UsageError: The log cannot be read, is empty, or is not text.
    """
    name = path_text(path)
    try:
        with _open_seekable(path) as file:
            source = LogSource("standard input" if name == "-" else name, file, str(file.name))
            _require_text(source)
            yield source
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}", remedy="pass a readable file") from error


@contextmanager
def _open_seekable(path: Path) -> Iterator[IO[bytes]]:
    with ExitStack() as stack:
        if str(path) == "-":
            file = stack.enter_context(_temporary_copy(_buffers(sys.stdin.buffer)))
        else:
            file = stack.enter_context(path.open("rb"))
            if not file.seekable():  # a named pipe
                file = stack.enter_context(_temporary_copy(_buffers(file)))
        beginning = file.read(len(codecs.BOM_UTF16_LE))
        file.seek(0)
        if beginning in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            file = stack.enter_context(_temporary_copy(_utf8_buffers(file)))
        yield file


def _buffers(stream: IO[bytes]) -> Iterator[bytes]:
    return iter(lambda: stream.read(_COPY_BYTES), b"")


def _utf8_buffers(stream: IO[bytes]) -> Iterator[bytes]:
    """Yields UTF-16 text with a byte order mark as UTF-8. Windows PowerShell writes output in this form."""
    decoder = codecs.getincrementaldecoder("utf-16")(errors="replace")
    for buffer in _buffers(stream):
        yield decoder.decode(buffer).encode()
    yield decoder.decode(b"", final=True).encode()


@contextmanager
def _temporary_copy(buffers: Iterable[bytes]) -> Iterator[IO[bytes]]:
    with temporary_file_errors():
        copy = tempfile.NamedTemporaryFile()  # noqa: SIM115
    try:
        for buffer in buffers:
            with temporary_file_errors():
                copy.write(buffer)
        with temporary_file_errors():
            copy.seek(0)  # writes the last buffer
        yield copy.file
    finally:
        with suppress(OSError):  # a full disk, which an error has reported
            copy.close()


def _require_text(source: LogSource) -> None:
    beginning = source.beginning
    if not beginning.strip():
        raise UsageError(f"{source.name} is empty", remedy="check the messages of the run that should write it")
    for signature, format_name in _COMPRESSED_BEGINNINGS:
        if beginning.startswith(signature):
            raise UsageError(f"{source.name} is compressed ({format_name})", remedy="decompress it first")
    if b"\0" in beginning:
        raise UsageError(f"{source.name} is not text", remedy="pass a log, not a binary file")
