"""Finds the trace that an argument of a command names."""

from pathlib import Path

from busbw import readers
from busbw.errors import UsageError
from busbw.store import find
from busbw.traces.model import Trace
from busbw.traces.models import list_models, load_model
from busbw.traces.read import is_trace, read_trace


def find_trace(text: str, ranks: int | None = None) -> Trace | None:
    """Returns the trace in a folder or file, or of a shipped model. None for a run and for any log with a table.

    Args:
        text: Path, beginning of the name of a run, or name of a model. A file with the name of a model counts.
        ranks: Ranks of a model. None: those of its description.

    Raises:
        UsageError: There is no such file, run or model, or the trace cannot be read.
    """
    if text in {model.name for model in list_models()} and not Path(text).exists():
        return load_model(text, ranks)
    path = find(text)
    return read_trace(path) if is_trace(path) and (path.is_dir() or not _has_table(path)) else None


def _has_table(path: Path) -> bool:
    """True if a reader finds a table. NCCL's log of a benchmark has tables and operations."""
    try:
        return any(isinstance(event, readers.TableChunk) and event.table.rows for event in readers.stream(path))
    except UsageError:
        return False
