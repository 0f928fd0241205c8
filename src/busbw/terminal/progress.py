"""Live view of a running measurement: the engine's output, and below it a line of progress.

It draws only when a row is done and otherwise once a second, so that it does not take CPU time from the measurement.
"""

import sys
from collections.abc import Sequence
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from time import monotonic
from types import TracebackType

import msgspec
from rich.console import Console
from rich.live import Live
from rich.text import Text

from busbw.logs import PLACEMENT_WORDS
from busbw.records import HeaderRecord, Record, RowRecord, SettingsRecord
from busbw.terminal.stdout_buffer import StdoutBuffer
from busbw.units import size_text

_MIN_SIZES = 3
"""Minimum number of finished sizes for an estimate."""
_LAST_SIZES = 3
"""Number of the latest sizes from which the time per byte is estimated."""
_LARGE_RATIO = 4
"""Sizes larger than the finished ones by this factor need a known time per byte."""
_NOTICEABLE_S = 0.05


def position_in_sweep(settings: SettingsRecord, requested_bytes: int) -> tuple[int, int]:
    """Returns the position of a size in the sweep, from 1, and the number of sizes."""
    sizes = sizes_of(settings)
    return sizes.index(requested_bytes) + 1 if requested_bytes in sizes else len(sizes), len(sizes)


def sizes_of(settings: SettingsRecord) -> Sequence[int]:
    """Returns the sizes of the sweep in its order. Fixed steps give a range, because they can be millions."""
    if settings.sizes_bytes:
        return settings.sizes_bytes
    if settings.step_bytes:
        return range(settings.min_bytes, settings.max_bytes + 1, settings.step_bytes)
    sizes = [settings.min_bytes]
    while settings.step_factor and settings.step_factor > 1 and sizes[-1] * settings.step_factor <= settings.max_bytes:
        sizes.append(sizes[-1] * settings.step_factor)
    return sizes


def seconds_left(settings: SettingsRecord, spent: Sequence[tuple[int, float]]) -> float | None:
    """Estimates the remaining time of this pass over the sizes. None if too little is known.

    The time of a size, with warm-up and check, is modeled as a fixed part plus a part proportional to the bytes. The
    line goes through the fastest size and the one of the last sizes with the steepest slope. While bandwidth still
    grows, the estimate is too long rather than too short.

    An estimate needs three finished sizes. If much larger sizes follow, the finished ones must also show the time per
    byte.

    Args:
        settings: Settings of the run.
        spent: Bytes of each finished size, and seconds since the end of the one before, in order.
    """
    left = sizes_of(settings)[len(spent) :]
    if not left:
        return 0.0
    if len(spent) < _MIN_SIZES:
        return None
    min_time_bytes, min_time_s = min(spent, key=itemgetter(1))
    last = [(size - min_time_bytes, took - min_time_s) for size, took in spent[-_LAST_SIZES:] if size > min_time_bytes]
    bytes_left = (left[0] + left[-1]) * len(left) / 2 if isinstance(left, range) else sum(left)
    is_large = bytes_left / len(left) > _LARGE_RATIO * max(size for size, _ in spent)
    if is_large and max((more_s for _, more_s in last), default=0) < max(min_time_s, _NOTICEABLE_S):
        return None
    per_byte_s = max((more_s / more_bytes for more_bytes, more_s in last), default=0)
    fixed_s = max(min_time_s - per_byte_s * min_time_bytes, 0)
    return fixed_s * len(left) + per_byte_s * bytes_left


def duration_text(seconds: float) -> str:
    """Text of an estimated duration, rounded: "about 40 s", "about 3 min"."""
    if seconds < 1:
        return "about 1 s"
    if seconds < 60:
        return f"about {seconds:.0f} s" if seconds < 10 else f"about {round(seconds, -1):.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"


class Progress:
    """Shows the engine's output lines, and a line of progress from the record that the engine writes.

    If stdout is a terminal, both share it. Otherwise stdout gets only the engine's bytes.
    """

    def __init__(self, record_path: Path) -> None:
        self._record_path = record_path
        self._record_offset = 0
        self._unfinished = b""
        self._settings: SettingsRecord | None = None
        self._done: RowRecord | None = None
        self._configuration: tuple[object, ...] = ()
        self._ends_s: dict[int, float] = {}
        self._shown = ""
        self._status = ""
        self._start_s = monotonic()
        self.stdout = StdoutBuffer()
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
        """Shows a line of the engine's stdout, with its newline. Clears the waiting status."""
        self._status = ""
        if self._shares_stdout:
            text = Text(line.decode(errors="replace").rstrip("\n"))
            self._console.print(text, soft_wrap=True)
            return
        self.stdout.write(line)

    def say(self, text: str) -> None:
        """Shows a message for stderr above the line of progress."""
        self._console.print(Text(text), soft_wrap=True)

    def status(self, text: str) -> None:
        """Sets a waiting status that replaces the line of progress. An empty text clears it."""
        self._status = text

    def refresh(self) -> None:
        """Reads new records and draws the line of progress."""
        self.stdout.flush()
        text = self.text()
        if text != self._shown:
            self._shown = text
            self._live.update(Text(text, style="dim", overflow="ellipsis", no_wrap=True), refresh=True)

    def text(self) -> str:
        """Reads new records and returns the line of progress."""
        self._read_record()
        elapsed = f"{monotonic() - self._start_s:.0f} s"
        if self._status:
            return f"{self._status}, {elapsed}"
        if self._settings is None:
            return f"starting, {elapsed}"
        if self._done is None:
            return f"measuring the first size, {elapsed}"
        row = self._done
        position, total = position_in_sweep(self._settings, row.requested_bytes)
        case = " ".join(filter(None, [row.dtype, row.redop, PLACEMENT_WORDS[row.placement]]))
        return f"done: {size_text(row.requested_bytes)} {case}, size {position} of {total}, {elapsed}{self._left()}"

    def _left(self) -> str:
        """Text of the remaining time of this pass. Empty if there is no estimate.

        A pass covers one configuration, because the record does not state how many types, operators and roots follow.
        """
        assert self._settings is not None
        ends = list(self._ends_s.items())
        spent = [(size, end - begin) for (size, end), (_, begin) in zip(ends[1:], ends, strict=False)]
        if self._settings.run_cycles == 0:
            return ", runs until interrupted"
        # The first size has no start time of its own, because it includes the start-up. The second size stands in.
        seconds = seconds_left(self._settings, [spent[0], *spent]) if spent else None
        if not seconds:
            return ""
        since_s = monotonic() - self._start_s - ends[-1][1]
        return f", {duration_text(max(seconds - since_s, 0))} left of this pass"

    def _read_record(self) -> None:
        try:
            with self._record_path.open("rb") as record:
                record.seek(self._record_offset)
                new = record.read()
        except OSError:
            return  # the engine has not created the file yet
        self._record_offset += len(new)
        *lines, self._unfinished = (self._unfinished + new).split(b"\n")
        for line in lines:
            entry = msgspec.json.decode(line, type=Record)
            if isinstance(entry, HeaderRecord):
                self._settings = entry.settings
            elif isinstance(entry, RowRecord):
                self._note_row(entry)

    def _note_row(self, row: RowRecord) -> None:
        self._done = row
        configuration = (row.cycle, row.dtype, row.redop, row.root)
        if configuration != self._configuration:
            self._configuration, self._ends_s = configuration, {}
        self._ends_s[row.requested_bytes] = monotonic() - self._start_s  # overwritten by the second placement
