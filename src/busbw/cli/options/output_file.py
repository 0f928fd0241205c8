"""Where a command's file goes: whole or not at all, so that a full disk costs no file that was good."""

import os
import sys
from errno import EACCES, EISDIR, ENOENT, ENOTDIR
from pathlib import Path

from busbw.errors import BusbwError
from busbw.files import replace_file


def require_writable(output: Path) -> None:
    """Makes sure, before anything is spent on it, that a file can be written there.

    Raises:
        BusbwError: It cannot: it is a folder, or stands in none, or in one where nobody may write.
    """
    folder = output.resolve().parent
    if output.is_dir():
        why = EISDIR
    elif not folder.exists():
        why = ENOENT
    elif not folder.is_dir():
        why = ENOTDIR
    elif not os.access(folder if not output.exists() or output.is_file() else output, os.W_OK):
        why = EACCES
    else:
        return
    raise _cannot_write(output, os.strerror(why))


def write_whole(output: Path | None, content: bytes, *, flag: str = "-o") -> None:
    """Writes to a file in place of what was there, or to standard output where `output` is None.

    Args:
        output: The file.
        content: All of it.
        flag: What the user named the file with.

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
            replace_file(output.resolve(), content)
    except OSError as error:
        raise _cannot_write(output, error.strerror, flag) from error


def _cannot_write(output: Path, why: str | None, flag: str = "-o") -> BusbwError:
    return BusbwError(f"cannot write {output}: {why}", remedy=f"give {flag} another place")
