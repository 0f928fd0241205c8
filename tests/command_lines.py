"""Command lines of this machine's processes, read from /proc while processes start and end."""

from contextlib import suppress
from pathlib import Path


def command_lines() -> list[bytes]:
    """The command line of each process, its words divided by zeros."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            lines.append(path.read_bytes())
    return lines
