"""What a person sees while the engine measures: the table filling row by row, and below it what is measured now.

It draws only when a row is done and otherwise once a second: what watches a measurement must not take the processor
that is measured.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic
from types import TracebackType

import msgspec
from rich.console import Console
from rich.live import Live
from rich.text import Text

from busbw.records import Header, Record, Row, Settings
from busbw.units import size_text


def place_in_sweep(settings: Settings, requested_bytes: int) -> tuple[int, int]:
    """Which size of how many this is, from 1."""
    if settings.step_bytes and not settings.sizes_bytes:
        steps = (settings.max_bytes - settings.min_bytes) // settings.step_bytes
        return (requested_bytes - settings.min_bytes) // settings.step_bytes + 1, steps + 1
    sizes = settings.sizes_bytes or [settings.min_bytes]
    while not settings.sizes_bytes and settings.step_factor and sizes[-1] * settings.step_factor <= settings.max_bytes:
        sizes.append(sizes[-1] * settings.step_factor)
    return sizes.index(requested_bytes) + 1 if requested_bytes in sizes else len(sizes), len(sizes)


class Progress:
    """Shows the engine's lines as they come, and a line of progress read from the record that it writes.

    Where stdout is a terminal too, both share it; otherwise stdout gets the engine's bytes and nothing else.
    """

    def __init__(self, record_path: Path) -> None:
        self._record_path = record_path
        self._record_offset = 0
        self._unfinished = b""
        self._settings: Settings | None = None
        self._done: Row | None = None
        self._shown = ""
        self._start_s = monotonic()
        self._shares_stdout = sys.stdout.isatty()
        self._console = Console(file=sys.stdout if self._shares_stdout else sys.stderr, highlight=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=True, redirect_stdout=False)

    def __enter__(self) -> "Progress":
        self._live.start()
        self.refresh()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        with suppress(BrokenPipeError):
            self._live.stop()

    def line(self, line: bytes) -> None:
        """Takes a line of the engine's stdout, newline included."""
        if self._shares_stdout:
            text = Text(line.decode(errors="replace").rstrip("\n"))
            self._console.print(text, soft_wrap=True)
            return
        rest = memoryview(line)
        while rest:
            rest = rest[os.write(sys.stdout.fileno(), rest) :]

    def refresh(self) -> None:
        """Reads what the record says by now and draws."""
        self._read_record()
        text = self._text()
        if text != self._shown:
            self._shown = text
            self._live.update(Text(text, style="dim", overflow="ellipsis", no_wrap=True), refresh=True)

    def _text(self) -> str:
        elapsed = f"{monotonic() - self._start_s:.0f} s"
        if self._settings is None:
            return f"starting, {elapsed}"
        if self._done is None:
            return f"measuring the first size, {elapsed}"
        row = self._done
        place, total = place_in_sweep(self._settings, row.requested_bytes)
        what = " ".join(filter(None, [row.dtype, row.redop, row.placement.replace("_", " ")]))
        return f"done: {size_text(row.requested_bytes)} {what}, size {place} of {total}, {elapsed}"

    def _read_record(self) -> None:
        try:
            with self._record_path.open("rb") as record:
                record.seek(self._record_offset)
                new = record.read()
        except OSError:
            return  # the engine has not made it yet
        self._record_offset += len(new)
        *lines, self._unfinished = (self._unfinished + new).split(b"\n")
        for line in lines:
            entry = msgspec.json.decode(line, type=Record)
            if isinstance(entry, Header):
                self._settings = entry.settings
            elif isinstance(entry, Row):
                self._done = entry
