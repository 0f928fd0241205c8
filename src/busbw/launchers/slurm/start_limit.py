"""Cancels a job that cannot start. On Kubernetes, `wait_explainer` ends the wait for such a job."""

from collections.abc import Callable
from time import monotonic

from busbw.errors import BusbwError
from busbw.launchers.slurm import commands
from busbw.launchers.slurm.status import JobStatus, find_start_problem

DEFAULT_PENDING_LIMIT_S = 300
"""Time limit of a problem that only a change of the partition resolves, such as the return of a drained node."""


class StartLimit:
    """Tracks how long a start problem of one job lasts."""

    def __init__(self, pending_limit_s: int, *, now_s: Callable[[], float] = monotonic) -> None:
        """Creates a limit. `pending_limit_s` is 0 for no limit."""
        self._pending_limit_s = pending_limit_s
        self._now_s = now_s
        self._problem_since_s: float | None = None

    def check(self, job: str, status: JobStatus) -> None:
        """Cancels a job with a problem that is certain or has lasted too long.

        Raises:
            BusbwError: The job was canceled. Nothing is raised while Slurm does not accept the cancellation.
        """
        problem = find_start_problem(status)
        if problem is None:
            self._problem_since_s = None
            return
        if self._problem_since_s is None:
            self._problem_since_s = self._now_s()
        has_limit = self._pending_limit_s > 0
        is_limit_over = has_limit and self._now_s() - self._problem_since_s >= self._pending_limit_s
        if not problem.is_certain and not is_limit_over:
            return
        cancel_error = commands.cancel(job)
        if cancel_error:
            return
        if problem.is_certain:
            raise BusbwError(f"job {job} can never start and was canceled: {problem.text}", remedy=problem.remedy)
        raise BusbwError(
            f"job {job} could not start for {self._pending_limit_s} s and was canceled: {problem.text}",
            remedy=f"{problem.remedy}; or wait longer with --pending-timeout",
        )
