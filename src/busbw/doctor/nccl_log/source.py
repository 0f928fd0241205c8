"""Yields the lines of a log until a time limit, from a file, a pipe or standard input."""

import os
import select
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from busbw.errors import UsageError
from busbw.files import path_text

_BLOCK_BYTES = 1 << 20
_GZIP = b"\x1f\x8b"
"""First bytes of a file that gzip compressed."""
_MAX_LINE_BYTES = 1 << 16
"""A longer line is read in parts. NCCL's messages are shorter."""


class UnfinishedError(Exception):
    """The rest of a log cannot be read. The argument is the reason."""


def read_lines(path: Path, end: float) -> Iterator[bytes]:
    """Yields the lines of a log without their line feeds. A path "-" is standard input.

    Args:
        path: File or pipe.
        end: Time of `time.monotonic` at which the reading stops.

    Raises:
        UsageError: The log cannot be opened, or is compressed.
        UnfinishedError: The time is over.
    """
    rest = b""
    for index, block in enumerate(_blocks(path, end)):
        if index == 0 and block.startswith(_GZIP):
            raise UsageError(f"--log: {path_text(path)} is compressed (gzip)", remedy="decompress it first")
        *lines, rest = (rest + block).split(b"\n")
        yield from lines
        if len(rest) > _MAX_LINE_BYTES:
            yield rest
            rest = b""
    yield rest


def _blocks(path: Path, end: float) -> Iterator[bytes]:
    """Yields blocks of bytes. Waits for a pipe until the time is over."""
    try:
        descriptor = os.dup(sys.stdin.fileno()) if str(path) == "-" else os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            while True:
                if not select.select([descriptor], [], [], max(0.0, end - time.monotonic()))[0]:
                    raise UnfinishedError("it did not arrive in time")
                block = os.read(descriptor, _BLOCK_BYTES)
                if not block:
                    return
                yield block
                if time.monotonic() > end:
                    raise UnfinishedError("the time limit is over")
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"--log: cannot read {path_text(path)}: {reason}", remedy="pass a readable log") from error
