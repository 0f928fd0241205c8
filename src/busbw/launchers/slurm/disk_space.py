"""Detects a full disk or an exhausted quota in a folder."""

import os
import tempfile
from errno import EDQUOT, ENOSPC
from pathlib import Path

_PROBE_BYTES = 16384


def is_full(folder: Path) -> bool:
    """True if a small test file cannot be written for lack of space. Only a write detects an exhausted quota."""
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as probe:
            probe.write(bytes(_PROBE_BYTES))
            os.fsync(probe.fileno())
    except OSError as error:
        return error.errno in (ENOSPC, EDQUOT)
    return False
