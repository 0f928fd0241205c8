"""Runs srun from this machine: as a step of the current allocation, or as a new job.

After Ctrl-C, or if the reader of the output closes, the run ends early: in the order of `_Stage`.
"""

import math
import re
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import IntEnum
from time import monotonic
from typing import NamedTuple

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


class _Stage(IntEnum):
    """Stages of an early end, in their order. A run that ends by itself stays in the first stage."""

    RUNNING = 0
    INTERRUPTED = 1
    """srun interrupts the ranks if they run. Otherwise Slurm interrupts the step, or cancels the queued job."""
    CANCELED = 2
    """Slurm cancels the step, because srun still runs at the end of the stage INTERRUPTED."""
    SRUN_ENDING = 3
    """srun is ended: at the end of the stage CANCELED, or at once if Slurm cannot end the step."""


_ORDERLY_END_LIMIT_S = 10.0
"""How long srun may run in each of the stages INTERRUPTED and CANCELED before the next stage begins."""


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
    early_end = step.early_end
    with processes.written_files(files):
        step_callbacks = replace(callbacks, on_line=step.forward_line, on_wait=step.wait, on_error=step.forward_error)
        # Signals to srun, in this order. srun forwards SIGUSR1 and SIGUSR2 to the shells around the ranks (script.py).
        # - SIGUSR1 at the beginning of the early end, if ranks run. Otherwise Slurm is asked instead (`interrupt`).
        # - SIGUSR2 in the stage SRUN_ENDING, or SIGTERM if no rank is known to run. SIGKILL follows after 10 s.
        # In any stage, a second Ctrl-C sends SIGTERM, and srun then ends the step at once. A third one sends SIGKILL.
        # SIGKILL is always the last signal, because the step would keep running after it.
        policy = processes.TerminationPolicy(
            on_interrupt=early_end.interrupt,
            end_signal=signal.SIGTERM,
            should_end=lambda: early_end.stage == _Stage.SRUN_ENDING,
            first_end_signal=early_end.srun_end_signal,
            signal_to_send=early_end.take_signal,
        )
        code = processes.run_all([command], step_callbacks, policy)[0].code
    if early_end.exit_code is None:
        return resolve_exit_code(code, step.output)
    early_end.cancel_rest(is_orderly=code == ExitCode.INTERRUPTED)
    return early_end.exit_code


class _SrunStep:
    """Forwards the output of srun, and interprets its messages about waiting."""

    def __init__(self, name: str, callbacks: LaunchCallbacks, start_limit: StartLimit) -> None:
        self._start_limit = start_limit
        self._callbacks = callbacks
        self.output = StepOutput(callbacks)
        self._queued_job = ""
        """ID of the job while it waits. Empty otherwise."""
        self.early_end = _EarlyEnd(name, callbacks, self.output, lambda: self._queued_job)
        self._query_at_s = 0.0
        """Time of the next query for the reason of the wait."""

    def forward_line(self, line: bytes) -> None:
        """Forwards a line of process 0's stdout."""
        try:
            self.output.forward_line(line)
        except BrokenPipeError:
            self.early_end.interrupt_unread()
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
        self.early_end.advance_if_due()
        self._callbacks.on_wait()

    def _show_wait_reason(self) -> None:
        try:
            status = commands.status(self._queued_job)
        except commands.SlurmUnreachableError as error:
            self._callbacks.on_status(f"Slurm does not answer: {error.problem}")
            return
        if status is not None and status.is_pending:
            self._callbacks.on_status(waiting_message(self._queued_job, status))
            self._start_limit.check(self._queued_job, status)


class _EarlyEnd:
    """Ends a run after Ctrl-C, or if the reader of its output closes. srun alone only reports a status on Ctrl-C."""

    def __init__(
        self, name: str, callbacks: LaunchCallbacks, output: StepOutput, queued_job: Callable[[], str]
    ) -> None:
        """Creates the state of a run without an interrupt.

        Args:
            name: Name of the job or step.
            callbacks: Receive statuses.
            output: Output of the step. Its first line shows that ranks run.
            queued_job: Returns the ID of the job while it waits. Empty otherwise.
        """
        self.stage = _Stage.RUNNING
        self.exit_code: ExitCode | None = None
        """Exit code of the run. None in the stage RUNNING. As in a batch job, OUTPUT_CLOSED replaces INTERRUPTED."""
        self._name = name
        self._callbacks = callbacks
        self._output = output
        self._queued_job = queued_job
        self._stage_end_s = math.inf
        """Time at which the next stage begins."""
        self._signal_to_take: int | None = None

    def interrupt(self) -> int | None:
        """Begins the early end after Ctrl-C (`TerminationPolicy.on_interrupt`).

        Returns:
            The signal for srun, which forwards it to the ranks even without Slurm's controller. None if no rank is
            known to run. Slurm is then asked to interrupt the step, or to cancel the queued job.
        """
        self.exit_code = self.exit_code or ExitCode.INTERRUPTED
        self._begin("interrupted: the processes are ending; Ctrl-C again ends srun at once")
        if self._output.line_count:
            return signal.SIGUSR1
        answer = self._cancel_by_slurm(step_signal="INT")
        if answer.error:
            self._end_srun(answer.error)
        elif not answer.has_target:
            self._end_srun("it has no step yet")
        return None

    def interrupt_unread(self) -> None:
        """Begins the early end after the reader of the output closed. There was output, so ranks run."""
        self.exit_code = ExitCode.OUTPUT_CLOSED
        self._begin("output closed: the processes are ending")
        self._signal_to_take = signal.SIGUSR1

    def take_signal(self) -> int | None:
        """Returns the signal of `interrupt_unread` for srun, once (`TerminationPolicy.signal_to_send`)."""
        signal_number, self._signal_to_take = self._signal_to_take, None
        return signal_number

    def advance_if_due(self) -> None:
        """Begins the next stage if srun still runs at the end of the current one."""
        if monotonic() <= self._stage_end_s:
            return
        if self.stage == _Stage.INTERRUPTED:
            self._enter(_Stage.CANCELED)
            if error := self._cancel_by_slurm().error:
                self._end_srun(error)
        elif self.stage == _Stage.CANCELED:
            self._end_srun("it did not end")

    def srun_end_signal(self) -> int:
        """Returns the signal for srun in the stage SRUN_ENDING (`TerminationPolicy.first_end_signal`).

        If ranks run, it is SIGUSR2: srun forwards it, and the shell around each process (script.py) kills that process.
        SIGTERM does not work while the controller is unreachable (seen with Slurm 22.05).
        """
        return signal.SIGUSR2 if self._output.line_count else signal.SIGTERM

    def cancel_rest(self, *, is_orderly: bool) -> None:
        """Cancels the step or job, so that nothing keeps running even if srun was killed.

        Args:
            is_orderly: True if srun's exit code shows that all processes ended by themselves after the interrupt.
        """
        # If srun started a new job, the job has the same name, and remains after its step is canceled.
        slurm_error = self._cancel_by_slurm().error or commands.cancel_named(self._name)
        if not slurm_error:
            return
        have_processes_ended = is_orderly and self.stage != _Stage.SRUN_ENDING
        if have_processes_ended:
            self._callbacks.print_error(
                f"all processes have ended, but Slurm did not answer ({slurm_error}) and may keep nodes; run later: "
                f"scancel --name={self._name}"
            )
        else:
            self._callbacks.print_error(
                f"srun has ended, but Slurm did not answer ({slurm_error}); check `squeue --steps` for running steps"
            )

    def _begin(self, status: str) -> None:
        """Begins the stage INTERRUPTED. If a later stage has begun, only its time begins anew."""
        self._callbacks.on_status(status)
        self._enter(max(self.stage, _Stage.INTERRUPTED))

    def _enter(self, stage: _Stage) -> None:
        self.stage = stage
        self._stage_end_s = monotonic() + _ORDERLY_END_LIMIT_S

    def _end_srun(self, reason: str) -> None:
        """Begins the stage SRUN_ENDING: `processes.run_all` polls for it, and then signals srun."""
        cause = "output closed" if self.exit_code == ExitCode.OUTPUT_CLOSED else "interrupted"
        self._callbacks.on_status(f"{cause}; ending srun: {reason}")
        self._enter(_Stage.SRUN_ENDING)

    def _cancel_by_slurm(self, *, step_signal: str = "") -> "_CancelAnswer":
        """Cancels the running step, otherwise the queued job, otherwise the user's jobs with the name.

        Args:
            step_signal: Signal that a running step gets instead of being canceled.
        """
        try:
            step_id = commands.find_step(self._name)
        except BusbwError as error:
            return _CancelAnswer(error.problem, has_target=False)
        if step_id:
            return _CancelAnswer(commands.cancel(step_id, signal=step_signal), has_target=True)
        if queued_job := self._queued_job():
            return _CancelAnswer(commands.cancel(queued_job), has_target=True)
        return _CancelAnswer(commands.cancel_named(self._name), has_target=False)


class _CancelAnswer(NamedTuple):
    """Slurm's answer to a cancellation."""

    error: str
    """Empty on success."""
    has_target: bool
    """True if there is a running step or a queued job."""
