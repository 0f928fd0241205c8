"""Files that are whole at every moment."""

import os
from contextlib import suppress
from pathlib import Path


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
