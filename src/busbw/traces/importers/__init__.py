"""Importers of recordings of other programs. Each makes a `Trace`; `IMPORTERS` is the list that readers try."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from busbw.traces.importers import chakra, flight_recorder, inspector, kineto, nccl_log
from busbw.traces.model import Trace


class Recognizer(Protocol):
    """Decides from the beginning of a file, decompressed, and from its path."""

    def __call__(self, beginning: bytes, path: Path) -> bool:
        """Returns True if the importer can read the file. It must not accept files of other importers."""


class ImportFunction(Protocol):
    """Reads files of one format, one or more per rank."""

    def __call__(self, paths: Sequence[Path]) -> Trace:
        """Returns the trace of all files together.

        Raises:
            UsageError: No file has an operation, or a file cannot be read.
        """


@dataclass(frozen=True, kw_only=True)
class Importer:
    """An importer of one format."""

    name: str
    """Name for messages, such as "PyTorch profiler"."""
    recognizes: Recognizer
    read: ImportFunction


IMPORTERS: tuple[Importer, ...] = (
    Importer(name="NCCL Inspector", recognizes=inspector.recognizes, read=inspector.read),
    Importer(name="PyTorch flight recorder", recognizes=flight_recorder.recognizes, read=flight_recorder.read),
    Importer(name="PyTorch profiler", recognizes=kineto.recognizes, read=kineto.read),
    Importer(name="Chakra", recognizes=chakra.recognizes, read=chakra.read),
    Importer(name="NCCL log", recognizes=nccl_log.recognizes, read=nccl_log.read),
)
"""All importers, more specific ones first."""
