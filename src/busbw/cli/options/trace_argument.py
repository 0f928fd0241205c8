"""Finds the trace that an argument of a command names."""

from pathlib import Path

from busbw import readers, store
from busbw.errors import UsageError
from busbw.readers.lines.source import open_source
from busbw.traces.model import Trace
from busbw.traces.models import list_models, load_model
from busbw.traces.read import is_trace, read_trace

_TRACE_BEGINNINGS = (b"{", b"[", b"\x80", b"busbwtrc")
"""Beginnings of traces in JSON, of pickles, and of busbw's own format. A table reader may need much memory for these
traces, so `_has_table` does not search them."""


def find_trace(text: str, ranks: int | None = None) -> Trace | None:
    """Returns the trace in a folder or file, or of a shipped model. None for a run, and for a log with a table.

    Args:
        text: Path, beginning of the name of a run, or name of a model. A file has priority over a model.
        ranks: Ranks of a model. None: those of its description.

    Raises:
        UsageError: There is no such file, run or model, or the trace cannot be read.
    """
    if text in {model.name for model in list_models()} and not Path(text).exists():
        return load_model(text, ranks)
    path = store.find(text)
    if not is_trace(path):
        return None
    # A log with NCCL's debug output can be imported as a trace. But if the log has a table too, it is a benchmark's.
    files = [file for file in path.iterdir() if file.is_file()] if path.is_dir() else [path]
    if any(map(_has_table, files)):
        return None
    return read_trace(path)


def _has_table(path: Path) -> bool:
    """True if a reader finds a table with rows. False for a file that no reader can read."""
    try:
        with open_source(path) as source:
            if source.beginning.lstrip().startswith(_TRACE_BEGINNINGS):
                return False
        return any(isinstance(event, readers.TableChunk) and event.table.rows for event in readers.stream(path))
    except UsageError:
        return False
