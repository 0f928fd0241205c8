"""What is seen of a launch where stderr is no terminal: the table, and a line for each thing that is waited for."""

from collections.abc import Callable
from time import monotonic

from busbw.terminal.stdout_buffer import StdoutBuffer

_PATIENCE_S = 2.0


class PlainProgress:
    """Says what is waited for once it has lasted, each sentence once, and at most one in two seconds."""

    def __init__(self, say: Callable[[str], None], *, now_s: Callable[[], float] = monotonic) -> None:
        self._say = say
        self._now_s = now_s
        self._text = ""
        self._said = ""
        self._quiet_since_s = now_s()
        self.stdout = StdoutBuffer(now_s=now_s)

    def __enter__(self) -> "PlainProgress":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def line(self, line: bytes) -> None:
        """Takes a line of the table, newline included, to stdout."""
        self._text = ""
        self.stdout.write(line)

    def say(self, text: str) -> None:
        """Says a line on stderr."""
        self._say(text)

    def status(self, text: str) -> None:
        """Takes what is waited for; nothing when it is empty."""
        if text and not self._text:
            self._quiet_since_s = self._now_s()
        self._text = text

    def refresh(self) -> None:
        """To be called now and then."""
        self.stdout.flush()
        now_s = self._now_s()
        if self._text and self._text != self._said and now_s - self._quiet_since_s >= _PATIENCE_S:
            self._said, self._quiet_since_s = self._text, now_s
            self._say(f"busbw: {self._text}")
