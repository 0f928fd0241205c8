"""Output to a terminal that has hung up, such as a closed window or a lost ssh connection."""

import os
import select
import stat
from collections.abc import Iterator
from contextlib import contextmanager

_STANDARD_OUTPUTS = (1, 2)
"""Descriptors of stdout and stderr."""


def discard_hung_up_output() -> bool:
    """Replaces stdout and stderr by /dev/null if they are a terminal that has hung up, because each write to it fails.

    Returns True if it replaced one. The command can then end in order, or continue if it ignores SIGHUP.
    """
    hung_up = [descriptor for descriptor in _STANDARD_OUTPUTS if _is_hung_up_terminal(descriptor)]
    for descriptor in hung_up:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, descriptor)
        os.close(null)
    return bool(hung_up)


@contextmanager
def passed_hangup() -> Iterator[None]:
    """Ignores a failed write to a terminal that has hung up. Later output goes to /dev/null."""
    try:
        yield
    except OSError:
        if not discard_hung_up_output():
            raise


def _is_hung_up_terminal(descriptor: int) -> bool:
    """True if poll reports a hangup of a character device. `isatty` is false after a hangup."""
    try:
        is_character_device = stat.S_ISCHR(os.fstat(descriptor).st_mode)
    except OSError:
        return False
    poller = select.poll()
    poller.register(descriptor, select.POLLOUT)
    return is_character_device and any(events & select.POLLHUP for _, events in poller.poll(0))
