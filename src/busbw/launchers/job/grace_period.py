"""The time that the processes of a job have to end by themselves after one of them has ended."""

from collections.abc import Callable, Collection
from time import monotonic

from busbw.errors import ExitCode

_REFUSAL_LIMIT_S = 5.0
"""Time for the other processes after one refused to run. The engine's own limit for them to leave is as long."""
_REFUSAL_CODES = frozenset({ExitCode.USAGE, ExitCode.ENVIRONMENT})
"""Exit codes of a process that named its problem. There is no lost rank that the others could diagnose, and those that
have not joined the job would only wait for it."""


class GracePeriod:
    """Begins when a process ends, and again at the first failure. Processes that still run at its end are terminated.

    It ends at most 5 s after a process ended with a usage or environment error.

    Without a failure it does not begin while the reader of the output has paused, because processes may wait for that
    reader. If none has failed at its end, the processes that still run are lost.
    """

    def __init__(self, limit_s: float, now_s: Callable[[], float] = monotonic) -> None:
        self._limit_s = limit_s
        self._now_s = now_s
        self._end_s: float | None = None
        self._has_refusal = False
        self.has_failed = False

    def update(self, exit_codes: Collection[int], *, is_paused: bool) -> None:
        """Begins the period if it is due. Called repeatedly from the first end of a process on.

        Args:
            exit_codes: Exit codes of the processes that ended by themselves.
            is_paused: True if the reader of the output has paused.
        """
        has_failed = any(exit_codes)
        if not self.has_failed and (has_failed or is_paused or self._end_s is None):
            self._end_s = self._now_s() + self._limit_s
        self.has_failed = self.has_failed or has_failed
        if not self._has_refusal and self._end_s is not None and not _REFUSAL_CODES.isdisjoint(exit_codes):
            self._has_refusal = True
            self._end_s = min(self._end_s, self._now_s() + _REFUSAL_LIMIT_S)

    def postpone(self, seconds: float) -> None:
        """Moves the end by a time that the processes could not use."""
        if self._end_s is not None:
            self._end_s += seconds

    @property
    def is_over(self) -> bool:
        """True from the end of the period on."""
        return self._end_s is not None and self._now_s() >= self._end_s

    @property
    def lost_message(self) -> bytes:
        """Message about a process that is lost."""
        text = f"busbw: still running {self._limit_s:g} s after another process ended, and terminated as lost\n"
        return text.encode()
