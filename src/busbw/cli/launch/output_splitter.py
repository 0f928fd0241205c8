"""What process 0 says on stdout, taken apart: lines of records begin with `{`, lines of the table never do."""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from busbw.cli.outcome import kind_of
from busbw.errors import BusbwError, UsageError


class RecordFile:
    """A new file of records that is whole after every line; it goes again when none came."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = -1

    def __enter__(self) -> "RecordFile":
        try:
            self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError as error:
            raise UsageError(f"--records {self.path} is there already", remedy="name a new file") from error
        except OSError as error:
            raise UsageError(
                f"cannot write --records {self.path}: {error.strerror}", remedy="name a file in a folder of yours"
            ) from error
        return self

    def __exit__(self, *_: object) -> None:
        is_empty = os.fstat(self._descriptor).st_size == 0
        os.close(self._descriptor)
        if is_empty:
            self.path.unlink(missing_ok=True)

    def write(self, line: bytes) -> None:
        """Takes a line, newline included.

        Raises:
            BusbwError: It cannot be written.
        """
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as error:
            raise BusbwError(
                f"cannot write the record {self.path}: {error.strerror}", remedy="make room, or name another --records"
            ) from error


class OutputSplitter:
    """Takes the lines of process 0 apart."""

    def __init__(
        self, records: RecordFile, on_table: Callable[[bytes], None], on_broken_record: Callable[[str], None]
    ) -> None:
        self._records = records
        self._on_table = on_table
        self._on_doubt = on_broken_record
        self.was_cut = False
        """Whether a record came of which a part is missing."""
        self.kinds: Counter[str] = Counter()
        """How many records of each kind came."""

    def take(self, line: bytes) -> None:
        """Takes a line, newline included; the last one may be without.

        What is left of a record that was cut off is not kept, and `on_doubt` hears of the first such line.
        """
        if not line.startswith(b"{"):
            self._on_table(line)
        elif (kind := kind_of(line)) is not None:
            self.kinds[kind] += 1
            self._records.write(line if line.endswith(b"\n") else line + b"\n")
        elif not self.was_cut:
            self.was_cut = True
            self._on_doubt(
                f"busbw: a record of process 0 was cut off and is not in {self._records.path}; "
                "what came whole is, so measure again if a row is missing"
            )
