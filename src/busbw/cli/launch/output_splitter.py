"""Splits the stdout of process 0 into record lines, results and lines of the table.

A record line is a JSON object with a kind. A result is a JSON object without a kind, which `busbw find` and
`busbw doctor` print. Any other line belongs to the table.
"""

import fcntl
import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from busbw.cli.options.run_destination import is_empty_record
from busbw.cli.outcome.summary import record_kind
from busbw.errors import BusbwError, UsageError


class RecordFile:
    """A new record file, which is removed at the end if it is empty.

    A launch that was killed during its start leaves an empty file. The next launch uses this file, as the engine does.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = -1

    def __enter__(self) -> "RecordFile":
        try:
            self._descriptor = self._open()
        except FileExistsError as error:
            raise UsageError(f"--records {self.path} exists already", remedy="name a new file") from error
        except OSError as error:
            raise UsageError(
                f"cannot write --records {self.path}: {error.strerror}", remedy="name a file in a writable folder"
            ) from error
        return self

    def _open(self) -> int:
        """Opens the file, and locks it while it is open.

        Raises:
            FileExistsError: The file has content, or another run has it open.
            OSError: The file cannot be created.
        """
        flags = os.O_WRONLY | os.O_NOFOLLOW
        # An empty file is used again. With O_EXCL, any other existing file is an error.
        is_created = not is_empty_record(self.path)
        if is_created:
            flags |= os.O_CREAT | os.O_EXCL
        descriptor = os.open(self.path, flags, 0o666)
        if not _lock(descriptor, is_created=is_created):
            os.close(descriptor)
            raise FileExistsError
        return descriptor

    def __exit__(self, *_: object) -> None:
        is_empty = os.fstat(self._descriptor).st_size == 0
        os.close(self._descriptor)
        if is_empty:
            self.path.unlink(missing_ok=True)

    def write(self, line: bytes) -> None:
        """Writes a line, newline included. If this fails, the file keeps its earlier lines, and no part of this one.

        Raises:
            BusbwError: The line cannot be written, for example because the disk is full.
        """
        earlier_bytes = os.fstat(self._descriptor).st_size
        remaining = memoryview(line)
        try:
            while remaining:
                written_count = os.write(self._descriptor, remaining)
                remaining = remaining[written_count:]
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._descriptor, earlier_bytes)
                os.lseek(self._descriptor, earlier_bytes, os.SEEK_SET)
            raise BusbwError(
                f"cannot write the record {self.path}: {error.strerror}; its earlier lines are kept",
                remedy="free space, or set another --records",
            ) from error


def _lock(descriptor: int, *, is_created: bool) -> bool:
    """Locks an open file until it is closed. False if another run may have the file open."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # the file system has no locks, and only a file that this run created is certainly its own
        return is_created
    return True


class OutputSplitter:
    """Sends each line of process 0 to the record file, to `on_table`, or to `on_result` (default: `on_table`)."""

    def __init__(
        self,
        records: RecordFile,
        on_table: Callable[[bytes], None],
        on_broken_record: Callable[[str], None],
        on_result: Callable[[bytes], None] | None = None,
    ) -> None:
        self._records = records
        self._on_table = on_table
        self._on_result = on_result or on_table
        self._on_broken_record = on_broken_record
        self.was_cut = False
        """True if a record line was incomplete."""
        self.kinds: Counter[str] = Counter()
        """Number of complete record lines of each kind."""

    def add_line(self, line: bytes) -> None:
        """Adds a line with its newline, which the last line may lack.

        Drops incomplete record lines, and calls `on_broken_record` for the first one.
        """
        if not line.startswith(b"{"):
            self._on_table(line)
            return
        kind = record_kind(line)
        if kind is None:
            self._drop_incomplete_record()
        elif kind == "":
            self._on_result(line)
        else:
            self.kinds[kind] += 1
            self._records.write(line if line.endswith(b"\n") else line + b"\n")

    def _drop_incomplete_record(self) -> None:
        if self.was_cut:
            return
        self.was_cut = True
        problem = f"an incomplete record of process 0 is not in {self._records.path}"
        self._on_broken_record(f"busbw: {problem}; measure again if a row is missing")
