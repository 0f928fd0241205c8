"""Signals while a job runs in a cluster: remembered, and looked at where something can be done about them."""

from collections.abc import Iterator
from contextlib import contextmanager

from busbw.termination_signals import handled_by


@contextmanager
def logged_signals() -> Iterator[list[int]]:
    """The numbers of the signals that came so far, in their order."""
    received: list[int] = []
    with handled_by(lambda number, _frame: received.append(number)):
        yield received
