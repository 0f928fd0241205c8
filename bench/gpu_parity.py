"""The GPU engine beside nccl-tests on the same machine: time by size, wall time, repeatability.

    python bench/gpu_parity.py --programs .venv/bin --nccl-tests FOLDER --results bench/results/h200-x4-parity

Both sides get the same flags and run in turns, in rounds, each of them first as often as the other, until every
collective has had its rounds or --budget-s is spent; what was measured until then is written. What one thread takes to
launch small operations differs from one run of a program to the next: small sizes take many short runs, not a long one.

    --measure g:all:latency:5 --measure processes:sendrecv,broadcast:small,large:1

measures just that: ways, collectives, bands of sizes, rounds. nccl-tests is built by whoever wants the comparison; both
must find the same NCCL library. Where it is built without MPI (no --mpirun), its side of "processes" is threads (-t).
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_parity_page import WHOLE_SWEEP, as_page
from gpu_programs import NcclTests, Ours, RunError, provenance, run

COLLECTIVES = "all_reduce,all_gather,reduce_scatter,alltoall,sendrecv,broadcast"
# Many iterations cost little up to 64 MiB; above, a few that last milliseconds do. `small` is latency and plateau in
# one run, where starting takes longer than measuring.
BANDS = {
    "latency": ["-b", "8", "-e", "512K", "-f", "2", "-n", "100", "-w", "20", "-c", "0"],
    "plateau": ["-b", "1M", "-e", "64M", "-f", "2", "-n", "100", "-w", "20", "-c", "0"],
    "small": ["-b", "8", "-e", "64M", "-f", "2", "-n", "100", "-w", "20", "-c", "0"],
    "large": ["-b", "128M", "-e", "8G", "-f", "2", "-n", "10", "-w", "5", "-c", "0"],
}
TRIAL_BANDS = {
    "latency": ["-b", "8", "-e", "512K", "-f", "64", "-n", "5", "-c", "0"],
    "plateau": ["-b", "1M", "-e", "4M", "-f", "2", "-n", "2", "-c", "0"],
    "small": ["-b", "8", "-e", "1M", "-f", "64", "-n", "2", "-c", "0"],
    "large": ["-b", "8M", "-e", "8M", "-n", "1", "-c", "0"],
}
WAYS = {"g": "-g", "t": "-t", "processes": "--processes"}
MEASURE = ["g,processes:all:latency:5", "g,processes:all:plateau:3", "g,processes:all:large:2"]
SPREAD = ["-b", "1K", "-e", "1M", "-f", "32", "-c", "0"]
RUN_TIMEOUT_S = 120.0

Times = dict[tuple[int, str], list[float]]


class Budget:
    """Seconds that may be spent, and what did not happen because they were."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self.left_out: list[str] = []

    def allows(self, what: str) -> bool:
        """Whether `what` may still start; it is noted where not."""
        if time.monotonic() < self._end:
            return True
        self.left_out.append(what)
        return False


@dataclass(frozen=True)
class Measure:
    """What to compare, and in how many rounds."""

    way: str
    collective: str
    band: str
    rounds: int


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


def turns(wanted: list[Measure]) -> Iterator[tuple[int, Measure, bool]]:
    """A round of everything at a time, and whether nccl-tests begins: in every second run and every second round."""
    for turn in range(max(measure.rounds for measure in wanted)):
        for place, measure in enumerate(wanted):
            if turn < measure.rounds:
                yield turn, measure, (turn + place) % 2 == 1


def parity(
    sides: dict[str, dict[str, Any]], wanted: list[Measure], gpus: int, budget: Budget, trial: bool
) -> list[dict[str, Any]]:
    """Both sides of each way in turns; a row for each size and placement."""
    kept: dict[tuple[str, str, str], Times] = {}
    for turn, measure, theirs_first in turns(wanted):
        way, collective = measure.way, measure.collective
        if not budget.allows(f"round {turn + 1}, {way}, {collective}, {measure.band}"):
            continue
        both: dict[str, dict[tuple[int, str], float]] = {}
        for side in sorted(sides[way], reverse=theirs_first):
            flags = (TRIAL_BANDS if trial else BANDS)[measure.band]
            command = sides[way][side].command(collective, [WAYS[way], str(gpus)], flags)
            try:
                both[side] = run(command, RUN_TIMEOUT_S).times_us
            except RunError as problem:
                budget.left_out.append(str(problem))
                break
        for side, found in both.items() if len(both) == 2 else ():
            for key, time_us in found.items():
                kept.setdefault((way, collective, side), {}).setdefault(key, []).append(time_us)
    rows = []
    for way, collective in dict.fromkeys((way, collective) for way, collective, _ in kept):
        ours, theirs = kept[way, collective, "busbw"], kept[way, collective, "nccl-tests"]
        for size, placement in sorted(set(ours) & set(theirs)):
            if size == 0:  # too few bytes for an element of each rank: nothing was done
                continue
            times = {"busbw_us": ours[size, placement], "nccl_tests_us": theirs[size, placement]}
            row: dict[str, Any] = {"way": way, "collective": collective, "size_bytes": size, "placement": placement}
            rows.append({**row, **times, "ratio": ratio_of(*times.values())})
    return rows


def ratio_of(ours: list[float], theirs: list[float]) -> float | None:
    """Of the medians; None where a side shows no time."""
    below = statistics.median(theirs)
    return statistics.median(ours) / below if below > 0 else None


def wall_times(sides: dict[str, Any], gpus: int, budget: Budget, trial: bool) -> dict[str, list[float]]:
    """Of the whole sweep with checks, twice each, in turns."""
    found: dict[str, list[float]] = {side: [] for side in sides}
    flags = TRIAL_BANDS["large"] if trial else WHOLE_SWEEP
    for turn in range(2):
        for side in sorted(sides, reverse=turn == 1):
            if budget.allows(f"whole sweep {turn + 1} of {side}"):
                command = sides[side].command("all_reduce", ["-g", str(gpus)], flags)
                found[side].append(run(command, RUN_TIMEOUT_S).wall_s)
    return found


def spread_of(values: list[float]) -> dict[str, Any]:
    """(max - min) / median and the standard deviation over the mean, in percent."""
    return {
        "values_us": values,
        "median_us": statistics.median(values),
        "range_percent": 100 * (max(values) - min(values)) / statistics.median(values),
        "stdev_percent": 100 * statistics.stdev(values) / statistics.mean(values),
    }


def repeatability(sides: dict[str, Any], runs: int, gpus: int, budget: Budget, folder: Path) -> list[dict[str, Any]]:
    """Ten runs of each side: how far our medians lie apart, our `time`, and nccl-tests' means."""
    values: dict[tuple[str, int, str], list[float]] = {}
    for turn in range(runs):
        for side in sorted(sides, reverse=turn % 2 == 1):
            if not budget.allows(f"repetition {turn + 1} of {side}"):
                continue
            record = folder / "spread.jsonl" if side == "busbw" else None
            done = run(sides[side].command("all_reduce", ["-g", str(gpus)], SPREAD), RUN_TIMEOUT_S, record)
            for (size, placement), time_us in done.times_us.items():
                if placement == "out_of_place":
                    name = "nccl-tests: time" if side == "nccl-tests" else "busbw: time"
                    values.setdefault((name, size, placement), []).append(time_us)
            for row in done.records:
                if row["kind"] == "row" and row["placement"] == "out_of_place":
                    key = ("busbw: median", row["size_bytes"], row["placement"])
                    values.setdefault(key, []).append(row["stats"]["median_us"])
                    if (device := row.get("device_time_us")) is not None:
                        key = ("busbw: device time", row["size_bytes"], row["placement"])
                        values.setdefault(key, []).append(device)
    return [
        {"what": what, "size_bytes": size, "runs": len(found), **spread_of(found)}
        for (what, size, _), found in sorted(values.items(), key=lambda item: (item[0][1], item[0][0]))
        if len(found) > 1
    ]


def main() -> int:
    """Measures and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=Path, required=True, help="busbw's")
    parser.add_argument("--nccl-tests", type=Path, required=True, help="nccl-tests'")
    parser.add_argument("--mpirun", default="", help="starts nccl-tests' processes, where it is built with MPI")
    parser.add_argument("--mpi-nccl-tests", type=Path, help="nccl-tests' programs with MPI (default: --nccl-tests)")
    parser.add_argument("--gpus", type=int, help="default: all")
    parser.add_argument(
        "--measure",
        type=measures,
        action="append",
        metavar="WAYS:COLLECTIVES:BANDS:ROUNDS",
        help=f"ways of {', '.join(WAYS)}; bands of {', '.join(BANDS)}; repeatable (default: {' '.join(MEASURE)})",
    )
    parser.add_argument("--note", action="append", default=[], help="a sentence for the page; repeatable")
    parser.add_argument("--parts", default="wall,spread,parity", help="which, in this order")
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--budget-s", type=float, default=300, help="nothing is started after so long")
    parser.add_argument("--results", type=Path, required=True, help="path without suffix; .json and .md are written")
    parser.add_argument("--backend", default="nccl", choices=["nccl", "host"], help="host: try it out, both sides ours")
    arguments = parser.parse_args()
    trial = arguments.backend == "host"
    wanted = [each for found in arguments.measure or map(measures, MEASURE) for each in found]
    ours = Ours(arguments.programs.resolve(), arguments.backend)
    theirs: Any = ours if trial else NcclTests(arguments.nccl_tests.resolve())
    sides: dict[str, Any] = {"busbw": ours, "nccl-tests": theirs}
    processes = sides
    if arguments.mpirun:
        folder = (arguments.mpi_nccl_tests or arguments.nccl_tests).resolve()
        processes = {**sides, "nccl-tests": NcclTests(folder, tuple(shlex.split(arguments.mpirun)))}
    gpus = arguments.gpus or ours.gpus()
    budget = Budget(arguments.budget_s)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        results: dict[str, Any] = {
            "provenance": provenance(ours, gpus, folder),
            "gpus": gpus,
            "notes": arguments.note,
            "their_processes": "processes under mpirun" if arguments.mpirun else "threads, -t",
            "wall_s": {},
            "repeatability": [],
            "rows": [],
            "left_out": budget.left_out,
        }
        for part in arguments.parts.split(","):
            try:
                if part == "wall":
                    results["wall_s"] = wall_times(sides, gpus, budget, trial)
                elif part == "spread":
                    results["repeatability"] = repeatability(sides, arguments.repetitions, gpus, budget, folder)
                elif part == "parity":
                    by_way = {way: processes if way == "processes" else sides for way in WAYS}
                    results["rows"] = parity(by_way, wanted, gpus, budget, trial)
                else:
                    parser.error(f"--parts {part}: allowed are wall, spread and parity")
            except RunError as problem:
                budget.left_out.append(str(problem))
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    Path(f"{arguments.results}.json").write_text(json.dumps(results, indent=1) + "\n")
    page = as_page(results)
    Path(f"{arguments.results}.md").write_text(page)
    print("\n".join(page.splitlines()[:60]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
