"""The time that the processes of a job have to end by themselves after one of them has ended."""

from collections.abc import Callable
from time import monotonic


class GracePeriod:
    """Begins when a process ends, and again at the first failure. Processes that still run at its end are terminated.

    Without a failure it does not begin while the reader of the output has paused, because processes may wait for that
    reader. If none has failed at its end, the processes that still run are lost.
    """

    def __init__(self, limit_s: float, now_s: Callable[[], float] = monotonic) -> None:
        self._limit_s = limit_s
        self._now_s = now_s
        self._end_s: float | None = None
        self.has_failed = False

    def update(self, *, has_failed: bool, is_paused: bool) -> None:
        """Begins the period if it is due. Called repeatedly from the first end of a process on."""
        if self.has_failed:
            return
        self.has_failed = has_failed
        if has_failed or is_paused or self._end_s is None:
            self._end_s = self._now_s() + self._limit_s

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
