"""Rounds of both programs, alternating: first the planned rounds, then more rounds of the undecided sizes.

A round starts busbw and nccl-tests once with the same flags. A start repeats its sizes several times (cycles, -N). A
row is a size and placement of one collective and launch mode; its key "way" is the launch mode.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpu_parity_verdict import CANNOT_BE_TOLD, evaluate_row
from gpu_programs import RunError, run

COLLECTIVES = "all_reduce,all_gather,reduce_scatter,alltoall,sendrecv,broadcast"
LAUNCH_FLAGS = {"g": "-g", "t": "-t", "processes": "--processes"}
"""Launch modes, each with busbw's flag for the number of GPUs."""
RUN_TIMEOUT_S = 120.0
_DECIDING_HALF_WIDTH = 0.02
"""Half-width of the ratio's interval at which most sizes have a verdict."""

Times = dict[tuple[int, str], list[float]]
"""Times in us of all cycles, by size and placement."""


@dataclass(frozen=True)
class Band:
    """Band of sizes: first and last size, and the flags for iterations and cycles.

    A cycle costs less time than another start.
    """

    first: int
    last: int
    flags: tuple[str, ...]


CHECK_FLAGS = ("-c", "1")
"""Flags from 1 MiB on, the default of both programs. With -c 0 nccl-tests would use two buffers instead of three, and
leave them unwritten."""
BANDS = {
    "latency": Band(8, 512 << 10, ("-n", "100", "-w", "20", "-N", "10", "-c", "0")),
    "plateau": Band(1 << 20, 64 << 20, ("-n", "50", "-w", "10", "-N", "5", *CHECK_FLAGS)),
    "large": Band(1 << 20, 8 << 30, ("-n", "20", "-w", "5", *CHECK_FLAGS)),
}
TRIAL_BANDS = {
    "latency": Band(8, 64, ("-n", "5", "-N", "3", "-c", "0")),
    "plateau": Band(1 << 20, 2 << 20, ("-n", "2", "-N", "2", *CHECK_FLAGS)),
    "large": Band(2 << 20, 4 << 20, ("-n", "1", "-N", "2", *CHECK_FLAGS)),
}


class Budget:
    """Limited time in seconds, and a list of the parts that were skipped for lack of it."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self.left_out: list[str] = []

    def has(self, seconds: float) -> bool:
        """Returns True if more than `seconds` are left."""
        return time.monotonic() + seconds < self._end

    def allows(self, activity: str, expected_s: float = 0.0) -> bool:
        """Returns True if `activity`, which takes `expected_s`, may start. Otherwise notes it as skipped."""
        if self.has(expected_s):
            return True
        self.left_out.append(activity)
        return False


@dataclass(frozen=True)
class Comparison:
    """One collective, launch mode and band of sizes to compare, with the number of planned rounds."""

    launch_mode: str
    collective: str
    band: str
    rounds: int
    sizes: tuple[int, int] | None = None
    """First and last size in bytes. None for the whole band."""
    factor: int = 2
    """Factor between sizes."""

    def flags(self, *, trial: bool) -> list[str]:
        """Returns the flags for both programs."""
        band = (TRIAL_BANDS if trial else BANDS)[self.band]
        first, last = self.sizes or (band.first, band.last)
        return ["-b", str(first), "-e", str(last), "-f", str(self.factor), *band.flags]


def parse_comparisons(text: str) -> list[Comparison]:
    """Parses WAYS:COLLECTIVES:BANDS:ROUNDS, such as "g,t:all:latency:5", to all combinations of their words.

    Raises ArgumentTypeError with the allowed words.
    """
    fields = text.split(":")
    if len(fields) != 4 or not fields[3].isdigit() or int(fields[3]) < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected WAYS:COLLECTIVES:BANDS:ROUNDS, such as g:all:latency:5")
    modes_text, collectives_text, bands_text, rounds_text = fields
    modes, bands = modes_text.split(","), bands_text.split(",")
    collectives = (COLLECTIVES if collectives_text == "all" else collectives_text).split(",")
    for words, allowed in ((modes, LAUNCH_FLAGS), (collectives, COLLECTIVES.split(",")), (bands, BANDS)):
        for word in words:
            if word not in allowed:
                raise argparse.ArgumentTypeError(f"{text}: {word}: allowed are {', '.join(allowed)}")
    rounds = int(rounds_text)
    return [Comparison(*names, rounds) for names in itertools.product(modes, collectives, bands)]


def planned_rounds(comparisons: Sequence[Comparison]) -> Iterator[tuple[int, Comparison, bool]]:
    """Yields each round's index, a comparison, and True if nccl-tests runs first in it.

    The program that runs first alternates over the comparisons of a round, and over the rounds of a comparison.
    """
    for round_index in range(max(comparison.rounds for comparison in comparisons)):
        for position, comparison in enumerate(comparisons):
            if round_index < comparison.rounds:
                yield round_index, comparison, (round_index + position) % 2 == 1


def requested_size(size_bytes: int) -> int:
    """Returns the requested size, a power of two, for a size rounded down to whole elements of all ranks."""
    return 1 << (size_bytes - 1).bit_length()


def nearness_to_verdict(row: dict[str, Any]) -> float | None:
    """Returns 0 to 1 for an undecided row: 1 if its interval is narrow enough or not known yet. None if decided."""
    verdict = evaluate_row(row)
    if not verdict.by_median or verdict.verdict() != CANNOT_BE_TOLD:
        return None
    half_width = verdict.by_median.half_width()
    if math.isinf(half_width):
        return 1.0
    # The number of rounds that the interval needs grows with the square of its half-width.
    return min(1.0, _DECIDING_HALF_WIDTH / half_width) ** 2


class RowCollection:
    """Rows measured so far. A round adds median and minimum of each program's cycles to its rows."""

    def __init__(self, rows: Sequence[dict[str, Any]] = ()) -> None:
        self._rows = {self._key(row): row for row in rows}

    @staticmethod
    def _key(row: dict[str, Any]) -> tuple[str, str, int, str]:
        return row["way"], row["collective"], row["size_bytes"], row["placement"]

    def add(self, launch_mode: str, collective: str, busbw: Times, nccl_tests: Times) -> None:
        """Adds a round. Skips size 0, which has less than one element per rank."""
        for size, placement in set(busbw) & set(nccl_tests):
            if size == 0:
                continue
            new_row: dict[str, Any] = {"way": launch_mode, "collective": collective}
            new_row |= {"size_bytes": size, "placement": placement}
            row = self._rows.setdefault(self._key(new_row), new_row)
            for side, cycles_us in (("busbw", busbw[size, placement]), ("nccl_tests", nccl_tests[size, placement])):
                row.setdefault(f"{side}_us", []).append(statistics.median(cycles_us))
                row.setdefault(f"{side}_least_us", []).append(min(cycles_us))

    def rows(self) -> list[dict[str, Any]]:
        """Returns the rows by launch mode and collective in order of their first row, then by size and placement."""
        groups = list(dict.fromkeys(key[:2] for key in self._rows))  # launch mode and collective
        keys = sorted(self._rows, key=lambda key: (groups.index(key[:2]), key[2:]))
        return [self._rows[key] for key in keys]

    def undecided(self, comparison: Comparison, *, trial: bool) -> tuple[Comparison, float] | None:
        """Returns the comparison limited to its undecided sizes, and the sum of their nearness to a verdict.

        None if all rows are decided.
        """
        band = (TRIAL_BANDS if trial else BANDS)[comparison.band]
        sizes, nearness_sum = [], 0.0
        for row in self._rows.values():
            if (row["way"], row["collective"]) != (comparison.launch_mode, comparison.collective):
                continue
            size = requested_size(row["size_bytes"])
            nearness = nearness_to_verdict(row) if band.first <= size <= band.last else None
            if nearness is not None:
                sizes.append(size)
                nearness_sum += nearness
        if not sizes:
            return None
        return replace(comparison, sizes=(min(sizes), max(sizes))), nearness_sum


_Key = tuple[str, str, str]
"""Launch mode, collective and band of a comparison."""


class Rounds:
    """Runs both programs for all comparisons until they are done or the budget is used up."""

    def __init__(
        self, sides: dict[str, dict[str, Any]], gpus: int, budget: Budget, rows: RowCollection, *, trial: bool
    ) -> None:
        """Stores the settings.

        Args:
            sides: By launch mode, the programs "busbw" and "nccl-tests".
            gpus: Number of GPUs.
            budget: Time limit.
            rows: Collection that the rounds are added to.
            trial: True for small sizes, in a test of the benchmark.
        """
        self._sides = sides
        self._gpus = gpus
        self._budget = budget
        self._rows = rows
        self._trial = trial
        self._round_s: dict[_Key, float] = {}  # duration of the last round with all sizes of the band
        self._failed: set[_Key] = set()

    def run_planned(self, comparisons: Sequence[Comparison]) -> None:
        """Runs the planned rounds, and notes those that do not fit into the budget."""
        for round_index, comparison, nccl_tests_first in planned_rounds(comparisons):
            activity = f"round {round_index + 1}, {', '.join(self._key(comparison))}"
            is_failed = self._key(comparison) in self._failed
            if not is_failed and self._budget.allows(activity, self._expected_s(comparison)):
                self._run_round(comparison, nccl_tests_first=nccl_tests_first)

    def run_undecided(self, comparisons: Sequence[Comparison]) -> int:
        """Runs rounds of undecided sizes, greatest expected gain per time first, and returns their number."""
        extra_rounds: dict[_Key, int] = {}
        while candidates := self._candidates(comparisons, extra_rounds):
            comparison, _ = max(candidates, key=lambda candidate: candidate[1])
            key = self._key(comparison)
            extra_rounds[key] = extra_rounds.get(key, 0) + 1
            self._run_round(comparison, nccl_tests_first=sum(extra_rounds.values()) % 2 == 1)
        return sum(extra_rounds.values())

    def _expected_s(self, comparison: Comparison) -> float:
        """Returns the expected seconds of a round: those of the last one, or of the longest in its band."""
        same_band_s = [took_s for (_, _, band), took_s in self._round_s.items() if band == comparison.band]
        return self._round_s.get(self._key(comparison), max(same_band_s, default=0.0))

    def _candidates(
        self, comparisons: Sequence[Comparison], extra_rounds: dict[_Key, int]
    ) -> list[tuple[Comparison, float]]:
        """Returns the comparisons that may still run, with their expected gain: nearness to a verdict per second.

        The gain falls with the square of the extra rounds, so that no comparison takes the whole budget.
        """
        candidates = []
        for comparison in comparisons:
            key = self._key(comparison)
            took_s = self._round_s.get(key)
            if took_s is None or key in self._failed or not self._budget.has(took_s):
                continue
            if (undecided := self._rows.undecided(comparison, trial=self._trial)) is not None:
                narrowed, nearness = undecided
                candidates.append((narrowed, nearness / took_s / (1 + extra_rounds.get(key, 0)) ** 2))
        return candidates

    def _run_round(self, comparison: Comparison, *, nccl_tests_first: bool) -> None:
        """Runs each program once. A comparison that failed is not repeated."""
        start_s = time.monotonic()
        times: dict[str, Times] = {}
        sides = self._sides[comparison.launch_mode]
        rank_flags = [LAUNCH_FLAGS[comparison.launch_mode], str(self._gpus)]
        for side in sorted(sides, reverse=nccl_tests_first):
            command = sides[side].command(comparison.collective, rank_flags, comparison.flags(trial=self._trial))
            try:
                times[side] = run(command, RUN_TIMEOUT_S).times_us
            except RunError as error:
                self._budget.left_out.append(str(error))
                self._failed.add(self._key(comparison))
                return
        self._rows.add(comparison.launch_mode, comparison.collective, times["busbw"], times["nccl-tests"])
        if comparison.sizes is None:
            self._round_s[self._key(comparison)] = time.monotonic() - start_s

    @staticmethod
    def _key(comparison: Comparison) -> _Key:
        return comparison.launch_mode, comparison.collective, comparison.band
