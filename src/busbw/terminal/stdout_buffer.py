"""Bytes on their way to stdout. Its reader may pause for as long as it likes: what comes meanwhile is held for it."""

import os
import select
import sys
from collections.abc import Callable
from time import monotonic

_MAX_HELD_BYTES = 2**20
"""Who goes on writing beyond that waits for the reader."""
_TICK_S = 0.1


class StdoutBuffer:
    """Writes what the reader has room for and holds the rest, so that its caller can heed signals meanwhile.

    A write to a full pipe would wait in the kernel, and Python begins it anew after a signal.
    """

    def __init__(self, *, now_s: Callable[[], float] = monotonic) -> None:
        self._now_s = now_s
        self._held = bytearray()
        self._is_gone = False

    @property
    def has_pending(self) -> bool:
        """Whether something is held."""
        return bool(self._held)

    def write(self, line: bytes) -> None:
        """Takes more.

        Raises:
            BrokenPipeError: Nobody reads any more.
        """
        self._held += line
        self.flush()
        while len(self._held) > _MAX_HELD_BYTES:
            self._flush(_TICK_S)
        if self._is_gone:
            raise BrokenPipeError

    def flush(self) -> None:
        """Writes what the reader has room for; that nobody reads any more is said by the next `write`."""
        self._flush(0)

    def finish(self, *, patience_s: float | None) -> int:
        """Waits for the reader, without a limit where there is none, and returns how many bytes it did not take."""
        end_s = None if patience_s is None else self._now_s() + patience_s
        while self._held and (end_s is None or self._now_s() < end_s):
            self._flush(_TICK_S)
        return len(self._held)

    def _flush(self, limit_s: float) -> None:
        descriptor = sys.stdout.fileno()
        room = select.poll()
        room.register(descriptor, select.POLLOUT)
        try:
            while self._held and room.poll(limit_s * 1000):
                # So much fits into a pipe that has room at all.
                del self._held[: os.write(descriptor, self._held[: select.PIPE_BUF])]
        except BlockingIOError:
            pass  # somebody else, who shares the pipe, was faster
        except BrokenPipeError:
            self._is_gone = True
            self._held.clear()
