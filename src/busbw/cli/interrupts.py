"""Interrupts of commands that keep a partial result (`ab`, `fastpath tune`): SIGTERM and SIGHUP act like Ctrl-C."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from types import FrameType

from busbw import termination_signals
from busbw.errors import TerminatedError

_REPEAT_S = 2.0
"""Signals within this time count as one: schedulers signal the group twice, and users press Ctrl-C twice."""


class InterruptGuard:
    """Signal handler that ignores repeated signals, so that they do not cut off the partial result."""

    def __init__(self) -> None:
        self._quiet_until_s = 0.0

    def ignore_repeats(self) -> None:
        """Ignores signals for 2 s. Called after a signal to this process or to a program that it started."""
        self._quiet_until_s = monotonic() + _REPEAT_S

    def handle_signal(self, number: int, _frame: FrameType | None) -> None:
        """Handles a signal: raises KeyboardInterrupt for SIGINT, else TerminatedError."""
        if monotonic() < self._quiet_until_s:
            return
        self.ignore_repeats()
        raise KeyboardInterrupt if number == signal.SIGINT else TerminatedError


@contextmanager
def termination_as_interrupt() -> Iterator[InterruptGuard]:
    """Raises KeyboardInterrupt for SIGINT, and TerminatedError for SIGTERM and for SIGHUP unless it is ignored.

    Python runs signal handlers only in the main thread; in other threads this does nothing.
    """
    guard = InterruptGuard()
    if threading.current_thread() is not threading.main_thread():
        yield guard
        return
    with termination_signals.handled_by(guard.handle_signal):
        yield guard
