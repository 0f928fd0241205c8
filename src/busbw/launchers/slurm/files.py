"""Reads the growing files of a batch job's step: stdout, stderr and srun's exit code.

A network file system may show the files with a delay.
"""

import os
from collections.abc import Callable
from pathlib import Path

from busbw.errors import BusbwError
from busbw.launchers.slurm.exit_code import StepOutput
from busbw.launchers.slurm.script import BATCH_LOG, step_file


class StepFiles:
    """The files of one step, read incrementally."""

    def __init__(self, folder: Path, step: int, output: StepOutput) -> None:
        self.code: int | None = None
        """Exit code of srun. None until all output of the step was read."""
        self.has_log = False
        """True if the folder shows the log of the batch script, which Slurm creates just before the script starts."""
        self._folder = folder
        self._code_path = folder / step_file(step, "code")
        self._tails = (
            FileTail(folder / step_file(step, "out"), output.forward_line),
            FileTail(folder / step_file(step, "err"), output.forward_error),
        )

    def read(self, *, at_end: bool = False) -> None:
        """Forwards new output; with `at_end` also an incomplete last line."""
        names = self._list_names()
        self.has_log = BATCH_LOG in names
        # Before the output: the batch script writes the code last, so all output that precedes it is read.
        code = self._read_code() if self._code_path.name in names else None
        for tail in self._tails:
            if tail.path.name in names:
                tail.read(at_end=at_end or code is not None)
        self.code = code

    def _list_names(self) -> set[str]:
        """Names of the files in the folder.

        Listing a folder refreshes the cache of a network file system. An attempt to open a missing file would make NFS
        report it as missing until its cache expires, by default up to a minute.
        """
        try:
            with os.scandir(self._folder) as entries:
                return {entry.name for entry in entries}
        except OSError:
            return set()

    def _read_code(self) -> int | None:
        try:
            return int(self._code_path.read_text())
        except (OSError, ValueError):
            return None


class FileTail:
    """Reads the lines of a growing file, which may not exist yet."""

    def __init__(self, path: Path, on_line: Callable[[bytes], None]) -> None:
        self.path = path
        self._on_line = on_line
        self._offset = 0
        self._incomplete_line = b""

    def read(self, *, at_end: bool = False) -> None:
        """Forwards new complete lines; with `at_end` also an incomplete last line.

        Raises:
            BusbwError: The file is shorter than before, because another run overwrites it.
        """
        try:
            # A network file system looks for writes of other machines only when a file is opened.
            with self.path.open("rb") as stream:
                if os.fstat(stream.fileno()).st_size < self._offset:
                    raise BusbwError(
                        f"{self.path} became shorter: Slurm restarted the job, which overwrites its output",
                        remedy="cancel the job with scancel and measure again; the output so far is kept",
                    )
                stream.seek(self._offset)
                new_bytes = stream.read()
        except FileNotFoundError:
            new_bytes = b""
        self._offset += len(new_bytes)
        *lines, self._incomplete_line = (self._incomplete_line + new_bytes).split(b"\n")
        for line in lines:
            self._on_line(line + b"\n")
        if at_end and self._incomplete_line:
            last_line, self._incomplete_line = self._incomplete_line, b""
            self._on_line(last_line)
