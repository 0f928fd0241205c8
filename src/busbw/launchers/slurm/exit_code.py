"""How a run in Slurm ended: the program's exit code, told from what srun makes of it."""

import signal
from contextlib import suppress

import msgspec

from busbw.errors import SIGNALLED, BusbwError, ExitCode
from busbw.launchers.job.job import LaunchCallbacks
from busbw.launchers.slurm.error_text import NO_BINDING, NOT_STARTED, error_line, remedy_for

_KEPT_LINES = 50
_NOT_RUN = {126, 127}
"""What a shell ends with that finds no program, or none that may be run."""


class _EndRecord(msgspec.Struct, tag_field="kind", tag="end"):
    """The record's last line; the program on the nodes may be of another version."""

    exit_code: int


class StepOutput:
    """Hands lines on, and keeps what tells how the run ended."""

    def __init__(self, watch: LaunchCallbacks) -> None:
        self._watch = watch
        self.lines = 0
        self.recorded_exit_code: int | None = None
        """What the record's last line says; process 0 knows best."""
        self.complaints: list[str] = []
        """Lines of stderr that say that the program was not started."""

    def take(self, line: bytes) -> None:
        """Takes a line of process 0's stdout."""
        if not self.lines:
            self._watch.on_status("")
        self.lines += 1
        if line.startswith(b"{") and b'"end"' in line:
            with suppress(msgspec.MsgspecError):
                self.recorded_exit_code = msgspec.json.decode(line, type=_EndRecord).exit_code
        self._watch.on_line(line)

    def take_error(self, line: bytes) -> None:
        """Takes a line of stderr; nobody knows which process said it."""
        if NO_BINDING in line:
            return  # we asked for none
        if NOT_STARTED.search(line) and len(self.complaints) < _KEPT_LINES:
            self.complaints.append(line.decode(errors="replace").rstrip())
        if self._watch.on_error:
            self._watch.on_error(line, None)

    def say(self, sentence: str, *, by: str = "busbw: ") -> None:
        """Says something in the same place."""
        if self._watch.on_error:
            self._watch.on_error(f"{by}{sentence}\n".encode(), None)


def resolve_exit_code(code: int, heard: StepOutput) -> int:
    """The program's exit code.

    srun ends with the greatest of all tasks' codes, 128 + the signal's number for one that a signal ended, and with 1
    or 2 where it fails itself; so process 0's own word goes first.

    Args:
        code: srun's.
        heard: What came of the run.

    Raises:
        BusbwError: The program was not started.
    """
    if heard.recorded_exit_code:
        return heard.recorded_exit_code
    if heard.complaints and not heard.lines:
        said = "\n".join(heard.complaints)
        raise BusbwError(f"Slurm did not start the program: {error_line(said)}", remedy=remedy_for(said))
    if code in _NOT_RUN and not heard.lines:
        raise BusbwError("the program is not there on the nodes", remedy="name its path or its folder: --program-path")
    if code == ExitCode.WRONG_DATA and heard.recorded_exit_code is None:
        raise BusbwError("srun failed (exit code 1)", remedy="see what it says above")
    if code in {*ExitCode, SIGNALLED + signal.SIGTERM}:
        return code
    heard.say(f"{_name(code)}: a process of the job was lost")
    return ExitCode.RANK_LOST


def _name(code: int) -> str:
    with suppress(ValueError):
        return f"ended by {signal.Signals(code - SIGNALLED).name}"
    return f"exit code {code}"
