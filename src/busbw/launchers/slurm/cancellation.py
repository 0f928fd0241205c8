"""Cancels a batch job after an interrupt: first interrupts its ranks, then cancels it, with retries."""

from time import monotonic

from busbw.errors import BusbwError
from busbw.launchers.job.job import LaunchCallbacks
from busbw.launchers.slurm import commands

_ORDERLY_END_LIMIT_S = 10.0
"""How long ranks may take to end after an interrupt, before the job is canceled."""
_RETRY_S = 15.0
"""Interval between two cancellations of a job that does not end."""


class JobCancellation:
    """Cancellation of one job. Failed requests are repeated while Slurm does not answer."""

    def __init__(self, job: str, callbacks: LaunchCallbacks) -> None:
        self.is_requested = False
        self.is_running = False
        """True if the caller knows that the job runs. Otherwise a request queries Slurm first, which may take long."""
        self.slurm_error = ""
        """Error of the last request. Empty if it succeeded."""
        self._job = job
        self._callbacks = callbacks
        self._is_immediate = False
        """True if the next request cancels the job instead of interrupting its ranks."""
        self._retry_at_s = 0.0
        """Time of the next request. Only a successful request moves it."""

    def interrupt(self) -> None:
        """Interrupts the ranks. On a second call, or if no rank runs yet, cancels the job."""
        self._is_immediate = self.is_requested
        self.is_requested = True
        self._send_request()

    def retry_if_due(self) -> None:
        """Repeats a failed request, or cancels the job if it still runs after an accepted one. Call at every poll."""
        if self.is_requested and monotonic() >= self._retry_at_s:
            self._send_request()

    def _send_request(self) -> None:
        """Asks Slurm to interrupt the ranks, or to cancel the job."""
        interrupts_ranks = not self._is_immediate and self._check_running()
        signal_name = "INT" if interrupts_ranks else ""
        self._callbacks.on_status(f"interrupted: asking Slurm to end job {self._job}")
        self._callbacks.on_wait()
        previous_error = self.slurm_error
        self.slurm_error = commands.cancel(self._job, signal=signal_name)
        if self.slurm_error:
            if self.slurm_error != previous_error:
                self._callbacks.print_error(f"interrupted, but job {self._job} continues: {self.slurm_error}; retrying")
            return
        self._retry_at_s = monotonic() + (_ORDERLY_END_LIMIT_S if signal_name else _RETRY_S)
        self._is_immediate = True
        self._callbacks.on_status(f"interrupted: job {self._job} is ending; Ctrl-C again cancels it at once")

    def _check_running(self) -> bool:
        """Returns true if the job has started. Returns false also if Slurm does not answer."""
        if self.is_running:
            return True
        try:
            status = commands.status(self._job)
        except BusbwError:
            return False
        return status is not None and not status.is_pending
