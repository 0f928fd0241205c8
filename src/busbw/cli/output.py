"""Where a command's file goes: whole or not at all, so that a full disk costs no file that was good."""

import os
import sys
from contextlib import suppress
from pathlib import Path

from busbw.errors import BusbwError


def write_whole(output: Path | None, content: bytes) -> None:
    """Writes to a file in place of what was there, or to standard output where `output` is None.

    Raises:
        BusbwError: It cannot be written; the file that was there is as it was.
    """
    if output is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    try:
        if output.exists() and not output.is_file():  # a device or a pipe
            output.write_bytes(content)
        else:
            _replace(output.resolve(), content)
    except OSError as error:
        raise BusbwError(f"cannot write {output}: {error.strerror}", remedy="give -o another place") from error


def _replace(output: Path, content: bytes) -> None:
    partial = output.with_name(f".busbw-{os.getpid()}.part")
    try:
        partial.write_bytes(content)
        if output.exists():
            partial.chmod(output.stat().st_mode)
        partial.replace(output)
    finally:
        with suppress(OSError):
            partial.unlink()
