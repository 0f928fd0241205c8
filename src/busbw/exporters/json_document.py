"""One JSON document with all that was read: logs, their tables, rows and figures, refused lines and warnings."""

from collections.abc import Sequence
from typing import BinaryIO

import msgspec

from busbw.logs import Log

SUFFIX = ".json"


def write(logs: Sequence[Log], out: BinaryIO) -> None:
    """An object with `logs`, each as src/busbw/logs.py has it; null is unknown."""
    out.write(msgspec.json.format(msgspec.json.encode({"logs": list(logs)}), indent=1))
    out.write(b"\n")
