"""Whether a folder takes anything more: a disk that is full, or a quota that is used up."""

import os
import tempfile
from errno import EDQUOT, ENOSPC
from pathlib import Path

_PROBE_BYTES = 16384


def is_full(folder: Path) -> bool:
    """Tries it with a small file, since nothing but writing knows of a quota."""
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as probe:
            probe.write(bytes(_PROBE_BYTES))
            os.fsync(probe.fileno())
    except OSError as error:
        return error.errno in (ENOSPC, EDQUOT)
    return False
