"""What many processes say on stderr, for a reader: who said it, and what several say alike said once."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from time import monotonic

from busbw.units import plain

_TOGETHER_S = 0.5
"""Processes that see the same thing say so within this time of each other."""


@dataclass
class _HeldLine:
    first_s: float
    count: int = 0
    processes: set[int] = field(default_factory=set)
    hosts: list[str] = field(default_factory=list)


class ErrorLineMerger:
    """Holds each line for a moment, so that those who say the same are named together: `[1-3,7] text`."""

    def __init__(self, say: Callable[[str], None], *, now_s: Callable[[], float] = monotonic) -> None:
        self._say = say
        self._now_s = now_s
        self._held: dict[tuple[str, int], _HeldLine] = {}

    def take(self, line: bytes, who: int | str | None) -> None:
        """Takes a line, and the process or the host that said it where that is known."""
        text = plain(line.decode(errors="replace").rstrip("\r\n").replace("\t", "    "))
        # Rules and empty lines belong to those around them.
        number = 0 if any(map(str.isalnum, text)) else len(self._held)
        said = self._held.setdefault((text, number), _HeldLine(self._now_s()))
        said.count += 1
        if isinstance(who, int):
            said.processes.add(who)
        elif who is not None and who not in said.hosts:
            said.hosts.append(who)

    def flush(self, *, at_end: bool) -> None:
        """Says what was held long enough, or all of it; in the order in which it came."""
        now_s = self._now_s()
        while self._held:
            key, said = next(iter(self._held.items()))
            if not at_end and now_s - said.first_s < _TOGETHER_S:
                break
            del self._held[key]
            self._say(_labelled(key[0], said))


def _labelled(text: str, said: _HeldLine) -> str:
    who = [*([format_ranges(said.processes)] if said.processes else []), *said.hosts]
    times = f" ({said.count} times)" if said.count > max(1, len(said.processes) + len(said.hosts)) else ""
    return f"[{','.join(who)}] {text}{times}" if who else f"{text}{times}"


def format_ranges(numbers: Iterable[int]) -> str:
    """Numbers as people write them: "0-3,7"."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
