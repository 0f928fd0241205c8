"""Runs srun from this machine: as a step of the current allocation, or as a new job.

After an interrupt, srun itself is signaled if ranks run, because that works without Slurm's controller. Otherwise the
step or the queued job is canceled through Slurm.
"""

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
from busbw.launchers.slurm.start_limit import DEFAULT_PENDING_LIMIT_S, StartLimit
from busbw.launchers.slurm.status import waiting_message

_QUEUED = re.compile(rb"job (\d+) queued")
_QUERY_INTERVAL_S = 5.0
_ORDERLY_END_LIMIT_S = 10.0
"""How long ranks may take to end after an interrupt, before the step is canceled."""


def run_srun(
    command: Command,
    files: Sequence[PrivateFile],
    name: str,
    callbacks: LaunchCallbacks,
    pending_limit_s: int = DEFAULT_PENDING_LIMIT_S,
) -> int:
    """Runs srun to its end and returns the program's exit code.

    Args:
        command: The srun command.
        files: Temporary files for it.
        name: Name of the job or step.
        callbacks: Receive the output.
        pending_limit_s: Time limit of `StartLimit`.

    Raises:
        BusbwError: The job cannot start and was canceled.
    """
    step = _SrunStep(name, callbacks, StartLimit(pending_limit_s))
    with processes.written_files(files):
        step_callbacks = replace(callbacks, on_line=step.forward_line, on_wait=step.wait, on_error=step.forward_error)
        # srun ends the step at once on SIGTERM. After SIGKILL the step would keep running.
        policy = processes.TerminationPolicy(
            on_interrupt=step.interrupt,
            end_signal=signal.SIGTERM,
            should_end=lambda: step.must_end,
            first_end_signal=step.first_end_signal,
            signal_to_send=step.signal_to_send,
        )
        code = processes.run_all([command], step_callbacks, policy)[0].code
    if step.interrupted_code is None:
        return resolve_exit_code(code, step.output)
    step.cancel_rest(is_orderly=code == ExitCode.INTERRUPTED)
    return step.interrupted_code


class _SrunStep:
    """Interprets srun's messages, and ends its step after an interrupt. srun alone only reports a status on Ctrl-C."""

    def __init__(self, name: str, callbacks: LaunchCallbacks, start_limit: StartLimit) -> None:
        self._start_limit = start_limit
        self.output = StepOutput(callbacks)
        self.interrupted_code: ExitCode | None = None
        """Exit code of a run that was interrupted, or lost the reader of its output. None otherwise."""
        self.must_end = False
        """True if srun itself must be signaled, because Slurm cannot end the step."""
        self._was_canceled = False
        """True if the step was canceled because it did not end after an interrupt."""
        self._found_target = False
        """True if the last cancellation found a step or a queued job."""
        self._name = name
        self._callbacks = callbacks
        self._queued_job = ""
        """ID of the job while it waits. Empty otherwise."""
        self._query_at_s = 0.0
        """Time of the next query for the reason of the wait."""
        self._cancel_at_s: float | None = None
        """Time at which a step that is ending is canceled. None before an interrupt."""
        self._pending_signal: int | None = None
        """Signal that `signal_to_send` returns next."""

    def forward_line(self, line: bytes) -> None:
        """Forwards a line of process 0's stdout."""
        try:
            self.output.forward_line(line)
        except BrokenPipeError:
            self.interrupted_code = ExitCode.OUTPUT_CLOSED
            self._start_ending()
            self._pending_signal = signal.SIGUSR1  # there was output, so ranks run
            raise

    def forward_error(self, line: bytes, _process: object) -> None:
        """Forwards a line of stderr, or shows it as a status if it is about waiting."""
        if not WAITS.search(line):
            self.output.forward_error(line)
            return
        if queued := _QUEUED.search(line):
            self._queued_job, self._query_at_s = queued[1].decode(), 0.0
        elif b"allocated" in line or b"Step created" in line:
            self._queued_job = ""
        self._callbacks.on_status(line.decode(errors="replace").strip())

    def wait(self) -> None:
        """Polls Slurm and enforces time limits. Called at least once a second."""
        now_s = monotonic()
        if self._queued_job and not self.output.line_count and now_s >= self._query_at_s:
            self._query_at_s = now_s + _QUERY_INTERVAL_S
            self._show_wait_reason()
        if self._cancel_at_s is not None and now_s > self._cancel_at_s:
            self._cancel_or_end_srun(now_s)
        self._callbacks.on_wait()

    def _cancel_or_end_srun(self, now_s: float) -> None:
        """Cancels a step that does not end after an interrupt. If it was canceled before, ends srun."""
        if self._was_canceled:
            self._cancel_at_s = None
            self._end_srun("it did not end")
            return
        self._cancel_at_s = now_s + _ORDERLY_END_LIMIT_S
        if slurm_error := self._cancel():
            self._end_srun(slurm_error)
        self._was_canceled = True

    def _show_wait_reason(self) -> None:
        try:
            status = commands.status(self._queued_job)
        except commands.SlurmUnreachableError as error:
            self._callbacks.on_status(f"Slurm does not answer: {error.problem}")
            return
        if status is not None and status.is_pending:
            self._callbacks.on_status(waiting_message(self._queued_job, status))
            self._start_limit.check(self._queued_job, status)

    def signal_to_send(self) -> int | None:
        """Returns SIGUSR1 once, to interrupt the ranks after the reader of the output closed."""
        signal_number, self._pending_signal = self._pending_signal, None
        return signal_number

    def first_end_signal(self) -> int:
        """Returns the signal for an srun that does not end.

        If ranks run, it is SIGUSR2: srun forwards it, and the shell around each process (script.py) kills that process.
        SIGTERM does not work while the controller is unreachable (seen with Slurm 22.05).
        """
        return signal.SIGUSR2 if self.output.line_count else signal.SIGTERM

    def cancel_rest(self, *, is_orderly: bool) -> None:
        """Cancels the step or job, so that nothing keeps running even if srun was killed.

        Args:
            is_orderly: True if srun's exit code shows that all processes ended by themselves after the interrupt.
        """
        slurm_error = self._cancel() or commands.cancel_named(self._name)
        if not slurm_error:
            return
        if not is_orderly or self.must_end:
            self.output.print_error(
                f"srun has ended, but Slurm did not answer ({slurm_error}); check `squeue --steps` for running steps"
            )
        else:
            self.output.print_error(
                f"all processes have ended, but Slurm did not answer ({slurm_error}) and may keep nodes; run later: "
                f"scancel --name={self._name}"
            )

    def interrupt(self) -> int | None:
        """Interrupts the ranks. If none runs yet, cancels the step or job; if Slurm does not answer, ends srun.

        Returns:
            The signal for srun, which forwards it to the ranks even without Slurm's controller. None if no rank is
            known to run.
        """
        self.interrupted_code = self.interrupted_code or ExitCode.INTERRUPTED
        self._start_ending()
        if self.output.line_count:
            return signal.SIGUSR1
        self._interrupt_by_slurm()
        return None

    def _start_ending(self) -> None:
        self._callbacks.on_status("interrupted: the processes are ending; Ctrl-C again ends srun at once")
        self._cancel_at_s = monotonic() + _ORDERLY_END_LIMIT_S

    def _interrupt_by_slurm(self) -> None:
        if slurm_error := self._cancel(signal_name="INT"):
            self._end_srun(slurm_error)
        elif not self._found_target:
            self._end_srun("it has no step yet")

    def _cancel(self, *, signal_name: str = "") -> str:
        """Cancels or signals the running step, or cancels the queued job. Returns the error, or the empty string."""
        try:
            step_id = commands.find_step(self._name)
        except BusbwError as error:
            return error.problem
        self._found_target = bool(step_id or self._queued_job)
        if step_id:
            return commands.cancel(step_id, signal=signal_name)
        if self._queued_job:
            return commands.cancel(self._queued_job)
        return commands.cancel_named(self._name)

    def _end_srun(self, reason: str) -> None:
        self.must_end = True
        self._callbacks.on_status(f"interrupted; ending srun: {reason}")
