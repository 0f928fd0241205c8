"""For commands that say what they have found so far when Ctrl-C comes: termination and hang-up end them likewise."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from busbw import end_signals
from busbw.errors import EndedError


@contextmanager
def ended_like_interrupted() -> Iterator[None]:
    """While this lasts SIGTERM, and SIGHUP where it is not ignored, raise EndedError.

    Once: who ends a group of processes often sends two at the same moment, and the second one must not cut off what the
    first one brings about. Python has handlers in the main thread alone; in others nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    has_come = False

    def end(number: int, _frame: FrameType | None) -> None:
        nonlocal has_come
        if not has_come:
            has_come = True
            raise EndedError(number)

    before = {number: signal.signal(number, end) for number in end_signals.heeded() if number != signal.SIGINT}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
