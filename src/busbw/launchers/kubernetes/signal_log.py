"""Records signals while a job runs in a cluster. The follower reads them between its calls of kubectl."""

from collections.abc import Iterator
from contextlib import contextmanager

from busbw.termination_signals import handled_by


@contextmanager
def logged_signals() -> Iterator[list[int]]:
    """Yields the list of signal numbers received so far, in order."""
    received: list[int] = []
    with handled_by(lambda number, _frame: received.append(number)):
        yield received
