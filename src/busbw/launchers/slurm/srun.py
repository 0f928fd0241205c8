"""Runs srun from here: within an allocation as a step of it, elsewhere as a job of its own."""

import re
import signal
from collections.abc import Sequence
from dataclasses import replace
from time import monotonic

from busbw.errors import BusbwError, ExitCode
from busbw.launchers.job import processes
from busbw.launchers.job.job import Command, LaunchCallbacks, PrivateFile
from busbw.launchers.slurm import commands
from busbw.launchers.slurm.error_text import WAITS
from busbw.launchers.slurm.exit_code import StepOutput, resolve_exit_code
from busbw.launchers.slurm.status import waiting_message

_QUEUED = re.compile(rb"job (\d+) queued")
_ASK_EVERY_S = 5.0
_ORDERLY_S = 10.0
"""How long ranks may take to end after an interrupt, before Slurm ends them."""


def run_srun(command: Command, files: Sequence[PrivateFile], name: str, watch: LaunchCallbacks) -> int:
    """Runs it to its end; the program's exit code.

    Args:
        command: srun.
        files: What it needs.
        name: Of the job or step.
        watch: Gets the lines.
    """
    step = _SrunStep(name, watch)
    with processes.written_files(files):
        inner = replace(watch, on_line=step.take, on_wait=step.wait, on_error=step.take_error)
        # srun takes SIGTERM for "end the step at once"; killed, it would leave its step behind.
        rules = processes.TerminationPolicy(
            on_interrupt=step.interrupt,
            end_signal=signal.SIGTERM,
            should_end=lambda: step.must_end,
            first_end_signal=step.last_signal,
            signal_to_send=step.asks_for,
        )
        code = processes.run_all([command], inner, rules)[0].code
    if step.interrupted_code is None:
        return resolve_exit_code(code, step.heard)
    step.end(is_orderly=code == ExitCode.INTERRUPTED)
    return step.interrupted_code


class _SrunStep:
    """What srun's own words tell, and how it is ended: it takes one Ctrl-C for a question."""

    def __init__(self, name: str, watch: LaunchCallbacks) -> None:
        self.heard = StepOutput(watch)
        self.interrupted_code: ExitCode | None = None
        self.must_end = False
        """Whether srun itself is to be told, since Slurm does not take it."""
        self._was_cancelled = False
        self._has_found = False
        """Whether Slurm knew what to end, the last time."""
        self._name = name
        self._watch = watch
        self._queued = ""
        self._ask_at_s = 0.0
        self._kill_at_s: float | None = None
        self._asks_for: int | None = None

    def take(self, line: bytes) -> None:
        """Takes a line of process 0's stdout."""
        try:
            self.heard.take(line)
        except BrokenPipeError:
            self.interrupted_code = ExitCode.OUTPUT_CLOSED
            self._start_ending()
            self._asks_for = signal.SIGUSR1  # ranks run, since one has said something
            raise

    def take_error(self, line: bytes, _process: object) -> None:
        """Takes a line of stderr; those on waiting become a status."""
        if not WAITS.search(line):
            self.heard.take_error(line)
            return
        if queued := _QUEUED.search(line):
            self._queued, self._ask_at_s = queued[1].decode(), 0.0
        elif b"allocated" in line or b"Step created" in line:
            self._queued = ""
        self._watch.on_status(line.decode(errors="replace").strip())

    def wait(self) -> None:
        """At least once a second."""
        now_s = monotonic()
        if self._queued and not self.heard.lines and now_s >= self._ask_at_s:
            self._ask_at_s = now_s + _ASK_EVERY_S
            self._say_reason()
        if self._kill_at_s is not None and now_s > self._kill_at_s:
            self._kill_at_s = None if self._was_cancelled else now_s + _ORDERLY_S
            if why_not := "it did not end" if self._was_cancelled else self._cancel():
                self._end_srun(why_not)
            self._was_cancelled = True
        self._watch.on_wait()

    def _say_reason(self) -> None:
        try:
            status = commands.status(self._queued)
        except commands.SlurmUnreachableError as error:
            self._watch.on_status(f"Slurm does not answer: {error.what}")
            return
        if status is not None and status.is_pending:
            self._watch.on_status(waiting_message(self._queued, status))

    def asks_for(self) -> int | None:
        """An interrupt for the ranks, once, where nobody reads what they say any more."""
        number, self._asks_for = self._asks_for, None
        return number

    def last_signal(self) -> int:
        """What srun gets that does not end: it hands SIGUSR2 on to ranks that run, whose shells then kill them.

        SIGTERM would be for srun itself, which kills nothing while its controller is away (seen with Slurm 22.05).
        """
        return signal.SIGUSR2 if self.heard.lines else signal.SIGTERM

    def end(self, *, is_orderly: bool) -> None:
        """Nothing of it goes on, even where srun itself was killed."""
        why_not = self._cancel() or commands.cancel_named(self._name)
        if not why_not:
            return
        if not is_orderly or self.must_end:
            self.heard.say(f"srun has ended, but Slurm was not heard ({why_not}); `squeue --steps` says what goes on")
        else:
            self.heard.say(
                f"all processes have ended, but Slurm was not heard ({why_not}) and may keep their nodes until it is: "
                f"scancel --name={self._name}"
            )

    def interrupt(self) -> int | None:
        """The ranks end in good order; where none runs yet, what waits is cancelled; where Slurm is away, srun ends.

        Returns:
            The signal that srun hands to ranks that are known to run, whether or not its controller answers.
        """
        self.interrupted_code = self.interrupted_code or ExitCode.INTERRUPTED
        self._start_ending()
        if self.heard.lines:
            return signal.SIGUSR1
        self._tell_slurm()
        return None

    def _start_ending(self) -> None:
        self._watch.on_status("interrupted: the processes are ending; again ends srun at once")
        self._kill_at_s = monotonic() + _ORDERLY_S

    def _tell_slurm(self) -> None:
        if why_not := self._cancel(how="INT"):
            self._end_srun(why_not)
        elif not self._has_found:
            self._end_srun("it has no step yet")

    def _cancel(self, *, how: str = "") -> str:
        """Cancels the step, or gives it a signal, or cancels what waits for nodes; why it did not work."""
        try:
            running = commands.step_named(self._name)
        except BusbwError as error:
            return error.what
        self._has_found = bool(running or self._queued)
        if running:
            return commands.cancel(running, signal=how)
        if self._queued:
            return commands.cancel(self._queued)
        return commands.cancel_named(self._name)

    def _end_srun(self, why: str) -> None:
        self.must_end = True
        self._watch.on_status(f"interrupted, and srun is ended: {why}")
