"""What a person sees while the engine measures: the table filling row by row, and below it what is measured now.

It draws only when a row is done and otherwise once a second: what watches a measurement must not take the processor
that is measured.
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

_SIZES_TO_JUDGE_BY = 3
_LAST_SIZES = 3
_FEW_TIMES = 4
_NOTICEABLE_S = 0.05


def place_in_sweep(settings: SettingsRecord, requested_bytes: int) -> tuple[int, int]:
    """Which size of how many this is, from 1."""
    sizes = sizes_of(settings)
    return sizes.index(requested_bytes) + 1 if requested_bytes in sizes else len(sizes), len(sizes)


def sizes_of(settings: SettingsRecord) -> Sequence[int]:
    """The sizes of the sweep, in its order; small steps make millions, so those are not written out."""
    if settings.sizes_bytes:
        return settings.sizes_bytes
    if settings.step_bytes:
        return range(settings.min_bytes, settings.max_bytes + 1, settings.step_bytes)
    sizes = [settings.min_bytes]
    while settings.step_factor and settings.step_factor > 1 and sizes[-1] * settings.step_factor <= settings.max_bytes:
        sizes.append(sizes[-1] * settings.step_factor)
    return sizes


def seconds_left(settings: SettingsRecord, spent: Sequence[tuple[int, float]]) -> float | None:
    """How long the rest of this pass over the sizes will take, from what those took that are done.

    What a size takes, with its warm-up and its check, is taken to be a fixed part and one that grows with the bytes:
    the line from the size that took least through that of the last ones which lies highest above it. Where bandwidth
    still grows that is too long rather than too short. None while too little is known: until three sizes are done and,
    where much larger ones are to come, until one has shown what bytes cost.

    Args:
        settings: Of the run.
        spent: For each size that is done its bytes and the seconds from the end of the one before, in order.
    """
    left = sizes_of(settings)[len(spent) :]
    if not left:
        return 0.0
    if len(spent) < _SIZES_TO_JUDGE_BY:
        return None
    min_time_bytes, min_time_s = min(spent, key=itemgetter(1))
    last = [(size - min_time_bytes, took - min_time_s) for size, took in spent[-_LAST_SIZES:] if size > min_time_bytes]
    bytes_left = (left[0] + left[-1]) * len(left) / 2 if isinstance(left, range) else sum(left)
    is_large = bytes_left / len(left) > _FEW_TIMES * max(size for size, _ in spent)
    if is_large and max((more_s for _, more_s in last), default=0) < max(min_time_s, _NOTICEABLE_S):
        return None
    per_byte_s = max((more_s / more_bytes for more_bytes, more_s in last), default=0)
    fixed_s = max(min_time_s - per_byte_s * min_time_bytes, 0)
    return fixed_s * len(left) + per_byte_s * bytes_left


def duration_text(seconds: float) -> str:
    """An estimate, no finer than it can be: "about 40 s", "about 3 min"."""
    if seconds < 1:
        return "about 1 s"
    if seconds < 60:
        return f"about {seconds:.0f} s" if seconds < 10 else f"about {round(seconds, -1):.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"


class Progress:
    """Shows the engine's lines as they come, and a line of progress read from the record that it writes.

    Where stdout is a terminal too, both share it; otherwise stdout gets the engine's bytes and nothing else.
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
        """Takes a line of the engine's stdout, newline included; nothing is waited for any more."""
        self._status = ""
        if self._shares_stdout:
            text = Text(line.decode(errors="replace").rstrip("\n"))
            self._console.print(text, soft_wrap=True)
            return
        self.stdout.write(line)

    def say(self, text: str) -> None:
        """Shows a line of stderr above the line of progress."""
        self._console.print(Text(text), soft_wrap=True)

    def status(self, text: str) -> None:
        """Takes what is waited for, to be shown in place of what is measured; nothing when it is empty."""
        self._status = text

    def refresh(self) -> None:
        """Reads what the record says by now and draws."""
        self.stdout.flush()
        text = self.text()
        if text != self._shown:
            self._shown = text
            self._live.update(Text(text, style="dim", overflow="ellipsis", no_wrap=True), refresh=True)

    def text(self) -> str:
        """The line of progress, from what the record says by now."""
        self._read_record()
        elapsed = f"{monotonic() - self._start_s:.0f} s"
        if self._status:
            return f"{self._status}, {elapsed}"
        if self._settings is None:
            return f"starting, {elapsed}"
        if self._done is None:
            return f"measuring the first size, {elapsed}"
        row = self._done
        place, total = place_in_sweep(self._settings, row.requested_bytes)
        what = " ".join(filter(None, [row.dtype, row.redop, PLACEMENT_WORDS[row.placement]]))
        return f"done: {size_text(row.requested_bytes)} {what}, size {place} of {total}, {elapsed}{self._left()}"

    def _left(self) -> str:
        """The time that this pass will still take; nothing where nothing honest can be said.

        A pass is one configuration: how many types, operators and roots are still to come the record does not say.
        """
        assert self._settings is not None
        ends = list(self._ends_s.items())
        spent = [(size, end - begin) for (size, end), (_, begin) in zip(ends[1:], ends, strict=False)]
        if self._settings.run_cycles == 0:
            return ", without end"
        # The first size has no begin of its own: it holds the start. Its place in the sweep is taken by the second.
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
            return  # the engine has not made it yet
        self._record_offset += len(new)
        *lines, self._unfinished = (self._unfinished + new).split(b"\n")
        for line in lines:
            entry = msgspec.json.decode(line, type=Record)
            if isinstance(entry, HeaderRecord):
                self._settings = entry.settings
            elif isinstance(entry, RowRecord):
                self._take(entry)

    def _take(self, row: RowRecord) -> None:
        self._done = row
        configuration = (row.cycle, row.dtype, row.redop, row.root)
        if configuration != self._configuration:
            self._configuration, self._ends_s = configuration, {}
        self._ends_s[row.requested_bytes] = monotonic() - self._start_s  # the later placement's end stands
