"""Signals that end a command, and their temporary handling."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


def handled_signals() -> tuple[signal.Signals, ...]:
    """Returns SIGINT, SIGTERM and SIGHUP, without SIGHUP if it is ignored, as under nohup.

    The engine follows the same rule.
    """
    is_hangup_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    signals = (signal.SIGINT, signal.SIGTERM)
    return signals if is_hangup_ignored else (*signals, signal.SIGHUP)


@contextmanager
def handled_by(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Installs the handler for all termination signals and restores the previous handlers at the end."""
    previous_handlers = {number: signal.signal(number, handler) for number in handled_signals()}
    try:
        yield
    finally:
        for number, previous_handler in previous_handlers.items():
            signal.signal(number, previous_handler)
