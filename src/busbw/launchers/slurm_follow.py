"""Follows a step of a batch job by the files that it writes, until it has ended; says what it waits for."""

import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from types import FrameType

from busbw.errors import BusbwError, Exit
from busbw.launchers import end_signals, slurm_queue
from busbw.launchers.job import Watch
from busbw.launchers.slurm_end import Heard, judged
from busbw.launchers.slurm_script import BATCH_LOG, step_file
from busbw.launchers.slurm_status import JobStatus, ended, never_starts, waiting

_LOOK_S = 0.2
_ASK_FIRST_S = 0.5
_ASK_MORE_BY = 1.3
_ASK_AT_MOST_S = 15.0
"""The time between two questions grows: a cluster's controller answers for everybody."""
_ORDERLY_S = 10.0
"""How long ranks may take to end after an interrupt, before Slurm ends them."""
_UNHEARD_S = 600.0
"""How long Slurm may not answer."""
_SETTLES_S = 3.0
"""How long a shared folder may take to show what was written before the job's end."""


class Left(Exception):  # noqa: N818  # nothing went wrong
    """The connection to the user is gone; the job goes on."""


class Follower:
    """Follows one step."""

    def __init__(self, folder: Path, job: str, step: int, watch: Watch) -> None:
        self._job = job
        self._folder = folder
        self._watch = watch
        self._heard = Heard(watch)
        self._code = folder / step_file(step, "code")
        self._out = Tail(folder / step_file(step, "out"), self._heard.take)
        self._err = Tail(folder / step_file(step, "err"), self._heard.take_error)
        self._answered_s = monotonic()
        self._ask_at_s = 0.0
        self._ask_after_s = _ASK_FIRST_S
        self._kill_at_s: float | None = None

    def follow(self, received: "Received") -> int:
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
            slurm_queue.cancel(self._job)
            return Exit.OUTPUT_CLOSED

    def _follow(self, received: "Received") -> int:
        handled = 0
        while True:
            if signal.SIGHUP in received:
                raise Left
            if len(received) > handled:
                self._interrupt(again=handled > 0)
                handled = len(received)
                self._ask_after_s = _ASK_FIRST_S
            self._read()
            if (code := self._step_code()) is not None:
                self._read(at_end=True)
                return self._interrupted(received) or judged(code, self._heard)
            now_s = monotonic()
            if self._kill_at_s is not None and now_s > self._kill_at_s:
                self._kill_at_s = None
                slurm_queue.cancel(self._job)
            if now_s >= self._ask_at_s and (status := self._ask()) is not None:
                return self._interrupted(received) or status
            received.wait(_LOOK_S)

    def _interrupt(self, *, again: bool) -> None:
        """The ranks end in good order; where nothing runs yet, or they do not, the job is cancelled."""
        try:
            status = slurm_queue.status(self._job)
        except slurm_queue.NoAnswerError:
            status = None
        if again or status is None or status.waits:
            slurm_queue.cancel(self._job)
        else:
            slurm_queue.cancel(self._job, signal="INT")
            self._kill_at_s = monotonic() + _ORDERLY_S
        self._watch.on_status(f"interrupted: job {self._job} is ending; again cancels it at once")
        self._ask_at_s = 0.0

    @staticmethod
    def _interrupted(received: "Received") -> int | None:
        return 128 + received[0] if received else None

    def _read(self, *, at_end: bool = False) -> None:
        self._out.read(at_end=at_end)
        self._err.read(at_end=at_end)
        self._watch.on_wait()

    def _step_code(self) -> int | None:
        try:
            return int(self._code.read_text())
        except (OSError, ValueError):
            return None

    def _ask(self) -> int | None:
        """Asks Slurm; the exit code where the job has ended and left none."""
        self._ask_at_s = monotonic() + self._ask_after_s
        self._ask_after_s = min(self._ask_after_s * _ASK_MORE_BY, _ASK_AT_MOST_S)
        try:
            status = slurm_queue.status(self._job)
        except slurm_queue.NoAnswerError as error:
            if monotonic() - self._answered_s > _UNHEARD_S:
                raise slurm_queue.NoAnswerError(
                    f"Slurm has not answered for {_UNHEARD_S / 60:g} min: {error.what}",
                    remedy=f"once it does, come back with busbw launch attach {self._folder}",
                ) from error
            self._watch.on_status(f"Slurm does not answer: {error.what}")
            return None
        self._answered_s = monotonic()
        if status is None or status.has_ended:
            return self._without_code(status)
        if self._kill_at_s is None:
            self._say(status)
        if never := never_starts(status):
            slurm_queue.cancel(self._job)
            raise BusbwError(f"job {self._job} could never start and was cancelled: {never[0]}", remedy=never[1])
        return None

    def _say(self, status: JobStatus) -> None:
        if status.waits:
            self._watch.on_status(waiting(self._job, status))
        elif not self._heard.lines:
            self._watch.on_status(f"job {self._job} runs on {status.node_list}, nothing was printed yet")
        elif self._heard.end_code is not None:
            self._watch.on_status(f"process 0 has ended; Slurm is ending job {self._job}")

    def _without_code(self, status: JobStatus | None) -> int:
        """The job has ended; what its files lack by now they will lack for ever."""
        has_run = status is None or bool(status.node_list)
        deadline_s = monotonic() + (_SETTLES_S if has_run else 0)
        while monotonic() < deadline_s:
            self._read()
            if (code := self._step_code()) is not None:
                self._read(at_end=True)
                return judged(code, self._heard)
            select.select([], [], [], _LOOK_S)
        self._read(at_end=True)
        if status is not None and status.node_list and not (self._folder / BATCH_LOG).exists():
            raise BusbwError(
                f"job {self._job} has ended ({status.state}), and {self._folder} shows nothing of {status.node_list}",
                remedy="name a folder that the nodes share with this machine (--folder), or give --by srun",
            )
        down = slurm_queue.nodes_down(status.node_list) if status else ()
        self._heard.say(ended(self._job, status, down))
        self._say_log()
        return self._heard.end_code or Exit.RANK_LOST

    def _say_log(self) -> None:
        """What the batch script itself said: Slurm writes there why it ended a job."""
        with suppress(OSError):
            for line in (self._folder / BATCH_LOG).read_text(errors="replace").splitlines()[-5:]:
                self._heard.say(line, by="")


class Tail:
    """The lines of a file that grows; it need not be there yet."""

    def __init__(self, path: Path, take: Callable[[bytes], None]) -> None:
        self._path = path
        self._take = take
        self._offset = 0
        self._pending = b""

    def read(self, *, at_end: bool = False) -> None:
        """Hands on the whole lines that came since; at the end also half a line."""
        try:
            # Opened anew each time: that is when a network file system looks for what others have written.
            with self._path.open("rb") as stream:
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


class Received(list[int]):
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
def signals() -> Iterator[Received]:
    """Signals are written down, and do nothing else."""
    received = Received()
    before = {number: signal.signal(number, received.take) for number in end_signals.heeded()}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        received.close()
