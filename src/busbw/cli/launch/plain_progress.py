"""Progress of a launch if stderr is not a terminal: the table, and one line for each status that lasts."""

from collections.abc import Callable
from time import monotonic

from busbw.terminal.stdout_buffer import StdoutBuffer

_MIN_STATUS_S = 2.0


class PlainProgress:
    """Prints a status once it has lasted 2 s. A repeated status is printed only once."""

    def __init__(self, print_line: Callable[[str], None], *, now_s: Callable[[], float] = monotonic) -> None:
        self._print_line = print_line
        self._now_s = now_s
        self._text = ""
        self._printed = ""
        self._quiet_since_s = now_s()
        self.stdout = StdoutBuffer(now_s=now_s)

    def __enter__(self) -> "PlainProgress":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def line(self, line: bytes) -> None:
        """Writes a line of the table, newline included, to stdout."""
        self._text = ""
        self.stdout.write(line)

    def say(self, text: str) -> None:
        """Prints a line on stderr."""
        self._print_line(text)

    def status(self, text: str) -> None:
        """Sets the current status; empty if the launch waits for nothing."""
        if text and not self._text:
            self._quiet_since_s = self._now_s()
        self._text = text

    def refresh(self) -> None:
        """Flushes stdout and prints a status that is due. The caller calls it regularly."""
        self.stdout.flush()
        now_s = self._now_s()
        if self._text and self._text != self._printed and now_s - self._quiet_since_s >= _MIN_STATUS_S:
            self._printed, self._quiet_since_s = self._text, now_s
            self._print_line(f"busbw: {self._text}")
