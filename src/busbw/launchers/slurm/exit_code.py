"""Determines the program's exit code of a run in Slurm, which srun may replace by its own."""

import signal
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from busbw.errors import SIGNALLED, UNDECIDED, BusbwError, ExitCode
from busbw.launchers.job.job import LaunchCallbacks
from busbw.launchers.slurm.error_text import NO_BINDING, NODE_NOT_STARTED, NOT_STARTED, last_errors, remedy_for

_MAX_ERRORS = 50
"""Maximum number of error lines that are kept for the error message."""
_NOT_RUN_CODES = {126, 127}
"""Exit codes of a shell if its program is missing or not executable."""


class NodesNotStartedError(BusbwError):
    """Slurm could not start the program on some nodes, and ended it on all."""

    def __init__(self, problem: str, *, remedy: str, reasons: Mapping[str, str]) -> None:
        super().__init__(problem, remedy=remedy)
        self.reasons = reasons
        """Reason by the name of the node."""


class _EndRecord(msgspec.Struct, tag_field="kind", tag="end"):
    """Last line of the record, reduced to one field because the program on the nodes may have another version."""

    exit_code: int


class _SearchEndRecord(_EndRecord, tag="search_end"):
    """Last line of the record of a search."""


class StepOutput:
    """Forwards the output of a step and collects the evidence of how it ended."""

    def __init__(self, callbacks: LaunchCallbacks) -> None:
        self.callbacks = callbacks
        self.line_count = 0
        """Number of lines of stdout so far."""
        self.recorded_exit_code: int | None = None
        """Exit code in the record's last line, from process 0. None before that line."""
        self.start_errors: list[str] = []
        """Lines of stderr that show that the program did not start."""

    def forward_line(self, line: bytes) -> None:
        """Forwards a line of process 0's stdout."""
        if not self.line_count:
            self.callbacks.on_status("")
        self.line_count += 1
        if line.startswith(b"{") and (b'"end"' in line or b'"search_end"' in line):
            with suppress(msgspec.MsgspecError):
                self.recorded_exit_code = msgspec.json.decode(line, type=_EndRecord | _SearchEndRecord).exit_code
        self.callbacks.on_line(line)

    def forward_error(self, line: bytes) -> None:
        """Forwards a line of stderr. Its process is unknown."""
        if NO_BINDING in line:
            return  # busbw's option --cpu-bind=none caused it
        if NOT_STARTED.search(line) and len(self.start_errors) < _MAX_ERRORS:
            self.start_errors.append(line.decode(errors="replace").rstrip())
        self.callbacks.emit_error(line)


def resolve_exit_code(code: int, output: StepOutput) -> int:
    """Returns the program's exit code.

    srun returns the maximum of all tasks' codes. The code of a task that a signal ended is 128 + the signal's number.
    If srun itself fails, it returns 1 or 2. So an exit code other than 0 in the record of process 0 has priority.

    Args:
        code: Exit code of srun.
        output: Output of the step.

    Raises:
        NodesNotStartedError: The program did not start on nodes that Slurm names.
        BusbwError: The program did not start.
    """
    if output.recorded_exit_code:
        return output.recorded_exit_code
    if output.start_errors and not output.line_count:
        text = "\n".join(output.start_errors)
        problem, remedy = f"Slurm did not start the program: {last_errors(text)}", remedy_for(text)
        reasons = {
            node: f"Slurm could not start its tasks: {reason}" for node, reason in NODE_NOT_STARTED.findall(text)
        }
        if reasons:
            raise NodesNotStartedError(problem, remedy=remedy, reasons=reasons)
        raise BusbwError(problem, remedy=remedy)
    if code in _NOT_RUN_CODES and not output.line_count:
        raise BusbwError("program not found on the nodes", remedy="set --program-path")
    # If the program ended with 1 (wrong data), its record has that code. So a 1 without it is srun's.
    if code == ExitCode.WRONG_DATA and output.recorded_exit_code is None:
        raise BusbwError("srun failed (exit code 1)", remedy="see its messages above")
    # After SIGTERM or SIGHUP, the program itself ends with 128 + SIGTERM.
    is_from_program = code in {*ExitCode, UNDECIDED, SIGNALLED + signal.SIGTERM}
    if is_from_program:
        return code
    output.callbacks.print_error(f"{_code_text(code)}: a process of the job was lost")
    return ExitCode.RANK_LOST


def _code_text(code: int) -> str:
    with suppress(ValueError):
        return f"ended by {signal.Signals(code - SIGNALLED).name}"
    return f"exit code {code}"
