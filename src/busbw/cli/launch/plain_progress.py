"""Progress of a launch if stderr is not a terminal.

Prints the table as it grows, and one line for a status of a long wait. A status is the reason why the launch waits.
"""

from collections.abc import Callable
from time import monotonic

from busbw.support.hangup import passed_hangup
from busbw.terminal.stdout_buffer import StdoutBuffer

_MIN_WAIT_S = 2.0
"""Time without output or a printed status after which the current status is printed."""


class PlainProgress:
    """Prints the current status after a wait of 2 s. The wait continues if the status changes.

    A printed status starts a new wait. A status that equals the last printed one is not printed.
    """

    def __init__(self, print_on_stderr: Callable[[str], None], *, now_s: Callable[[], float] = monotonic) -> None:
        self._print_on_stderr = print_on_stderr
        self._now_s = now_s
        self._status = ""
        self._printed_status = ""
        self._wait_start_s = now_s()
        """Time from which the 2 s count: the first status after output, or the last printed status."""
        self.stdout = StdoutBuffer(now_s=now_s)

    def __enter__(self) -> "PlainProgress":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @passed_hangup()
    def print_line(self, line: bytes) -> None:
        """Writes a line of the table, newline included, to stdout."""
        self._status = ""
        self.stdout.write(line)

    @passed_hangup()
    def print_message(self, text: str) -> None:
        """Prints a line on stderr."""
        self._print_on_stderr(text)

    def set_status(self, text: str) -> None:
        """Sets the current status; empty if the launch waits for nothing."""
        if text and not self._status:
            self._wait_start_s = self._now_s()
        self._status = text

    @passed_hangup()
    def refresh(self) -> None:
        """Flushes stdout, and prints the current status if the wait is long. To be called regularly."""
        self.stdout.flush()
        now_s = self._now_s()
        is_new = bool(self._status) and self._status != self._printed_status
        if is_new and now_s - self._wait_start_s >= _MIN_WAIT_S:
            self._printed_status, self._wait_start_s = self._status, now_s
            self._print_on_stderr(f"busbw: {self._status}")
