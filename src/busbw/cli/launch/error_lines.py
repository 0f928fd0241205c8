"""Merges equal stderr lines of many processes and labels each line with its processes or hosts."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from time import monotonic

from busbw.units import plain

_MERGE_WINDOW_S = 0.5
"""Equal lines within this time are merged: processes report the same event at about the same time."""


@dataclass
class _HeldLine:
    """Equal lines that were received within the merge window."""

    first_s: float
    """Time at which the first of the lines was received."""
    count: int = 0
    processes: set[int] = field(default_factory=set)
    hosts: list[str] = field(default_factory=list)


class ErrorLineMerger:
    """Holds each line for a moment and prints equal lines once, labeled with their processes: `[1-3,7] text`."""

    def __init__(self, print_line: Callable[[str], None], *, now_s: Callable[[], float] = monotonic) -> None:
        self._print_line = print_line
        self._now_s = now_s
        self._held: dict[tuple[str, int], _HeldLine] = {}
        """Held lines in the order of arrival, by text and number: 0 for a line that is merged, else a unique number."""
        self._unique_numbers = count(1)

    def add_line(self, line: bytes, source: int | str | None) -> None:
        """Adds a line and its process number or host name; None if the source is unknown."""
        text = plain(line.decode(errors="replace").rstrip("\r\n").replace("\t", "    "))
        # A separator or an empty line belongs to the lines around it, so it is never merged.
        is_mergeable = any(map(str.isalnum, text))
        number = 0 if is_mergeable else next(self._unique_numbers)
        held = self._held.setdefault((text, number), _HeldLine(self._now_s()))
        held.count += 1
        if isinstance(source, int):
            held.processes.add(source)
        elif source is not None and source not in held.hosts:
            held.hosts.append(source)

    def flush(self, *, at_end: bool) -> None:
        """Prints the lines that were held long enough, or all lines, in the order of arrival."""
        now_s = self._now_s()
        while self._held:
            key, held = next(iter(self._held.items()))
            if not at_end and now_s - held.first_s < _MERGE_WINDOW_S:
                break
            del self._held[key]
            text, _ = key
            self._print_line(_labeled_text(text, held))


def _labeled_text(text: str, held: _HeldLine) -> str:
    """Returns the line with its sources before it. The count follows if a source has printed the line repeatedly."""
    sources = list(held.hosts)
    if held.processes:
        sources.insert(0, format_ranges(held.processes))
    label = f"[{','.join(sources)}] " if sources else ""
    source_count = max(1, len(held.processes) + len(held.hosts))
    repeats = f" ({held.count} times)" if held.count > source_count else ""
    return f"{label}{text}{repeats}"


def format_ranges(numbers: Iterable[int]) -> str:
    """Formats numbers as ranges: "0-3,7"."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
