"""Follows a step of a batch job through its output files until it ends, and shows reasons for waiting.

The step has ended when its exit code file appears. Slurm is queried too, because a job that is canceled or loses its
node may leave no such file.
"""

import signal
from contextlib import suppress
from pathlib import Path
from time import monotonic

from busbw.errors import SIGNALLED, BusbwError, ExitCode
from busbw.launchers.job.job import LaunchCallbacks
from busbw.launchers.slurm import commands, disk_space
from busbw.launchers.slurm.cancellation import JobCancellation
from busbw.launchers.slurm.exit_code import StepOutput, resolve_exit_code
from busbw.launchers.slurm.files import StepFiles
from busbw.launchers.slurm.script import BATCH_LOG, step_file
from busbw.launchers.slurm.start_limit import DEFAULT_PENDING_LIMIT_S, StartLimit
from busbw.launchers.slurm.status import JobStatus, ended_message, waiting_message
from busbw.support.termination_signals import ReceivedSignals

_POLL_S = 0.2
"""Interval between reads of the output files."""
_FIRST_QUERY_INTERVAL_S = 0.5
"""First interval between status queries. The interval grows, because all users share the cluster's controller."""
_QUERY_INTERVAL_GROWTH = 1.3
_MAX_QUERY_INTERVAL_S = 15.0
_SLURM_SILENCE_LIMIT_S = 600.0
"""Limit for the silence of Slurm."""
_FOLDER_DELAY_S = 75.0
"""How long a shared folder may take to show files of a job that has ended. By default NFS caches folders up to 60 s."""
_SHORT_FOLDER_DELAY_S = 3.0
"""The same delay if Slurm or an interrupt ended the job. Its exit code file may then never appear."""
_MAX_INTERRUPTS = 3
"""Number of interrupts after which this program ends although Slurm does not answer."""

_NOT_ENDED = JobStatus("RUNNING")
"""Result of `_query_status` if the job has not ended, or if Slurm does not answer."""


class DetachedError(Exception):  # no BusbwError: it reports no failure
    """The terminal was lost; the job continues."""


class Follower:
    """Follows one step of a batch job."""

    def __init__(
        self,
        folder: Path,
        job: str,
        step: int,
        callbacks: LaunchCallbacks,
        pending_limit_s: int = DEFAULT_PENDING_LIMIT_S,
    ) -> None:
        self.is_complete = True
        """False if the step may have written output that was not read."""
        self._job = job
        self._folder = folder
        self._callbacks = callbacks
        self._output = StepOutput(callbacks)
        self._files = StepFiles(folder, step, self._output)
        self._start_limit = StartLimit(pending_limit_s)
        self._code_file = step_file(step, "code")
        self._cancellation = JobCancellation(job, callbacks)
        self._last_answer_s = monotonic()
        """Time of Slurm's last answer."""
        self._query_at_s = 0.0
        """Time of the next status query."""
        self._query_interval_s = _FIRST_QUERY_INTERVAL_S

    def follow(self, received: ReceivedSignals) -> int:
        """Follows the step until it ends and returns the program's exit code.

        Args:
            received: Log of signals, also of those before this call.

        Raises:
            BusbwError: The job can never start, its output does not appear, or Slurm does not answer.
            DetachedError: The terminal was lost.
        """
        try:
            return self._follow(received)
        except BrokenPipeError:  # the reader of busbw's output closed
            self._cancel_until_accepted(received)
            return ExitCode.OUTPUT_CLOSED

    def _follow(self, received: ReceivedSignals) -> int:
        handled_count = 0
        while True:
            if signal.SIGHUP in received:
                raise DetachedError
            received_count = len(received)
            if received_count > handled_count:
                self._interrupt()
                handled_count = received_count  # a signal that arrived during the interrupt is handled next
            self._cancellation.retry_if_due()
            if self._cancellation.slurm_error and len(received) >= _MAX_INTERRUPTS:
                raise commands.SlurmUnreachableError(
                    f"job {self._job} may continue: {self._cancellation.slurm_error}",
                    remedy=f"cancel it later: scancel {self._job}",
                )
            self._read()
            if self._files.code is not None:
                return self._interrupt_exit_code(received) or resolve_exit_code(self._files.code, self._output)
            if monotonic() >= self._query_at_s:
                final_status = self._query_status()
                if final_status is not _NOT_ENDED:
                    exit_code = self._exit_code_after_end(final_status, received)
                    return self._interrupt_exit_code(received) or exit_code
            received.wait(_POLL_S)

    def _interrupt(self) -> None:
        """Interrupts or cancels the job, and queries its status soon."""
        if self._output.line_count:  # output proves that the job runs, before the next status query does
            self._cancellation.is_running = True
        self._cancellation.interrupt()
        self._query_at_s, self._query_interval_s = 0.0, _FIRST_QUERY_INTERVAL_S

    def _cancel_until_accepted(self, received: ReceivedSignals) -> None:
        """Cancels the job, with retries until Slurm accepts, a signal arrives or the limit passes."""
        received_before = len(received)
        end_s = monotonic() + _SLURM_SILENCE_LIMIT_S
        while commands.cancel(self._job):  # returns an error
            if len(received) > received_before or monotonic() > end_s:
                self.is_complete = False
                return
            received.wait(_POLL_S)

    @staticmethod
    def _interrupt_exit_code(received: ReceivedSignals) -> int | None:
        """Exit code after an interrupt. None without one."""
        return SIGNALLED + received[0] if received else None

    def _read(self, *, at_end: bool = False) -> None:
        try:
            self._files.read(at_end=at_end)
        except BusbwError:
            self.is_complete = False
            raise
        self._callbacks.on_wait()

    def _query_status(self) -> JobStatus | None:
        """Queries Slurm. Returns the final status, None if Slurm no longer knows the job, or _NOT_ENDED."""
        self._query_at_s = monotonic() + self._query_interval_s
        self._query_interval_s = min(self._query_interval_s * _QUERY_INTERVAL_GROWTH, _MAX_QUERY_INTERVAL_S)
        try:
            status = commands.status(self._job)
        except commands.SlurmUnreachableError as error:
            if monotonic() - self._last_answer_s > _SLURM_SILENCE_LIMIT_S:
                raise commands.SlurmUnreachableError(
                    f"Slurm has not answered for {_SLURM_SILENCE_LIMIT_S / 60:g} min: {error.problem}",
                    remedy=f"continue later: busbw launch attach {self._folder}",
                ) from error
            if not self._cancellation.is_requested:
                self._callbacks.on_status(f"Slurm does not answer: {error.problem}")
            return _NOT_ENDED
        self._last_answer_s = monotonic()
        if status is None or status.has_ended:
            return status
        self._cancellation.is_running = not status.is_pending
        if not self._cancellation.is_requested:
            self._show_status(status)
        self._start_limit.check(self._job, status)
        return _NOT_ENDED

    def _show_status(self, status: JobStatus) -> None:
        if status.is_pending:
            self._callbacks.on_status(waiting_message(self._job, status))
        elif not self._output.line_count:
            self._callbacks.on_status(f"job {self._job} runs on {status.node_list}, no output yet")
        elif self._output.recorded_exit_code is not None:
            self._callbacks.on_status(f"process 0 has ended; Slurm is ending job {self._job}")

    def _exit_code_after_end(self, status: JobStatus | None, received: ReceivedSignals) -> int:
        """Returns the exit code of an ended job. Waits for the exit code file to appear in the folder."""
        received_before = len(received)
        begin_s = monotonic()
        while True:
            self._read()
            if self._files.code is not None:
                return resolve_exit_code(self._files.code, self._output)
            self._require_disk_space()
            limit_s = self._folder_delay_s(status, was_interrupted=bool(received))
            if signal.SIGHUP in received:
                raise DetachedError
            if len(received) > received_before or monotonic() - begin_s >= limit_s:
                return self._exit_code_without_file(status, was_interrupted=bool(received))
            self._callbacks.on_status(
                f"job {self._job} has ended; waiting up to {limit_s:g} s for {self._folder} to show {self._code_file}"
            )
            received.wait(_POLL_S)

    def _require_disk_space(self) -> None:
        """Checks that the job could write its exit code.

        Raises:
            BusbwError: The disk or the quota of the folder is full.
        """
        if not disk_space.is_full(self._folder):
            return
        self._read(at_end=True)
        self.is_complete = False
        raise BusbwError(
            f"no space left in {self._folder}, so the output of job {self._job} is incomplete",
            remedy="free space or set another --output-folder, then measure again",
        )

    def _folder_delay_s(self, status: JobStatus | None, *, was_interrupted: bool) -> float:
        """Returns how long to wait for the exit code file of an ended job."""
        if status is not None and not status.node_list:
            return 0.0  # the job never ran
        return _SHORT_FOLDER_DELAY_S if was_interrupted or self._was_ended_from_outside(status) else _FOLDER_DELAY_S

    def _was_ended_from_outside(self, status: JobStatus | None) -> bool:
        """True if the batch script started and was ended from outside, so that it may have written no exit code.

        The log shows that the script started. It also shows that the folder is shared with the nodes.
        """
        return status is not None and not status.has_run_to_its_end and self._files.has_log

    def _exit_code_without_file(self, status: JobStatus | None, *, was_interrupted: bool) -> int:
        """Returns the exit code of an ended job without an exit code file."""
        self._read(at_end=True)
        # A job that never ran has no output. A job that was ended from outside writes no more output. Any other job may
        # have output that the folder does not show yet.
        may_have_run = status is None or bool(status.node_list)
        if may_have_run and not self._was_ended_from_outside(status):
            self.is_complete = False
            self._callbacks.print_error(
                f"{self._folder} is kept; busbw launch attach {self._folder} shows later output"
            )
        is_folder_empty = not self._files.has_log and not self._output.line_count
        if status is not None and status.node_list and is_folder_empty and not was_interrupted:
            # The nodes probably do not share the folder.
            raise BusbwError(
                f"job {self._job} has ended ({status.state}), but {self._folder} shows no file from {status.node_list}",
                remedy="set --output-folder to one shared with the nodes, or use --submit-with srun",
            )
        if self._output.recorded_exit_code == ExitCode.GOOD:  # process 0 wrote the end of its record
            return ExitCode.GOOD
        failed_nodes = commands.nodes_down(status.node_list) if status else ()
        self._callbacks.print_error(ended_message(self._job, status, failed_nodes))
        self._print_batch_log()
        if self._output.recorded_exit_code is not None:
            return self._output.recorded_exit_code
        return ExitCode.RANK_LOST

    def _print_batch_log(self) -> None:
        """Prints the end of the batch script's log, where Slurm writes why it ended a job."""
        with suppress(OSError):
            for line in (self._folder / BATCH_LOG).read_text(errors="replace").splitlines()[-5:]:
                self._callbacks.emit_error(f"{line}\n".encode())
