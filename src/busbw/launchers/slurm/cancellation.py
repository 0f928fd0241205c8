"""Ends a batch job that is not wanted any more: its ranks in good order, then all of it, until Slurm has taken it."""

from collections.abc import Callable
from time import monotonic

from busbw.errors import BusbwError
from busbw.launchers.job.job import Watch
from busbw.launchers.slurm import commands

_ORDERLY_S = 10.0
"""How long ranks may take to end after an interrupt, before Slurm ends them."""
_AGAIN_S = 15.0
"""Then the job is cancelled once more, if it has still not ended."""


class Ending:
    """What Slurm is told of it, and is told again while it does not answer."""

    def __init__(self, job: str, watch: Watch, say: Callable[[str], None]) -> None:
        """Gets, as well, what says a sentence that stays, between the lines of a table that goes on."""
        self.is_wanted = False
        self.why_not = ""
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
        self._at_once = self.is_wanted
        self.is_wanted = True
        self._tell()

    def go_on(self) -> None:
        """On every look."""
        if self.is_wanted and monotonic() >= self._next_s:
            self._tell()

    def _tell(self) -> None:
        signal = "" if self._at_once or not self._runs() else "INT"
        self._watch.on_status(f"interrupted: Slurm is told to end job {self._job}")
        self._watch.on_wait()
        before = self.why_not
        self.why_not = commands.cancel(self._job, signal=signal)
        if self.why_not:
            if self.why_not != before:
                self._say(f"interrupted, but job {self._job} goes on: {self.why_not}; Slurm is told again")
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
        return status is not None and not status.waits
