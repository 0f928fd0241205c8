"""Buffered stdout for a slow reader. Signals are handled while output waits."""

import os
import select
import sys
from collections.abc import Callable
from time import monotonic

_MAX_PENDING_BYTES = 2**20
"""Maximum number of buffered bytes. Beyond it `write` waits for the reader."""
_WAIT_S = 0.1
"""Time of one wait for the reader. Signals are handled between two waits."""


class StdoutBuffer:
    """Writes as much as the reader accepts and buffers the rest, so that the writer can react to signals.

    A blocking write to a full pipe would wait in the kernel. Python restarts such a write after a signal, so the writer
    would not regain control.
    """

    def __init__(self, *, now_s: Callable[[], float] = monotonic) -> None:
        self._now_s = now_s
        self._pending = bytearray()
        self._is_closed = False

    @property
    def has_pending(self) -> bool:
        """True if bytes are buffered."""
        return bool(self._pending)

    def write(self, line: bytes) -> None:
        """Adds a line and writes as much as possible.

        Raises:
            BrokenPipeError: The reader closed the pipe.
        """
        self._pending += line
        self.flush()
        while len(self._pending) > _MAX_PENDING_BYTES:
            self._flush(_WAIT_S)
        if self._is_closed:
            raise BrokenPipeError

    def flush(self) -> None:
        """Writes as much as the reader accepts. The next `write` raises if the pipe was closed."""
        self._flush(0)

    def finish(self, *, limit_s: float | None, on_wait: Callable[[], None] = lambda: None) -> int:
        """Waits until all bytes are written, at most `limit_s` (None: no limit). Returns how many remain.

        `on_wait` is called at least ten times a second, and may raise to end the wait.
        """
        end_s = None if limit_s is None else self._now_s() + limit_s
        while self._pending and (end_s is None or self._now_s() < end_s):
            self._flush(_WAIT_S)
            on_wait()
        return len(self._pending)

    def _flush(self, limit_s: float) -> None:
        """Writes until the buffer is empty or the reader accepts nothing for `limit_s`."""
        descriptor = sys.stdout.fileno()
        poller = select.poll()
        poller.register(descriptor, select.POLLOUT)
        try:
            while self._pending and poller.poll(limit_s * 1000):
                # A writable pipe accepts at least PIPE_BUF bytes, so this write does not wait.
                written_count = os.write(descriptor, self._pending[: select.PIPE_BUF])
                del self._pending[:written_count]
        except BlockingIOError:
            pass  # another process that shares the pipe filled it first
        except BrokenPipeError:
            self._is_closed = True
            self._pending.clear()
