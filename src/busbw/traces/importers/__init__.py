"""Importers of recordings of other programs. Each makes a `Trace`; `IMPORTERS` is the list that readers try."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from busbw.traces.importers import chakra, flight_recorder, inspector, kineto, nccl_log
from busbw.traces.model import Trace


@dataclass(frozen=True, kw_only=True)
class Importer:
    """An importer of one format."""

    name: str
    """Name for messages, such as "PyTorch profiler"."""
    recognizes: Callable[[bytes, Path], bool]
    """True for a file with this beginning, decompressed, and this path.

    The first importer that recognizes a file reads it.
    """
    read: Callable[[Sequence[Path]], Trace]
    """Returns the trace of all files together. It raises UsageError if none has an operation or can be read.

    The decorator `importer_of` makes it from a function that fills a `TraceBuilder`.
    """


IMPORTERS: tuple[Importer, ...] = (
    Importer(name="NCCL Inspector", recognizes=inspector.recognizes, read=inspector.read),
    Importer(name="PyTorch flight recorder", recognizes=flight_recorder.recognizes, read=flight_recorder.read),
    Importer(name="PyTorch profiler", recognizes=kineto.recognizes, read=kineto.read),
    Importer(name="Chakra", recognizes=chakra.recognizes, read=chakra.read),
    Importer(name="NCCL log", recognizes=nccl_log.recognizes, read=nccl_log.read),
)
"""All importers, more specific ones first."""
