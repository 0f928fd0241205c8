"""Finds the trace that an argument of a command names."""

from pathlib import Path

from busbw import readers
from busbw.errors import UsageError
from busbw.store import find
from busbw.traces.model import Trace
from busbw.traces.read import is_trace, read_trace


def find_trace(text: str) -> Trace | None:
    """Returns the trace in a folder or file. None for a run and for any log with a table.

    Raises:
        UsageError: There is no such file or run, or the trace cannot be read.
    """
    path = find(text)
    return read_trace(path) if is_trace(path) and (path.is_dir() or not _has_table(path)) else None


def _has_table(path: Path) -> bool:
    """True if a reader finds a table. NCCL's log of a benchmark has tables and operations."""
    try:
        return any(isinstance(event, readers.TableChunk) and event.table.rows for event in readers.stream(path))
    except UsageError:
        return False
