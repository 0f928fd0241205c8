"""Compares the GPU engine with nccl-tests on one machine: time by size, with intervals over rounds.

    python bench/gpu_parity.py --programs .venv/bin --nccl-tests FOLDER --results build/bench-results/h200-x4-parity

The two programs are the sides. A round starts each side once, with the same flags; each is first equally often. A
start repeats its sizes several times (cycles, -N). Ctrl-C, or `timeout --signal INT` in front, ends the measurement.
The finished rounds are then written.

    --measure g:all:latency:5 --measure processes:sendrecv,broadcast:plateau,large:1

--measure selects launch modes, collectives, bands of sizes and rounds. The user must build nccl-tests; both programs
must find the same NCCL library. Without MPI (no --mpirun), nccl-tests uses threads (-t) for "processes". Run this
script with a Python that has busbw.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shlex
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gpu_parity_page import as_page
from gpu_programs import BusbwPrograms, NcclTests, RunError, provenance, run, times_us

from busbw import engine
from busbw.errors import ExitCode

COLLECTIVES = "all_reduce,all_gather,reduce_scatter,alltoall,sendrecv,broadcast"
LAUNCH_FLAGS = {"g": "-g", "t": "-t", "processes": "--processes"}
"""Launch modes, each with busbw's flag for the number of GPUs."""
CHECK_FLAGS = ("-c", "1")
"""Flags from 1 MiB on, the default of both programs. With -c 0 nccl-tests would use two buffers instead of three, and
leave them unwritten."""
BANDS: dict[str, tuple[str, ...]] = {
    "latency": ("-b", "8", "-e", "512K", "-n", "100", "-w", "20", "-N", "10", "-c", "0"),
    "plateau": ("-b", "1M", "-e", "64M", "-n", "50", "-w", "10", "-N", "5", *CHECK_FLAGS),
    "large": ("-b", "1M", "-e", "8G", "-n", "20", "-w", "5", *CHECK_FLAGS),
}
"""Bands of sizes with their flags. A cycle (-N) costs less time than another start."""
TRIAL_BANDS: dict[str, tuple[str, ...]] = {
    "latency": ("-b", "8", "-e", "64", "-n", "5", "-N", "3", "-c", "0"),
    "plateau": ("-b", "1M", "-e", "2M", "-n", "2", "-N", "2", *CHECK_FLAGS),
    "large": ("-b", "2M", "-e", "4M", "-n", "1", "-N", "2", *CHECK_FLAGS),
}
"""Bands of `--backend host`, which tests this program."""
TRIAL_RANKS = 4
DEFAULT_COMPARISONS = ["g,processes:all:large:2", "g,processes:all:latency:2"]
RUN_TIMEOUT_S = 120.0


class Comparison(NamedTuple):
    """One collective, launch mode and band of sizes to compare, with the number of rounds."""

    launch_mode: str
    collective: str
    band: str
    rounds: int


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
    return [Comparison(*names, int(rounds_text)) for names in itertools.product(modes, collectives, bands)]


def planned_rounds(comparisons: Sequence[Comparison]) -> Iterator[tuple[Comparison, bool]]:
    """Yields a comparison for each of its rounds, and True if nccl-tests runs first in it.

    The program that runs first alternates over the comparisons of a round, and over the rounds of a comparison.
    """
    for round_index in range(max(comparison.rounds for comparison in comparisons)):
        for position, comparison in enumerate(comparisons):
            if round_index < comparison.rounds:
                yield comparison, (round_index + position) % 2 == 1


Times = dict[tuple[int, str], list[float]]
"""Times in us of all cycles, by size and placement."""


class RowCollection:
    """Rows measured so far. A round adds the median of each program's cycles to its rows."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str, int, str], dict[str, Any]] = {}

    def add(self, comparison: Comparison, busbw: Times, nccl_tests: Times) -> None:
        """Adds a round. Skips size 0, which has less than one element per rank."""
        for size, placement in busbw.keys() & nccl_tests.keys():
            if size == 0:
                continue
            new_row: dict[str, Any] = {"way": comparison.launch_mode, "collective": comparison.collective}
            new_row |= {"size_bytes": size, "placement": placement, "busbw_us": [], "nccl_tests_us": []}
            key = (comparison.launch_mode, comparison.collective, size, placement)
            row = self._rows.setdefault(key, new_row)
            row["busbw_us"].append(statistics.median(busbw[size, placement]))
            row["nccl_tests_us"].append(statistics.median(nccl_tests[size, placement]))

    def rows(self) -> list[dict[str, Any]]:
        """Returns the rows by launch mode and collective in order of their first row, then by size and placement."""
        groups = list(dict.fromkeys(key[:2] for key in self._rows))  # launch mode and collective
        keys = sorted(self._rows, key=lambda key: (groups.index(key[:2]), key[2:]))
        return [self._rows[key] for key in keys]


def measure(
    comparisons: Sequence[Comparison],
    sides_by_mode: dict[str, dict[str, Any]],
    gpus: int,
    bands: dict[str, tuple[str, ...]],
    rows: RowCollection,
) -> Iterator[str]:
    """Runs all rounds, and adds them to `rows`. Yields a sentence about each comparison that fails, and leaves it then.

    Args:
        comparisons: Comparisons to measure.
        sides_by_mode: By launch mode, the programs "busbw" and "nccl-tests".
        gpus: Number of GPUs.
        bands: Flags of each band of sizes.
        rows: Collection that the rounds are added to.
    """
    failed: set[Comparison] = set()
    for comparison, is_nccl_tests_first in planned_rounds(comparisons):
        if comparison in failed:
            continue
        sides = sides_by_mode[comparison.launch_mode]
        rank_flags = [LAUNCH_FLAGS[comparison.launch_mode], str(gpus)]
        times: dict[str, Times] = {}
        try:
            for side in sorted(sides, reverse=is_nccl_tests_first):
                command = sides[side].command(comparison.collective, rank_flags, ["-f", "2", *bands[comparison.band]])
                times[side] = times_us(run(command, RUN_TIMEOUT_S))
        except RunError as error:
            failed.add(comparison)
            yield f"{' '.join(comparison[:3])}: {error}"
            continue
        rows.add(comparison, times["busbw"], times["nccl-tests"])


def sides_by_launch_mode(arguments: argparse.Namespace, ours: BusbwPrograms) -> dict[str, dict[str, Any]]:
    """Returns the programs "busbw" and "nccl-tests" for each launch mode. A trial has busbw on both sides."""
    theirs: Any = ours if arguments.backend == "host" else NcclTests(arguments.nccl_tests.resolve())
    sides = {mode: {"busbw": ours, "nccl-tests": theirs} for mode in LAUNCH_FLAGS}
    if arguments.mpirun:
        folder = (arguments.mpi_nccl_tests or arguments.nccl_tests).resolve()
        sides["processes"]["nccl-tests"] = NcclTests(folder, tuple(shlex.split(arguments.mpirun)))
    return sides


def main() -> int:
    """Measures, and writes JSON and page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=Path, required=True, help="folder of busbw's programs")
    parser.add_argument("--nccl-tests", type=Path, required=True, help="folder of nccl-tests' programs")
    parser.add_argument("--mpirun", default="", help="command that starts nccl-tests' processes, if built with MPI")
    parser.add_argument("--mpi-nccl-tests", type=Path, help="nccl-tests' programs with MPI (default: --nccl-tests)")
    parser.add_argument("--gpus", type=int, help="default: all")
    parser.add_argument(
        "--measure",
        type=parse_comparisons,
        action="append",
        metavar="WAYS:COLLECTIVES:BANDS:ROUNDS",
        help=f"WAYS: {', '.join(LAUNCH_FLAGS)}; BANDS: {', '.join(BANDS)}; "
        f"repeatable (default: {' '.join(DEFAULT_COMPARISONS)})",
    )
    parser.add_argument("--results", type=Path, required=True, help="output path without suffix, for .json and .md")
    parser.add_argument(
        "--backend", default="nccl", choices=["nccl", "host"], help="host: test this program, with busbw on both sides"
    )
    arguments = parser.parse_args()
    groups = arguments.measure or map(parse_comparisons, DEFAULT_COMPARISONS)
    comparisons = [comparison for group in groups for comparison in group]
    ours = BusbwPrograms(arguments.programs.resolve(), arguments.backend)
    is_trial = arguments.backend == "host"
    gpus = arguments.gpus or (TRIAL_RANKS if is_trial else engine.gpu_count())
    if gpus == 0:
        print("no GPU found; test this program with --backend host", file=sys.stderr)
        return ExitCode.ENVIRONMENT
    bands = TRIAL_BANDS if is_trial else BANDS
    rows = RowCollection()
    left_out: list[str] = []
    code = ExitCode.GOOD
    facts = provenance(ours, gpus)
    try:
        for sentence in measure(comparisons, sides_by_launch_mode(arguments, ours), gpus, bands, rows):
            left_out.append(sentence)
    except KeyboardInterrupt:
        left_out.append("the rest: interrupted")
        code = ExitCode.INTERRUPTED
    results = {
        "provenance": facts,
        "gpus": gpus,
        "their_processes": "processes under mpirun" if arguments.mpirun else "threads, -t",
        "rows": rows.rows(),
        "left_out": left_out,
    }
    if not results["rows"]:
        reason = left_out[-1] if left_out else "no program gave a row"
        print(f"nothing was measured, so nothing was written; last skipped: {reason}", file=sys.stderr)
        return code or ExitCode.ENVIRONMENT
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    Path(f"{arguments.results}.json").write_text(json.dumps(results, indent=1) + "\n")
    page = as_page(results)
    Path(f"{arguments.results}.md").write_text(page)
    print(page)
    return code


if __name__ == "__main__":
    sys.exit(main())
