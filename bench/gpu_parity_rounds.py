"""Rounds of both programs, alternating: first the planned rounds, then more rounds of the undecided sizes."""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpu_parity_verdict import CANNOT_BE_TOLD, evaluate_row
from gpu_programs import RunError, run

COLLECTIVES = "all_reduce,all_gather,reduce_scatter,alltoall,sendrecv,broadcast"
WAYS = {"g": "-g", "t": "-t", "processes": "--processes"}
RUN_TIMEOUT_S = 120.0
_DECIDING_HALF_WIDTH = 0.02
"""Half-width of an interval that decides most sizes."""

Times = dict[tuple[int, str], list[float]]


@dataclass(frozen=True)
class Band:
    """First and last size, and the flags for iterations and cycles. A cycle costs less than another start."""

    first: int
    last: int
    flags: tuple[str, ...]


CHECKED = ("-c", "1")
"""Flags from 1 MiB on, the default of both programs. With -c 0 nccl-tests would use two buffers instead of three, and
leave them unwritten."""
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
    """Limited time in seconds, and a list of the parts that were skipped for lack of it."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self.left_out: list[str] = []

    def has(self, seconds: float) -> bool:
        """Returns True if so many seconds are left."""
        return time.monotonic() + seconds < self._end

    def allows(self, activity: str, expected_s: float = 0.0) -> bool:
        """Returns True if `activity`, which takes `expected_s`, may start. Otherwise notes it as skipped."""
        if self.has(expected_s):
            return True
        self.left_out.append(activity)
        return False


@dataclass(frozen=True)
class Measure:
    """One comparison and its number of rounds. `sizes` limits the band to a first and a last size."""

    way: str
    collective: str
    band: str
    rounds: int
    sizes: tuple[int, int] | None = None
    factor: int = 2

    def flags(self, trial: bool) -> list[str]:
        """Returns the flags for both programs."""
        band = (TRIAL_BANDS if trial else BANDS)[self.band]
        first, last = self.sizes or (band.first, band.last)
        return ["-b", str(first), "-e", str(last), "-f", str(self.factor), *band.flags]


def measures(text: str) -> list[Measure]:
    """Parses a text such as "g,t:all:latency:5". Raises ArgumentTypeError with the allowed words."""
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
    """Yields all comparisons round by round. nccl-tests runs first in every second run and every second round."""
    for turn in range(max(measure.rounds for measure in wanted)):
        for position, measure in enumerate(wanted):
            if turn < measure.rounds:
                yield turn, measure, (turn + position) % 2 == 1


def requested(size_bytes: int) -> int:
    """Returns the requested power of two for a size that was rounded down to whole elements of all ranks."""
    return 1 << (size_bytes - 1).bit_length()


class RowCollection:
    """Rows measured so far. A round adds median and minimum of each program's cycles to its rows."""

    def __init__(self, rows: Sequence[dict[str, Any]] = ()) -> None:
        self._rows = {self._key(row): row for row in rows}

    @staticmethod
    def _key(row: dict[str, Any]) -> tuple[str, str, int, str]:
        return row["way"], row["collective"], row["size_bytes"], row["placement"]

    def add(self, way: str, collective: str, ours: Times, theirs: Times) -> None:
        """Adds a round. Skips size 0, which has less than one element per rank."""
        for size, placement in set(ours) & set(theirs):
            if size == 0:
                continue
            row: dict[str, Any] = {"way": way, "collective": collective, "size_bytes": size, "placement": placement}
            row = self._rows.setdefault(self._key(row), row)
            for side, cycles in (("busbw", ours[size, placement]), ("nccl_tests", theirs[size, placement])):
                row.setdefault(f"{side}_us", []).append(statistics.median(cycles))
                row.setdefault(f"{side}_least_us", []).append(min(cycles))

    def rows(self) -> list[dict[str, Any]]:
        """Returns the rows, sorted by launch mode and collective as they came, then by size and placement."""
        groups = list(dict.fromkeys(key[:2] for key in self._rows))
        return [self._rows[key] for key in sorted(self._rows, key=lambda key: (groups.index(key[:2]), key[2:]))]

    def undecided(self, measure: Measure, trial: bool) -> tuple[Measure, float] | None:
        """Returns the undecided sizes of `measure` as one range, and their nearness to a decision. None if decided."""
        band = (TRIAL_BANDS if trial else BANDS)[measure.band]
        sizes, nearness = [], 0.0
        for (way, collective, size, _), row in self._rows.items():
            if (way, collective) != (measure.way, measure.collective) or not band.first <= requested(size) <= band.last:
                continue
            found = evaluate_row(row)
            if found.by_median and found.verdict() == CANNOT_BE_TOLD:
                sizes.append(requested(size))
                half_width = found.by_median.half_width()
                nearness += 1.0 if math.isinf(half_width) else min(1.0, _DECIDING_HALF_WIDTH / half_width) ** 2
        return (replace(measure, sizes=(min(sizes), max(sizes))), nearness) if sizes else None


class Rounds:
    """Runs both programs for all comparisons until they are done or the budget is used up."""

    def __init__(
        self, sides: dict[str, dict[str, Any]], gpus: int, budget: Budget, rows: RowCollection, trial: bool
    ) -> None:
        self._sides = sides
        self._gpus = gpus
        self._budget = budget
        self._rows = rows
        self._trial = trial
        self._took_s: dict[tuple[str, str, str], float] = {}
        self._failed: set[tuple[str, str, str]] = set()

    def planned(self, wanted: Sequence[Measure]) -> None:
        """Runs the planned rounds, and notes those that do not fit into the budget."""
        for turn, measure, theirs_first in turns(wanted):
            activity = f"round {turn + 1}, {measure.way}, {measure.collective}, {measure.band}"
            key = self._key(measure)
            if key not in self._failed and self._budget.allows(activity, self._expected_s(measure)):
                self._run_once(measure, theirs_first)

    def more(self, wanted: Sequence[Measure]) -> int:
        """Runs rounds of undecided sizes, best gain per time first, and returns their number."""
        extra: dict[tuple[str, str, str], int] = {}
        while choices := self._choices(wanted, extra):
            measure = max(choices, key=lambda choice: choice[1])[0]
            extra[self._key(measure)] = extra.get(self._key(measure), 0) + 1
            self._run_once(measure, sum(extra.values()) % 2 == 1)
        return sum(extra.values())

    def _expected_s(self, measure: Measure) -> float:
        """Returns the expected seconds of a round: those of the last one, or of the longest in its band."""
        same_band_s = [took_s for (_, _, band), took_s in self._took_s.items() if band == measure.band]
        return self._took_s.get(self._key(measure), max(same_band_s, default=0.0))

    def _choices(
        self, wanted: Sequence[Measure], extra: dict[tuple[str, str, str], int]
    ) -> list[tuple[Measure, float]]:
        """Returns the comparisons that may still run, with their expected gain per time."""
        found = []
        for measure in wanted:
            key = self._key(measure)
            took_s = self._took_s.get(key)
            if took_s is None or key in self._failed or not self._budget.has(took_s):
                continue
            if (undecided := self._rows.undecided(measure, self._trial)) is not None:
                narrowed, nearness = undecided
                found.append((narrowed, nearness / took_s / (1 + extra.get(key, 0)) ** 2))
        return found

    def _run_once(self, measure: Measure, theirs_first: bool) -> None:
        """Runs each program once. A comparison that failed is not repeated."""
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
        self._rows.add(measure.way, measure.collective, found["busbw"], found["nccl-tests"])
        if measure.sizes is None:
            self._took_s[self._key(measure)] = time.monotonic() - started

    @staticmethod
    def _key(measure: Measure) -> tuple[str, str, str]:
        return measure.way, measure.collective, measure.band
