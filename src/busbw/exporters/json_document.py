"""One JSON document with the full content: logs with tables, rows, figures, refused lines and warnings."""

from collections.abc import Sequence
from typing import BinaryIO

import msgspec

from busbw.json_output import json_object
from busbw.judge import JudgedConfiguration
from busbw.logs import Log

SUFFIX = ".json"
HAS_VERDICTS = False


def write(logs: Sequence[Log], out: BinaryIO, verdicts: Sequence[JudgedConfiguration] = ()) -> None:
    """Writes an object with the list `logs`, each in the structure of src/busbw/logs.py. Null means unknown."""
    out.write(msgspec.json.format(json_object({"logs": list(logs)}), indent=1))
    out.write(b"\n")
