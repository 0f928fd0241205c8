"""Files that are whole at every moment, and those that people write."""

import os
import stat
from contextlib import suppress
from errno import EFBIG, EINVAL
from pathlib import Path

_MAX_BYTES = 2**20


def replace_file(path: Path, content: bytes) -> None:
    """Writes a file in place of what was there, with its mode; a reader finds the old one or the new one.

    Raises:
        OSError: It cannot be written; what was there is as it was.
    """
    partial = path.with_name(f".{path.name[:100]}.{os.getpid()}")
    try:
        partial.write_bytes(content)
        if path.exists():
            partial.chmod(path.stat().st_mode)
        partial.replace(path)
    finally:
        with suppress(OSError):
            partial.unlink()


def read_user_file(path: Path) -> bytes:
    """The content of a file that a person wrote; never waits for a pipe, and never reads without end.

    Raises:
        OSError: It cannot be read, is no regular file, or is larger than anybody writes.
    """
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(EINVAL, "it is no regular file", str(path))
        content = stream.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise OSError(EFBIG, "it is larger than 1 MiB", str(path))
    return content
