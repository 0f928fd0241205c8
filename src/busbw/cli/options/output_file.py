"""Writes output files of commands completely or not at all, so that a full disk does not damage an existing file."""

import os
import sys
from collections.abc import Iterable
from errno import EACCES, EISDIR, ENOENT, ENOTDIR
from pathlib import Path
from typing import IO

from busbw.errors import BusbwError, UsageError
from busbw.store import find
from busbw.support.files import replace_file, write_content


def require_writable(output: Path, *, flag: str = "-o") -> None:
    """Checks before a long measurement that the output file can be written.

    Raises:
        BusbwError: The path is a folder, its folder does not exist, or its folder is not writable.
    """
    folder = output.resolve().parent
    written_path = output if _is_written_in_place(output) else folder
    if output.is_dir():
        reason = EISDIR
    elif not folder.exists():
        reason = ENOENT
    elif not folder.is_dir():
        reason = ENOTDIR
    elif not os.access(written_path, os.W_OK):
        reason = EACCES
    else:
        return
    raise _cannot_write(output, os.strerror(reason), flag)


def reject_input(output: Path, names: Iterable[str]) -> None:
    """Refuses an output file that would replace an input.

    Args:
        output: The file.
        names: Names of logs and runs, as in `find`.

    Raises:
        UsageError: The output is one of the logs, or a name does not exist.
    """
    if not output.is_file():
        return
    inputs = map(find, names)
    if any(path.exists() and output.samefile(path) for path in inputs):
        raise UsageError(f"{output} is an input", remedy="set another path with -o")


def write_whole(output: Path | None, content: bytes | IO[bytes], *, flag: str = "-o") -> None:
    """Replaces a file atomically, or writes to standard output if `output` is None.

    Args:
        output: The file.
        content: The complete content, or a file with it.
        flag: Option that names the file, for the error message.

    Raises:
        BusbwError: The file cannot be written; an existing file is unchanged.
    """
    if output is None:
        sys.stdout.flush()
        write_content(content, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    try:
        if _is_written_in_place(output):
            with output.open("wb") as file:
                write_content(content, file)
        else:
            replace_file(output.resolve(), content)
    except OSError as error:
        raise _cannot_write(output, error.strerror, flag) from error


def _is_written_in_place(output: Path) -> bool:
    """True for a device or a pipe. A file is replaced, which writes to its folder."""
    return output.exists() and not output.is_file()


def _cannot_write(output: Path, reason: str | None, flag: str) -> BusbwError:
    return BusbwError(f"cannot write {output}: {reason}", remedy=f"set another path with {flag}")
