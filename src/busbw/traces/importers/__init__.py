"""Importers of recordings of other programs. Each makes a `Trace`; `IMPORTERS` is the list that readers try."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

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


IMPORTERS: tuple[Importer, ...] = ()
"""All importers, more specific ones first."""
