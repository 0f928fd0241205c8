"""Which signals ask a command to end."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


def handled_signals() -> tuple[signal.Signals, ...]:
    """Interrupt, termination and hang-up; not the hang-up where it is ignored: under nohup a command goes on.

    The engine decides likewise.
    """
    always = (signal.SIGINT, signal.SIGTERM)
    return always if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (*always, signal.SIGHUP)


@contextmanager
def handled_by(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """While this lasts they are the handler's, and then whose they were before."""
    before = {number: signal.signal(number, handler) for number in handled_signals()}
    try:
        yield
    finally:
        for number, own in before.items():
            signal.signal(number, own)
