"""Rounds of both programs in turns: those that were asked for, then more of the sizes that they left undecided."""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpu_parity_verdict import CANNOT_BE_TOLD, judged
from gpu_programs import RunError, run

COLLECTIVES = "all_reduce,all_gather,reduce_scatter,alltoall,sendrecv,broadcast"
WAYS = {"g": "-g", "t": "-t", "processes": "--processes"}
RUN_TIMEOUT_S = 120.0
_ENOUGH = 0.02
"""A half-width with which most sizes can be decided."""

Times = dict[tuple[int, str], list[float]]


@dataclass(frozen=True)
class Band:
    """Sizes, from and to, and how often each is done: cycles cost less than another start of the program."""

    first: int
    last: int
    flags: tuple[str, ...]


CHECKED = ("-c", "1")
"""From 1 MiB on, the default of both programs. nccl-tests' -c 0 is no lesser -c 1: without it there are two buffers in
place of three, and nobody has written them."""
BANDS = {
    "latency": Band(8, 512 << 10, ("-n", "100", "-w", "20", "-N", "10", "-c", "0")),
    "plateau": Band(1 << 20, 64 << 20, ("-n", "50", "-w", "10", "-N", "5", *CHECKED)),
    "large": Band(1 << 20, 8 << 30, ("-n", "20", "-w", "5", *CHECKED)),
}
TRIAL_BANDS = {
    "latency": Band(8, 64, ("-n", "5", "-N", "3", "-c", "0")),
    "plateau": Band(1 << 20, 2 << 20, ("-n", "2", "-N", "2", *CHECKED)),
    "large": Band(2 << 20, 4 << 20, ("-n", "1", "-N", "2", *CHECKED)),
}


class Budget:
    """Seconds that may be spent, and what did not happen because they were."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self.left_out: list[str] = []

    def has(self, seconds: float) -> bool:
        """Whether so much is left."""
        return time.monotonic() + seconds < self._end

    def allows(self, what: str, expected_s: float = 0.0) -> bool:
        """Whether `what` may still start, if it takes `expected_s`; it is noted where not."""
        if self.has(expected_s):
            return True
        self.left_out.append(what)
        return False


@dataclass(frozen=True)
class Measure:
    """What to compare, and in how many rounds; `sizes`, where it is less than the band, from and to, by `factor`."""

    way: str
    collective: str
    band: str
    rounds: int
    sizes: tuple[int, int] | None = None
    factor: int = 2

    def flags(self, trial: bool) -> list[str]:
        """Of both programs."""
        band = (TRIAL_BANDS if trial else BANDS)[self.band]
        first, last = self.sizes or (band.first, band.last)
        return ["-b", str(first), "-e", str(last), "-f", str(self.factor), *band.flags]


def measures(text: str) -> list[Measure]:
    """What a text such as "g,t:all:latency:5" asks for. Raises ArgumentTypeError, which says what is allowed."""
    words = text.split(":")
    if len(words) != 4 or not words[3].isdigit() or int(words[3]) < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected WAYS:COLLECTIVES:BANDS:ROUNDS, such as g:all:latency:5")
    ways, bands = words[0].split(","), words[2].split(",")
    collectives = (COLLECTIVES if words[1] == "all" else words[1]).split(",")
    for found, allowed in ((ways, WAYS), (collectives, COLLECTIVES.split(",")), (bands, BANDS)):
        for word in found:
            if word not in allowed:
                raise argparse.ArgumentTypeError(f"{text}: {word}: allowed are {', '.join(allowed)}")
    return [Measure(way, name, band, int(words[3])) for way in ways for name in collectives for band in bands]


def turns(wanted: Sequence[Measure]) -> Iterator[tuple[int, Measure, bool]]:
    """A round of everything at a time, and whether nccl-tests begins: in every second run and every second round."""
    for turn in range(max(measure.rounds for measure in wanted)):
        for place, measure in enumerate(wanted):
            if turn < measure.rounds:
                yield turn, measure, (turn + place) % 2 == 1


def requested(size_bytes: int) -> int:
    """The power of two of which a size of the table was rounded down to whole elements of all ranks."""
    return 1 << (size_bytes - 1).bit_length()


class Kept:
    """The rows so far. A round adds to each of its rows the median and the least of each program's cycles."""

    def __init__(self, rows: Sequence[dict[str, Any]] = ()) -> None:
        self._rows = {self._key(row): row for row in rows}

    @staticmethod
    def _key(row: dict[str, Any]) -> tuple[str, str, int, str]:
        return row["way"], row["collective"], row["size_bytes"], row["placement"]

    def add(self, way: str, collective: str, ours: Times, theirs: Times) -> None:
        """A round. A size of 0 is too few bytes for an element of each rank: nothing was done."""
        for size, placement in set(ours) & set(theirs):
            if size == 0:
                continue
            row: dict[str, Any] = {"way": way, "collective": collective, "size_bytes": size, "placement": placement}
            row = self._rows.setdefault(self._key(row), row)
            for side, cycles in (("busbw", ours[size, placement]), ("nccl_tests", theirs[size, placement])):
                row.setdefault(f"{side}_us", []).append(statistics.median(cycles))
                row.setdefault(f"{side}_least_us", []).append(min(cycles))

    def rows(self) -> list[dict[str, Any]]:
        """By way, collective, size and placement, in the order in which ways and collectives came."""
        groups = list(dict.fromkeys(key[:2] for key in self._rows))
        return [self._rows[key] for key in sorted(self._rows, key=lambda key: (groups.index(key[:2]), key[2:]))]

    def undecided(self, measure: Measure, trial: bool) -> tuple[Measure, float] | None:
        """What of `measure` cannot be told yet, in one range of sizes, and how near its sizes are to being told."""
        band = (TRIAL_BANDS if trial else BANDS)[measure.band]
        sizes, nearness = [], 0.0
        for (way, collective, size, _), row in self._rows.items():
            if (way, collective) != (measure.way, measure.collective) or not band.first <= requested(size) <= band.last:
                continue
            found = judged(row)
            if found.by_median and found.verdict() == CANNOT_BE_TOLD:
                sizes.append(requested(size))
                half_width = found.by_median.half_width()
                nearness += 1.0 if math.isinf(half_width) else min(1.0, _ENOUGH / half_width) ** 2
        return (replace(measure, sizes=(min(sizes), max(sizes))), nearness) if sizes else None


class Rounds:
    """Runs both sides of measures until they are done, or the budget is."""

    def __init__(self, sides: dict[str, dict[str, Any]], gpus: int, budget: Budget, kept: Kept, trial: bool) -> None:
        self._sides = sides
        self._gpus = gpus
        self._budget = budget
        self._kept = kept
        self._trial = trial
        self._took_s: dict[tuple[str, str, str], float] = {}
        self._failed: set[tuple[str, str, str]] = set()

    def planned(self, wanted: Sequence[Measure]) -> None:
        """The rounds that were asked for; what does not fit is noted."""
        for turn, measure, theirs_first in turns(wanted):
            what = f"round {turn + 1}, {measure.way}, {measure.collective}, {measure.band}"
            key = self._key(measure)
            if key not in self._failed and self._budget.allows(what, self._expected_s(measure)):
                self._once(measure, theirs_first)

    def more(self, wanted: Sequence[Measure]) -> int:
        """Rounds of what is undecided, those first that will decide most in the least time; how many there were."""
        extra: dict[tuple[str, str, str], int] = {}
        while choices := self._choices(wanted, extra):
            measure = max(choices, key=lambda choice: choice[1])[0]
            extra[self._key(measure)] = extra.get(self._key(measure), 0) + 1
            self._once(measure, sum(extra.values()) % 2 == 1)
        return sum(extra.values())

    def _expected_s(self, measure: Measure) -> float:
        """What a round will take, as the last one did or the longest of its band."""
        alike = [took_s for (_, _, band), took_s in self._took_s.items() if band == measure.band]
        return self._took_s.get(self._key(measure), max(alike, default=0.0))

    def _choices(
        self, wanted: Sequence[Measure], extra: dict[tuple[str, str, str], int]
    ) -> list[tuple[Measure, float]]:
        """What may still be run, and how much that promises."""
        found = []
        for measure in wanted:
            key = self._key(measure)
            took_s = self._took_s.get(key)
            if took_s is None or key in self._failed or not self._budget.has(took_s):
                continue
            if (left := self._kept.undecided(measure, self._trial)) is not None:
                narrowed, nearness = left
                found.append((narrowed, nearness / took_s / (1 + extra.get(key, 0)) ** 2))
        return found

    def _once(self, measure: Measure, theirs_first: bool) -> None:
        """One run of each side. A measure that failed is not tried again."""
        started = time.monotonic()
        found: dict[str, Times] = {}
        sides = self._sides[measure.way]
        for side in sorted(sides, reverse=theirs_first):
            command = sides[side].command(
                measure.collective, [WAYS[measure.way], str(self._gpus)], measure.flags(self._trial)
            )
            try:
                found[side] = run(command, RUN_TIMEOUT_S).times_us
            except RunError as problem:
                self._budget.left_out.append(str(problem))
                self._failed.add(self._key(measure))
                return
        self._kept.add(measure.way, measure.collective, found["busbw"], found["nccl-tests"])
        if measure.sizes is None:
            self._took_s[self._key(measure)] = time.monotonic() - started

    @staticmethod
    def _key(measure: Measure) -> tuple[str, str, str]:
        return measure.way, measure.collective, measure.band
