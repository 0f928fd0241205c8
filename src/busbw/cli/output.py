"""Where a command's file goes: whole or not at all, so that a full disk costs no file that was good."""

import sys
from pathlib import Path

from busbw.errors import BusbwError
from busbw.files import replace_file


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
            replace_file(output.resolve(), content)
    except OSError as error:
        raise BusbwError(f"cannot write {output}: {error.strerror}", remedy="give -o another place") from error
