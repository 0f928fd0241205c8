"""Interrupts of commands that start programs or keep a partial result."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from types import FrameType

from busbw.errors import TerminatedError, interrupt_exit_code
from busbw.support import termination_signals

_REPEAT_S = 2.0
"""Signals within this time count as one: schedulers signal the group twice, and users press Ctrl-C twice."""


class _InterruptCheck:
    """Raises an interrupt when it is called, not when the signal arrives."""

    def __init__(self) -> None:
        self._interrupt: KeyboardInterrupt | None = None
        self._first_s = 0.0
        self._was_raised = False

    def __call__(self) -> None:
        if self._interrupt:
            self._was_raised = True
            raise self._interrupt

    def raise_unseen(self) -> None:
        """Raises an interrupt that no call has raised."""
        if not self._was_raised:
            self()

    def on_signal(self, number: int, _frame: FrameType | None) -> None:
        """Signal handler: notes the first signal. A late second one ends this process, which may be stuck."""
        if self._interrupt is None:
            self._interrupt = KeyboardInterrupt() if number == signal.SIGINT else TerminatedError()
            self._first_s = monotonic()
        elif monotonic() > self._first_s + _REPEAT_S:
            os._exit(interrupt_exit_code(self._interrupt))


@contextmanager
def checked_interrupts() -> Iterator[Callable[[], None]]:
    """Yields a function that raises an interrupt if a signal has arrived.

    The function raises KeyboardInterrupt for SIGINT, and TerminatedError for SIGTERM and SIGHUP. An ignored SIGHUP
    stays ignored. If a signal arrives after the last call of the function, the interrupt is raised at the end of the
    block. If the block ends with an exception, only that exception is raised. The function does nothing in other
    threads, because Python runs signal handlers only in the main thread.
    """
    check = _InterruptCheck()
    if threading.current_thread() is not threading.main_thread():
        yield check
        return
    with termination_signals.handled_by(check.on_signal):
        yield check
    check.raise_unseen()
