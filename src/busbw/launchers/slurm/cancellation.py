"""Ends a batch job that is not wanted any more: its ranks in good order, then all of it, until Slurm has taken it."""

from collections.abc import Callable
from time import monotonic

from busbw.errors import BusbwError
from busbw.launchers.job.job import LaunchCallbacks
from busbw.launchers.slurm import commands

_ORDERLY_S = 10.0
"""How long ranks may take to end after an interrupt, before Slurm ends them."""
_AGAIN_S = 15.0
"""Then the job is cancelled once more, if it has still not ended."""


class JobCancellation:
    """What Slurm is told of it, and is told again while it does not answer."""

    def __init__(self, job: str, watch: LaunchCallbacks, say: Callable[[str], None]) -> None:
        """Gets, as well, what says a sentence that stays, between the lines of a table that goes on."""
        self.is_requested = False
        self.slurm_error = ""
        """Why Slurm did not take it the last time; empty where it did."""
        self._job = job
        self._watch = watch
        self._say = say
        self.runs = False
        """Whether the job is known to run; asking may take long while Slurm is away."""
        self._at_once = False
        self._next_s = 0.0

    def interrupt(self) -> None:
        """The ranks end in good order; where nothing runs yet, or they do not, or this comes again, it is cancelled."""
        self._at_once = self.is_requested
        self.is_requested = True
        self._tell()

    def retry_if_due(self) -> None:
        """On every look."""
        if self.is_requested and monotonic() >= self._next_s:
            self._tell()

    def _tell(self) -> None:
        signal = "" if self._at_once or not self._runs() else "INT"
        self._watch.on_status(f"interrupted: Slurm is told to end job {self._job}")
        self._watch.on_wait()
        before = self.slurm_error
        self.slurm_error = commands.cancel(self._job, signal=signal)
        if self.slurm_error:
            if self.slurm_error != before:
                self._say(f"interrupted, but job {self._job} goes on: {self.slurm_error}; Slurm is told again")
            return
        self._next_s = monotonic() + (_ORDERLY_S if signal else _AGAIN_S)
        self._at_once = True
        self._watch.on_status(f"interrupted: job {self._job} is ending; again cancels it at once")

    def _runs(self) -> bool:
        if self.runs:
            return True
        try:
            status = commands.status(self._job)
        except BusbwError:
            return False
        return status is not None and not status.is_pending
