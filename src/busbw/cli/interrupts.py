"""For commands that say what they have found so far when Ctrl-C comes: termination and hang-up end them likewise."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from types import FrameType

from busbw import termination_signals
from busbw.errors import TerminatedError

_REPEAT_S = 2.0
"""Who ends a group of processes often sends two signals at the same moment, and a person presses Ctrl-C twice."""


class InterruptGuard:
    """What the first signal brings about, a repeat does not cut off."""

    def __init__(self) -> None:
        self._quiet_until_s = 0.0

    def ignore_repeats(self) -> None:
        """A signal has come, here or to a program that was started: repeats are not heeded for a while."""
        self._quiet_until_s = monotonic() + _REPEAT_S

    def handle_signal(self, number: int, _frame: FrameType | None) -> None:
        """As a handler of signals."""
        if monotonic() < self._quiet_until_s:
            return
        self.ignore_repeats()
        raise KeyboardInterrupt if number == signal.SIGINT else TerminatedError


@contextmanager
def termination_as_interrupt() -> Iterator[InterruptGuard]:
    """While this lasts SIGTERM, and SIGHUP where it is not ignored, raise EndedError, as SIGINT does KeyboardInterrupt.

    Python has handlers in the main thread alone; in others nothing changes.
    """
    ending = InterruptGuard()
    if threading.current_thread() is not threading.main_thread():
        yield ending
        return
    with termination_signals.handled_by(ending.handle_signal):
        yield ending
