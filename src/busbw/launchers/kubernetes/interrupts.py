"""Signals while a job runs in a cluster: remembered, and looked at where something can be done about them."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from busbw.end_signals import heeded


@contextmanager
def remembered() -> Iterator[list[int]]:
    """The numbers of the signals that came so far, in their order."""
    received: list[int] = []
    before = {number: signal.signal(number, lambda number, _frame: received.append(number)) for number in heeded()}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
