"""Follows a step of a batch job by the files that it writes, until it has ended; says what it waits for."""

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from types import FrameType

from busbw import termination_signals
from busbw.errors import SIGNALLED, BusbwError, ExitCode
from busbw.launchers.job.job import LaunchCallbacks
from busbw.launchers.slurm import commands, disk_space
from busbw.launchers.slurm.cancellation import JobCancellation
from busbw.launchers.slurm.exit_code import StepOutput, resolve_exit_code
from busbw.launchers.slurm.files import StepFiles
from busbw.launchers.slurm.script import BATCH_LOG, step_file
from busbw.launchers.slurm.status import JobStatus, ended_message, never_starts, waiting_message

_LOOK_S = 0.2
_ASK_FIRST_S = 0.5
_ASK_MORE_BY = 1.3
_ASK_AT_MOST_S = 15.0
"""The time between two questions grows: a cluster's controller answers for everybody."""
_SLURM_SILENCE_LIMIT_S = 600.0
"""How long Slurm may not answer."""
_SETTLES_S = 75.0
"""How long a shared folder may take to show what was written before the job's end: NFS trusts what it knows of a folder
for up to 60 s, unless it is mounted otherwise."""
_SETTLES_CUT_SHORT_S = 3.0
"""The same where nobody may have written an exit code: Slurm, or we, ended the job."""
_ENOUGH_INTERRUPTS = 3
"""So many end this program while Slurm cannot be told."""


_GOES_ON = JobStatus("RUNNING")
"""That a job has not ended, or that nobody says so."""


class DetachedError(Exception):  # nothing went wrong
    """The connection to the user is gone; the job goes on."""


class Follower:
    """Follows one step."""

    def __init__(self, folder: Path, job: str, step: int, watch: LaunchCallbacks) -> None:
        self.is_complete = True
        """Whether all that the step left was read, as far as one can know."""
        self._job = job
        self._folder = folder
        self._watch = watch
        self._heard = StepOutput(watch)
        self._files = StepFiles(folder, step, self._heard)
        self._awaited = step_file(step, "code")
        self._ending = JobCancellation(job, watch, self._heard.say)
        self._answered_s = monotonic()
        self._ask_at_s = 0.0
        self._ask_after_s = _ASK_FIRST_S

    def follow(self, received: "SignalLog") -> int:
        """Returns the program's exit code once the step has ended.

        Args:
            received: The signals that come, and those that came before.

        Raises:
            BusbwError: The job can never start, its output is nowhere to be seen, or Slurm does not answer any more.
            Left: The terminal is gone.
        """
        try:
            return self._follow(received)
        except BrokenPipeError:  # nobody reads any more
            self._cancel_until_gone(received)
            return ExitCode.OUTPUT_CLOSED

    def _follow(self, received: "SignalLog") -> int:
        handled = 0
        while True:
            if signal.SIGHUP in received:
                raise DetachedError
            count = len(received)
            if count > handled:
                self._ending.runs |= self._heard.lines > 0
                self._ending.interrupt()
                handled = count  # one that came meanwhile, while Slurm was told of this one, is the next
                self._ask_at_s, self._ask_after_s = 0.0, _ASK_FIRST_S
            self._ending.retry_if_due()
            if self._ending.slurm_error and len(received) >= _ENOUGH_INTERRUPTS:
                raise commands.SlurmUnreachableError(
                    f"job {self._job} may go on: {self._ending.slurm_error}",
                    remedy=f"once Slurm answers: scancel {self._job}",
                )
            self._read()
            if self._files.code is not None:
                return self._interrupted(received) or resolve_exit_code(self._files.code, self._heard)
            if monotonic() >= self._ask_at_s:
                ended_as = self._ask()
                if ended_as is not _GOES_ON:
                    code = self._code_after_end(ended_as, received)
                    return self._interrupted(received) or code
            received.wait(_LOOK_S)

    def _cancel_until_gone(self, received: "SignalLog") -> None:
        """Cancels the job, as often as it takes."""
        before = len(received)
        until_s = monotonic() + _SLURM_SILENCE_LIMIT_S
        while commands.cancel(self._job):
            if len(received) > before or monotonic() > until_s:
                self.is_complete = False
                return
            received.wait(_LOOK_S)

    @staticmethod
    def _interrupted(received: "SignalLog") -> int | None:
        return SIGNALLED + received[0] if received else None

    def _read(self, *, at_end: bool = False) -> None:
        try:
            self._files.read(at_end=at_end)
        except BusbwError:
            self.is_complete = False
            raise
        self._watch.on_wait()

    def _ask(self) -> JobStatus | None:
        """Asks Slurm; how the job has ended, None where Slurm has forgotten it, or that it goes on."""
        self._ask_at_s = monotonic() + self._ask_after_s
        self._ask_after_s = min(self._ask_after_s * _ASK_MORE_BY, _ASK_AT_MOST_S)
        try:
            status = commands.status(self._job)
        except commands.SlurmUnreachableError as error:
            if monotonic() - self._answered_s > _SLURM_SILENCE_LIMIT_S:
                raise commands.SlurmUnreachableError(
                    f"Slurm has not answered for {_SLURM_SILENCE_LIMIT_S / 60:g} min: {error.what}",
                    remedy=f"once it does, come back with busbw launch attach {self._folder}",
                ) from error
            if not self._ending.is_requested:
                self._watch.on_status(f"Slurm does not answer: {error.what}")
            return _GOES_ON
        self._answered_s = monotonic()
        if status is None or status.has_ended:
            return status
        self._ending.runs = not status.is_pending
        if not self._ending.is_requested:
            self._say(status)
        if (never := never_starts(status)) and not commands.cancel(self._job):
            raise BusbwError(f"job {self._job} could never start and was cancelled: {never[0]}", remedy=never[1])
        return _GOES_ON

    def _say(self, status: JobStatus) -> None:
        if status.is_pending:
            self._watch.on_status(waiting_message(self._job, status))
        elif not self._heard.lines:
            self._watch.on_status(f"job {self._job} runs on {status.node_list}, nothing was printed yet")
        elif self._heard.recorded_exit_code is not None:
            self._watch.on_status(f"process 0 has ended; Slurm is ending job {self._job}")

    def _code_after_end(self, status: JobStatus | None, received: "SignalLog") -> int:
        """The exit code of a job that has ended; the folder is given the time to show it."""
        handled = len(received)
        begin_s = monotonic()
        while True:
            self._read()
            if self._files.code is not None:
                return resolve_exit_code(self._files.code, self._heard)
            self._require_room()
            limit_s = self._settles_s(status, was_interrupted=bool(received))
            if signal.SIGHUP in received:
                raise DetachedError
            if len(received) > handled or monotonic() - begin_s >= limit_s:
                return self._without_code(status, was_interrupted=bool(received))
            self._watch.on_status(
                f"job {self._job} has ended; waiting up to {limit_s:g} s for {self._folder} to show {self._awaited}"
            )
            received.wait(_LOOK_S)

    def _require_room(self) -> None:
        """A job whose folder is full has ended, and could not say how.

        Raises:
            BusbwError: It is full.
        """
        if not disk_space.is_full(self._folder):
            return
        self._read(at_end=True)
        self.is_complete = False
        raise BusbwError(
            f"there is no room left in {self._folder}, so job {self._job} has not left all that it had to say there",
            remedy="make room, or name another folder (--output-folder), and measure again",
        )

    def _settles_s(self, status: JobStatus | None, *, was_interrupted: bool) -> float:
        if status is not None and not status.node_list:
            return 0.0  # it never ran
        return _SETTLES_CUT_SHORT_S if was_interrupted or self._was_cut_short(status) else _SETTLES_S

    def _was_cut_short(self, status: JobStatus | None) -> bool:
        """Whether the batch script was ended, and may have left no exit code."""
        return status is not None and not status.has_run_to_its_end and self._files.has_log

    def _without_code(self, status: JobStatus | None, *, was_interrupted: bool) -> int:
        """What becomes of a job that has ended without an exit code that anybody can see."""
        self._read(at_end=True)
        has_run = status is None or bool(status.node_list)
        if has_run and not self._was_cut_short(status):
            self.is_complete = False
            self._heard.say(f"{self._folder} stays; busbw launch attach {self._folder} shows what comes later")
        shows_nothing = not self._files.has_log and not self._heard.lines
        if status is not None and status.node_list and shows_nothing and not was_interrupted:
            raise BusbwError(
                f"job {self._job} has ended ({status.state}), and {self._folder} shows nothing of {status.node_list}",
                remedy="name a folder that the nodes share with this machine (--output-folder), "
                "or give --submit-with srun",
            )
        if self._heard.recorded_exit_code == ExitCode.GOOD:
            return ExitCode.GOOD
        down = commands.nodes_down(status.node_list) if status else ()
        self._heard.say(ended_message(self._job, status, down))
        self._say_log()
        return ExitCode.RANK_LOST if self._heard.recorded_exit_code is None else self._heard.recorded_exit_code

    def _say_log(self) -> None:
        """What the batch script itself said: Slurm writes there why it ended a job."""
        with suppress(OSError):
            for line in (self._folder / BATCH_LOG).read_text(errors="replace").splitlines()[-5:]:
                self._heard.say(line, by="")


class SignalLog(list[int]):
    """The signals that came, and a wait that ends when one does."""

    def __init__(self) -> None:
        super().__init__()
        self.read_end, self._write_end = os.pipe()
        for end in (self.read_end, self._write_end):
            os.set_blocking(end, False)

    def take(self, number: int, _frame: FrameType | None) -> None:
        """As a handler of signals."""
        self.append(number)
        with suppress(BlockingIOError):
            os.write(self._write_end, b"!")

    def wait(self, limit_s: float) -> None:
        """Until a signal comes, or the time is over."""
        select.select([self.read_end], [], [], limit_s)
        with suppress(BlockingIOError):
            os.read(self.read_end, 4096)

    def close(self) -> None:
        """Gives back what it holds."""
        os.close(self.read_end)
        os.close(self._write_end)


@contextmanager
def signals() -> Iterator[SignalLog]:
    """Signals are written down, and do nothing else."""
    received = SignalLog()
    try:
        with termination_signals.handled_by(received.take):
            yield received
    finally:
        received.close()
