"""One JSON document with the full content: logs with tables, rows, figures, refused lines and warnings."""

from collections.abc import Sequence
from typing import BinaryIO

import msgspec

from busbw.logs import Log

SUFFIX = ".json"


def write(logs: Sequence[Log], out: BinaryIO) -> None:
    """Writes an object with the list `logs`, each in the structure of src/busbw/logs.py. Null means unknown."""
    out.write(msgspec.json.format(msgspec.json.encode({"logs": list(logs)}), indent=1))
    out.write(b"\n")
