"""The time that the processes of a job have to end by themselves after one of them has ended."""

from collections.abc import Callable, Collection
from time import monotonic

from busbw.errors import ExitCode

_REFUSAL_LIMIT_S = 5.0
"""Time for the other processes after one refused to run. The engine gives them the same time to leave the job."""
_REFUSAL_CODES = frozenset({ExitCode.USAGE, ExitCode.ENVIRONMENT})
"""Exit codes of a process that named its own problem. No rank is lost, so the other processes have nothing to diagnose.
Processes that have not joined the job would only wait for the process that refused."""


class GracePeriod:
    """Time limit for the other processes of a job. The launcher terminates processes that still run at its end.

    - The period begins when the first process ends, and begins anew at the first failure.
    - Without a failure, the period begins anew at every update while the reader of the output has paused. Processes may
      wait for that reader.
    - After a process ended with a usage or environment error, the period ends within 5 s.

    Without a failure, the terminated processes count as lost (RANK_LOST). After a failure, they do not.
    """

    def __init__(self, limit_s: float, now_s: Callable[[], float] = monotonic) -> None:
        self._limit_s = limit_s
        self._now_s = now_s
        self._end_s: float | None = None
        self._has_refusal = False
        self.has_failed = False
        """True from the first exit code other than 0 on."""

    def update(self, exit_codes: Collection[int], *, is_paused: bool) -> None:
        """Begins the period, or begins it anew if the class description requires that.

        The caller repeats the call at short intervals from the first end of a process on.

        Args:
            exit_codes: Exit codes of the processes that ended by themselves.
            is_paused: True if the reader of the output has paused.
        """
        is_first_failure = any(exit_codes) and not self.has_failed
        is_first_refusal = not _REFUSAL_CODES.isdisjoint(exit_codes) and not self._has_refusal
        waits_for_reader = is_paused and not self.has_failed
        if self._end_s is None or is_first_failure or waits_for_reader:
            self._end_s = self._now_s() + self._limit_s
        if is_first_refusal:
            self._end_s = min(self._end_s, self._now_s() + _REFUSAL_LIMIT_S)
        self.has_failed = self.has_failed or is_first_failure
        self._has_refusal = self._has_refusal or is_first_refusal

    def postpone(self, seconds: float) -> None:
        """Moves the end of the period by a time in which the processes were stopped."""
        if self._end_s is not None:
            self._end_s += seconds

    @property
    def is_over(self) -> bool:
        """True from the end of the period on."""
        return self._end_s is not None and self._now_s() >= self._end_s

    @property
    def lost_message(self) -> bytes:
        """Message about a lost process. A pause of the reader can make the time longer than the limit ("more than")."""
        text = f"busbw: still running more than {self._limit_s:g} s after another process ended; terminated as lost\n"
        return text.encode()
