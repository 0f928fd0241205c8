"""Reads this program's own records (docs/records.md)."""

from pathlib import Path

from busbw import records
from busbw.readers.log import Log


def recognises(beginning: str) -> bool:
    """Records begin with the line of a run."""
    return beginning.startswith("{") and '"kind":"run"' in beginning.partition("\n")[0].replace(" ", "")


def read(path: Path) -> Log:
    """All rows; a last line that was cut off is named."""
    run = records.read(path)
    cut = ["the last line is cut off"] if run.truncated else []
    return Log(rows=run.rows, complete=run.end is not None, left_out=cut)
