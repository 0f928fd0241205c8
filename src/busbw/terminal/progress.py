"""Live view of a running measurement: the engine's output, and below it a line of progress.

The line is drawn only if its text has changed: after each finished row, and otherwise once a second. So drawing takes
little CPU time from the measurement.
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

from busbw.logs.log import PLACEMENT_WORDS
from busbw.records import HeaderRecord, Record, RowRecord
from busbw.support.hangup import passed_hangup
from busbw.terminal.stdout_buffer import StdoutBuffer
from busbw.units import size_text

_MIN_ROWS = 3
"""Minimum number of finished rows for an estimate of the remaining time."""
_SLOPE_ROWS = 3
"""Number of finished rows, the largest ones, from which the time per byte is estimated."""
_RECENT_ROWS = 256
"""Number of finished rows, the latest ones, from which the remaining time is estimated, so that drawing stays cheap."""
_LARGE_RATIO = 4
"""Above this ratio of the mean remaining size to the largest finished size, an estimate needs the time per byte."""
_NOTICEABLE_S = 0.05
"""The time per byte is known if a row takes this much longer than the fastest row, and at least twice as long."""


def seconds_left(rows: int, size_sum: float, spent: Sequence[tuple[int, float]]) -> float | None:
    """Estimates the time of the remaining rows. None if too little is known.

    The time of a row includes warm-up and check. The model of this time is a line: a fixed time plus a time per byte.
    The line goes through the fastest row, and through one of the three largest rows: the one that makes it steepest. So
    the estimate is too long rather than too short while bandwidth still grows.

    An estimate needs three finished rows. If much larger rows follow, one of the three largest rows must also take
    noticeably longer than the fastest row.

    Args:
        rows: Number of remaining rows.
        size_sum: Sum of the sizes of the remaining rows in bytes.
        spent: Bytes and seconds of each finished row, in order.
    """
    if rows <= 0:
        return 0.0
    if len(spent) < _MIN_ROWS:
        return None
    fastest_bytes, fastest_s = min(spent, key=itemgetter(1))
    largest = sorted(spent, key=itemgetter(0))[-_SLOPE_ROWS:]
    larger = [(size, took_s) for size, took_s in largest if size > fastest_bytes]
    are_much_larger = size_sum / rows > _LARGE_RATIO * largest[-1][0]
    growth_s = max((took_s - fastest_s for _, took_s in larger), default=0)
    if are_much_larger and growth_s < max(fastest_s, _NOTICEABLE_S):
        return None
    per_byte_s = max(((took_s - fastest_s) / (size - fastest_bytes) for size, took_s in larger), default=0)
    fixed_s = max(fastest_s - per_byte_s * fastest_bytes, 0)
    return fixed_s * rows + per_byte_s * size_sum


def progress_line(text: str, *, is_reason: bool) -> Text:
    """Returns the text to draw. The reason of a wait is folded into several lines; other texts are cut to one line."""
    return Text(text, style="dim", overflow="fold" if is_reason else "ellipsis", no_wrap=not is_reason)


def duration_text(seconds: float) -> str:
    """Text of an estimated duration, rounded: "about 40 s", "about 3 min"."""
    if seconds < 1:
        return "about 1 s"
    if seconds < 10:
        return f"about {seconds:.0f} s"
    if seconds < 60:
        return f"about {round(seconds, -1):.0f} s"
    if seconds < 90 * 60:
        return f"about {seconds / 60:.0f} min"
    return f"about {seconds / 3600:.1f} h"


class Progress:
    """Shows the engine's output lines, and a line of progress from the record that the engine writes.

    If stdout is a terminal, it shows the output and the line. Otherwise stdout gets only the engine's bytes, and stderr
    the line.
    """

    def __init__(self, record_path: Path) -> None:
        self._record_path = record_path
        self._record_offset = 0
        self._incomplete_line = b""  # beginning of a record line that the engine is still writing
        self._header: HeaderRecord | None = None
        self._last_row: RowRecord | None = None
        self._ends: dict[tuple[object, ...], tuple[int, float]] = {}
        """Size of each finished row, and its end in seconds since the start of the display."""
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

    @passed_hangup()
    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        with suppress(BrokenPipeError):
            self._live.stop()

    @passed_hangup()
    def print_line(self, line: bytes) -> None:
        """Shows a line of the engine's stdout, with its newline. Clears the status."""
        self._status = ""
        if self._shares_stdout:
            text = Text(line.decode(errors="replace").rstrip("\n"))
            self._console.print(text, soft_wrap=True)
            return
        self.stdout.write(line)

    @passed_hangup()
    def print_message(self, text: str) -> None:
        """Shows a message for stderr above the line of progress."""
        self._console.print(Text(text), soft_wrap=True)

    def set_status(self, text: str) -> None:
        """Sets a status, the reason of a wait, that replaces the line of progress. An empty text clears it."""
        self._status = text

    @passed_hangup()
    def refresh(self) -> None:
        """Reads new records and draws the line of progress."""
        self.stdout.flush()
        text = self.text()
        if text != self._shown_text:
            self._shown_text = text
            self._live.update(progress_line(text, is_reason=bool(self._status)), refresh=True)

    def text(self) -> str:
        """Reads new records and returns the line of progress."""
        self._read_record()
        elapsed = f"{monotonic() - self._start_s:.0f} s"
        if self._status:
            return f"{self._status}, {elapsed}"
        if self._header is None:
            return f"starting, {elapsed}"
        if self._last_row is None:
            return f"measuring the first row, {elapsed}"
        row = self._last_row
        total_text = f" of {self._header.rows_planned}" if self._header.rows_planned else ""
        case = " ".join(filter(None, [row.dtype, row.redop, PLACEMENT_WORDS[row.placement]]))
        done = f"done: {size_text(row.requested_bytes)} {case}, row {len(self._ends)}{total_text}"
        return f"{done}, {elapsed}{self._remaining_text(self._header)}"

    def _remaining_text(self, header: HeaderRecord) -> str:
        """Text of the remaining time. Empty if there is no estimate."""
        if header.settings.run_cycles == 0:
            return ", runs until interrupted"
        ends = list(self._ends.values())
        spent = [(size, end_s - previous_s) for (_, previous_s), (size, end_s) in pairwise(ends[-_RECENT_ROWS:])]
        if not spent or header.rows_planned is None or header.bytes_planned is None:
            return ""
        rows, size_sum = header.rows_planned - len(ends), header.bytes_planned - sum(size for size, _ in ends)
        # `pairwise` gives no time for the first row, which would include the start-up. The second row counts twice.
        remaining_s = seconds_left(rows, size_sum, [spent[0], *spent])
        if remaining_s is None or remaining_s == 0:
            return ""
        since_last_s = monotonic() - self._start_s - ends[-1][1]
        return f", {duration_text(max(remaining_s - since_last_s, 0))} left"

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
                self._header = new_record
            elif isinstance(new_record, RowRecord):
                self._add_row(new_record)

    def _add_row(self, row: RowRecord) -> None:
        self._last_row = row
        # The records of both placements and of all groups are one row, which ends with the last of them.
        key = (row.cycle, row.dtype, row.redop, row.root, row.requested_bytes)
        self._ends[key] = (row.requested_bytes, monotonic() - self._start_s)
