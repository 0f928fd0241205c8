"""Reads traces: files of the own format, and recordings that an importer recognizes."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from busbw.errors import BusbwError, UsageError
from busbw.support.files import path_text
from busbw.traces import format as layout
from busbw.traces.building import TraceBuilder
from busbw.traces.importers import IMPORTERS, Importer
from busbw.traces.importers.recording import open_recording, read_block
from busbw.traces.model import Trace
from busbw.traces.read.job import join_processes
from busbw.traces.read.process_file import read_process_file

BEGINNING_BYTES = 65536
"""Length of the beginning from which an importer recognizes a file."""


def read_trace(path: Path) -> Trace:
    """Reads a trace: a directory with one or more files per rank, or one file.

    Raises:
        UsageError: There is no trace at the path, or it has no operations that can be read.
        BusbwError: A file cannot be read, or needs more memory than there is.
    """
    try:
        files = _files(path)
        if own_files := [file for file in files if _is_own_file(file)]:
            builder = TraceBuilder(path_text(path.resolve().name))
            join_processes(builder, [process for file in own_files if (process := read_process_file(builder, file))])
            return replace(builder.build(), files=tuple(path_text(file.name) for file in own_files))
        return _import(path, files)
    except OSError as error:
        problem = f"cannot read {path_text(error.filename or path)}: {error.strerror}"
        raise UsageError(problem, remedy="pass a trace that can be read") from error
    except MemoryError as error:
        problem = f"{path_text(path)} needs more memory than this machine has"
        raise BusbwError(problem, remedy="read it on a machine with more memory") from error


def is_trace(path: Path) -> bool:
    """Returns True if the path has files of the own format or of an importer. Unreadable files are no traces."""
    try:
        return any(_is_own_file(file) or _importer_of(file) for file in _files(path))
    except (OSError, UsageError):
        return False


def _files(path: Path) -> list[Path]:
    """Returns the file, or the regular files of the directory, in the order of their names."""
    if path.is_dir():
        return sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
    path.stat()  # raises `OSError` if there is no file
    return [path]


def _is_own_file(path: Path) -> bool:
    """Returns True for a file of the own format. The suffix suffices, because the header may be damaged."""
    return path.suffix == ".trace" or _beginning(path).startswith(layout.MAGIC)


def _beginning(path: Path) -> bytes:
    """Returns the first bytes of a regular file, decompressed."""
    if not path.is_file():
        return b""
    with open_recording(path) as file:
        return read_block(file, BEGINNING_BYTES)


def _importer_of(path: Path) -> Importer | None:
    beginning = _beginning(path)
    return next((importer for importer in IMPORTERS if importer.recognizes(beginning, path)), None)


def _import(path: Path, files: Sequence[Path]) -> Trace:
    """Returns the trace of all files that an importer recognizes. Other files are ignored."""
    recognized = [(importer, file) for file in files if (importer := _importer_of(file))]
    names = sorted({importer.name for importer, _ in recognized})
    if not names:
        formats = ", ".join(importer.name for importer in IMPORTERS)
        raise UsageError(
            f"{path_text(path)} has no trace; busbw reads its own files (.trace) and recordings of: {formats}",
            remedy="record one with `busbw record`",
        )
    if len(names) > 1:
        problem = f"{path_text(path)} has recordings of several programs: {', '.join(names)}"
        raise UsageError(problem, remedy="pass one of the files, or a directory for each")
    return recognized[0][0].read([file for _, file in recognized])
