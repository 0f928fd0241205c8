"""Live view of a running measurement: the engine's output, and below it a line of progress.

The line is drawn only if its text has changed: after each finished row, and otherwise once a second. So drawing takes
little CPU time from the measurement. A pass covers all sizes of one configuration.
"""

import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
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
"""Minimum number of finished sizes for an estimate of the remaining time."""
_LATEST_SIZES = 3
"""Number of finished sizes, counted from the last, from which the time per byte is estimated."""
_LARGE_RATIO = 4
"""If the mean remaining size exceeds the largest finished one by this factor, the time per byte must be known."""
_NOTICEABLE_S = 0.05
"""The time per byte counts as known only if the time has grown by at least this much, and has at least doubled."""


def position_in_sweep(settings: SettingsRecord, requested_bytes: int) -> tuple[int, int]:
    """Returns the position of a size in the sweep, from 1, and the number of sizes."""
    sizes = sizes_of(settings)
    position = sizes.index(requested_bytes) + 1 if requested_bytes in sizes else len(sizes)
    return position, len(sizes)


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

    The model of the time of a size, with warm-up and check, is a line: a fixed time plus a time per byte. The line goes
    through the fastest size. Its slope is the steepest one from there to any of the last three sizes. So the estimate
    is too long rather than too short while bandwidth still grows.

    An estimate needs three finished sizes. If much larger sizes follow, the time of the last three must also have grown
    noticeably over that of the fastest size.

    Args:
        settings: Settings of the run.
        spent: Bytes of each finished size, and the seconds that it took, in order.
    """
    remaining = sizes_of(settings)[len(spent) :]
    if not remaining:
        return 0.0
    if len(spent) < _MIN_SIZES:
        return None
    fastest_bytes, fastest_s = min(spent, key=itemgetter(1))
    larger = [(size, took_s) for size, took_s in spent[-_LATEST_SIZES:] if size > fastest_bytes]
    if isinstance(remaining, range):  # may have millions of sizes
        remaining_bytes = (remaining[0] + remaining[-1]) * len(remaining) / 2
    else:
        remaining_bytes = sum(remaining)
    are_much_larger = remaining_bytes / len(remaining) > _LARGE_RATIO * max(size for size, _ in spent)
    growth_s = max((took_s - fastest_s for _, took_s in larger), default=0)
    if are_much_larger and growth_s < max(fastest_s, _NOTICEABLE_S):
        return None
    per_byte_s = max(((took_s - fastest_s) / (size - fastest_bytes) for size, took_s in larger), default=0)
    fixed_s = max(fastest_s - per_byte_s * fastest_bytes, 0)
    return fixed_s * len(remaining) + per_byte_s * remaining_bytes


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
        self._incomplete_line = b""  # beginning of a record line that the engine is still writing
        self._settings: SettingsRecord | None = None
        self._last_row: RowRecord | None = None
        self._configuration: tuple[object, ...] = ()
        self._ends_s: dict[int, float] = {}
        """End of each size of the current pass, in seconds since the start of the display."""
        self._shown_text = ""
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

    def print_message(self, text: str) -> None:
        """Shows a message for stderr above the line of progress."""
        self._console.print(Text(text), soft_wrap=True)

    def status(self, text: str) -> None:
        """Sets a waiting status that replaces the line of progress. An empty text clears it."""
        self._status = text

    def refresh(self) -> None:
        """Reads new records and draws the line of progress."""
        self.stdout.flush()
        text = self.text()
        if text != self._shown_text:
            self._shown_text = text
            self._live.update(Text(text, style="dim", overflow="ellipsis", no_wrap=True), refresh=True)

    def text(self) -> str:
        """Reads new records and returns the line of progress."""
        self._read_record()
        elapsed = f"{monotonic() - self._start_s:.0f} s"
        if self._status:
            return f"{self._status}, {elapsed}"
        if self._settings is None:
            return f"starting, {elapsed}"
        if self._last_row is None:
            return f"measuring the first size, {elapsed}"
        row = self._last_row
        position, total = position_in_sweep(self._settings, row.requested_bytes)
        case = " ".join(filter(None, [row.dtype, row.redop, PLACEMENT_WORDS[row.placement]]))
        done = f"done: {size_text(row.requested_bytes)} {case}, size {position} of {total}"
        return f"{done}, {elapsed}{self._remaining_text()}"

    def _remaining_text(self) -> str:
        """Text of the remaining time of this pass. Empty if there is no estimate.

        Further passes are not included: the record does not state how many types, operators and roots follow.
        """
        assert self._settings is not None
        ends = list(self._ends_s.items())
        spent = [(size, end_s - previous_s) for (_, previous_s), (size, end_s) in pairwise(ends)]
        if self._settings.run_cycles == 0:
            return ", runs until interrupted"
        # The first size includes the start-up, so the time of the second size replaces its time.
        seconds = seconds_left(self._settings, [spent[0], *spent]) if spent else None
        if not seconds:
            return ""
        since_last_s = monotonic() - self._start_s - ends[-1][1]
        return f", {duration_text(max(seconds - since_last_s, 0))} left of this pass"

    def _read_record(self) -> None:
        """Reads the lines that the engine has written since the last call."""
        try:
            with self._record_path.open("rb") as record_file:
                record_file.seek(self._record_offset)
                new_bytes = record_file.read()
        except OSError:
            return  # the engine has not created the file yet
        self._record_offset += len(new_bytes)
        *lines, self._incomplete_line = (self._incomplete_line + new_bytes).split(b"\n")
        for line in lines:
            new_record = msgspec.json.decode(line, type=Record)
            if isinstance(new_record, HeaderRecord):
                self._settings = new_record.settings
            elif isinstance(new_record, RowRecord):
                self._add_row(new_record)

    def _add_row(self, row: RowRecord) -> None:
        self._last_row = row
        configuration = (row.cycle, row.dtype, row.redop, row.root)
        if configuration != self._configuration:
            self._configuration, self._ends_s = configuration, {}
        self._ends_s[row.requested_bytes] = monotonic() - self._start_s  # the second placement overwrites the first
