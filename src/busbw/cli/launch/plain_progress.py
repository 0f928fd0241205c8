"""Progress of a launch if stderr is not a terminal.

Prints the table as it grows, and a line for each status that lasts. A status is the reason of a wait.
"""

from collections.abc import Callable
from time import monotonic

from busbw.terminal.stdout_buffer import StdoutBuffer

_MIN_STATUS_S = 2.0
"""Duration after which a status is printed."""


class PlainProgress:
    """Prints a status once it has lasted 2 s. A repeated status is printed only once."""

    def __init__(self, print_line: Callable[[str], None], *, now_s: Callable[[], float] = monotonic) -> None:
        self._print_line = print_line
        self._now_s = now_s
        self._status = ""
        self._printed_status = ""
        self._status_since_s = now_s()
        """Start of the current wait: time of the last printed status, or of the first status after output."""
        self.stdout = StdoutBuffer(now_s=now_s)

    def __enter__(self) -> "PlainProgress":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def line(self, line: bytes) -> None:
        """Writes a line of the table, newline included, to stdout."""
        self._status = ""
        self.stdout.write(line)

    def print_message(self, text: str) -> None:
        """Prints a line on stderr."""
        self._print_line(text)

    def status(self, text: str) -> None:
        """Sets the current status; empty if the launch waits for nothing."""
        if text and not self._status:
            self._status_since_s = self._now_s()
        self._status = text

    def refresh(self) -> None:
        """Flushes stdout, and prints a status that has lasted. To be called regularly."""
        self.stdout.flush()
        now_s = self._now_s()
        is_new = bool(self._status) and self._status != self._printed_status
        if is_new and now_s - self._status_since_s >= _MIN_STATUS_S:
            self._printed_status, self._status_since_s = self._status, now_s
            self._print_line(f"busbw: {self._status}")
