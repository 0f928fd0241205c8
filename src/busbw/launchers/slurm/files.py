"""What the files of a batch job's step show by now, in a folder that may lag behind what the nodes wrote."""

import os
from collections.abc import Callable
from pathlib import Path

from busbw.errors import BusbwError
from busbw.launchers.slurm.exit_code import StepOutput
from busbw.launchers.slurm.script import BATCH_LOG, step_file


class StepFiles:
    """The files of one step, read as they grow."""

    def __init__(self, folder: Path, step: int, heard: StepOutput) -> None:
        self.code: int | None = None
        """What srun ended with; all that the step says was read before."""
        self.has_log = False
        """Whether the batch script has begun, as far as the folder shows."""
        self._folder = folder
        self._code = folder / step_file(step, "code")
        self._tails = (
            FileTail(folder / step_file(step, "out"), heard.take),
            FileTail(folder / step_file(step, "err"), heard.take_error),
        )

    def read(self, *, at_end: bool = False) -> None:
        """Hands on what came since the last look."""
        names = self._names()
        self.has_log = BATCH_LOG in names
        code = self._read_code() if self._code.name in names else None
        for tail in self._tails:
            if tail.path.name in names:
                tail.read(at_end=at_end or code is not None)
        self.code = code

    def _names(self) -> set[str]:
        """What lies in the folder.

        Opening it has a network file system ask anew what is in it. A file that is opened before it is there would be
        taken for missing for as long as NFS trusts what it knows of a folder, by default up to a minute.
        """
        try:
            with os.scandir(self._folder) as entries:
                return {entry.name for entry in entries}
        except OSError:
            return set()

    def _read_code(self) -> int | None:
        try:
            return int(self._code.read_text())
        except (OSError, ValueError):
            return None


class FileTail:
    """The lines of a file that grows; it need not be there yet."""

    def __init__(self, path: Path, take: Callable[[bytes], None]) -> None:
        self.path = path
        self._take = take
        self._offset = 0
        self._pending = b""

    def read(self, *, at_end: bool = False) -> None:
        """Hands on the whole lines that came since; at the end also half a line.

        Raises:
            BusbwError: It is shorter than before: another run writes over the one that was read.
        """
        try:
            # Opened anew each time: that is when a network file system looks for what others have written.
            with self.path.open("rb") as stream:
                if os.fstat(stream.fileno()).st_size < self._offset:
                    raise BusbwError(
                        f"{self.path} got shorter: Slurm has started the job anew, and its output would be mixed",
                        remedy="what was read is kept; look at the job with squeue, end it with scancel, measure again",
                    )
                stream.seek(self._offset)
                new = stream.read()
        except FileNotFoundError:
            new = b""
        self._offset += len(new)
        *lines, self._pending = (self._pending + new).split(b"\n")
        for line in lines:
            self._take(line + b"\n")
        if at_end and self._pending:
            rest, self._pending = self._pending, b""
            self._take(rest)
