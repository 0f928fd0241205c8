"""Compares the GPU engine with nccl-tests on one machine: time by size, wall time, repeatability.

    python bench/gpu_parity.py --programs .venv/bin --nccl-tests FOLDER --results build/bench-results/h200-x4-parity

The two programs are the sides. A round starts each side once, with the same flags; each is first equally often. A
start repeats its sizes several times (cycles, -N). After the planned rounds, the rest of --budget-s goes to more rounds
of the undecided sizes: those without a verdict (gpu_parity_verdict.py). A round that would not end in time is not
started.

    --measure g:all:latency:5 --measure processes:sendrecv,broadcast:plateau,large:1 --add-to EARLIER.json

--measure selects launch modes, collectives, bands of sizes and rounds (gpu_parity_rounds.py). --add-to adds the rounds
to those of an earlier call on an equal machine. The user must build nccl-tests; both programs must find the same NCCL
library. Without MPI (no --mpirun), nccl-tests uses threads (-t) for "processes". Run this script with a Python that has
busbw.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpu_parity_page import WHOLE_SWEEP, as_page
from gpu_parity_rounds import (
    BANDS,
    CHECK_FLAGS,
    LAUNCH_FLAGS,
    RUN_TIMEOUT_S,
    Budget,
    Rounds,
    RowCollection,
    parse_comparisons,
)
from gpu_programs import BusbwPrograms, NcclTests, RunError, provenance, run

from busbw.errors import ExitCode

DEFAULT_COMPARISONS = ["g,processes:all:large:2", "g,processes:all:latency:2"]
PARTS = ("wall", "spread", "parity")
SPREAD_FLAGS = ["-b", "1K", "-e", "1M", "-f", "32", "-c", "0"]
"""Flags of the repeated runs that show the repeatability."""
SHARED_FACTS = ("nccl_version", "cuda_driver", "driver")
"""Facts that must be equal before rounds are merged, besides GPUs and busbw's version."""


def measure_wall_times(sides: dict[str, Any], gpus: int, budget: Budget, *, trial: bool) -> dict[str, list[float]]:
    """Returns the seconds of the whole sweep with checks, twice per side, alternating."""
    wall_s: dict[str, list[float]] = {side: [] for side in sides}
    flags = ["-b", "8M", "-e", "8M", "-n", "1", "-c", "0"] if trial else WHOLE_SWEEP
    for repetition in range(2):
        for side in sorted(sides, reverse=repetition == 1):
            if budget.allows(f"whole sweep {repetition + 1} of {side}"):
                command = sides[side].command("all_reduce", ["-g", str(gpus)], flags)
                wall_s[side].append(run(command, RUN_TIMEOUT_S).wall_s)
    return wall_s


def spread_of(values: list[float]) -> dict[str, Any]:
    """Returns values, median and two measures of spread: range over median, standard deviation over mean."""
    return {
        "values_us": values,
        "median_us": statistics.median(values),
        "range_percent": 100 * (max(values) - min(values)) / statistics.median(values),
        "stdev_percent": 100 * statistics.stdev(values) / statistics.mean(values),
    }


def measure_repeatability(
    sides: dict[str, Any], runs: int, gpus: int, budget: Budget, folder: Path
) -> list[dict[str, Any]]:
    """Repeats a run of each side, and returns the spread of its figures."""
    values: dict[tuple[str, int], list[float]] = {}  # by name of the figure and size, out of place
    for repetition in range(runs):
        for side in sorted(sides, reverse=repetition % 2 == 1):
            if not budget.allows(f"repetition {repetition + 1} of {side}"):
                continue
            record = folder / "spread.jsonl" if side == "busbw" else None
            done = run(sides[side].command("all_reduce", ["-g", str(gpus)], SPREAD_FLAGS), RUN_TIMEOUT_S, record)
            for (size, placement), cycles in done.times_us.items():
                if placement == "out_of_place":
                    name = "nccl-tests: time" if side == "nccl-tests" else "busbw: time"
                    values.setdefault((name, size), []).extend(cycles)
            for row in done.records:
                if row["kind"] == "row" and row["placement"] == "out_of_place":
                    size = row["size_bytes"]
                    values.setdefault(("busbw: median", size), []).append(row["stats"]["median_us"])
                    if (device_us := row.get("device_time_us")) is not None:
                        values.setdefault(("busbw: device time", size), []).append(device_us)
    return [
        {"what": name, "size_bytes": size, "runs": len(values[name, size]), **spread_of(values[name, size])}
        for name, size in sorted(values, key=lambda key: (key[1], key[0]))
        if len(values[name, size]) > 1
    ]


def find_differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Lists the differences that forbid merging the rounds of two results."""
    provenance_before, provenance_now = before["provenance"], now["provenance"]
    facts_before, facts_now = provenance_before["facts"], provenance_now["facts"]
    return [
        *(name for name in ("machine", "busbw") if provenance_before[name] != provenance_now[name]),
        *(name for name in SHARED_FACTS if facts_before.get(name) != facts_now.get(name)),
        *(name for name in ("gpus", "their_processes", "large_flags") if before.get(name) != now.get(name)),
    ]


def argument_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
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
    parser.add_argument(
        "--factor", type=int, choices=[2, 4], default=2, help="factor between sizes; 4 takes every other"
    )
    parser.add_argument("--add-to", type=Path, metavar="JSON", help="earlier results to extend")
    parser.add_argument("--note", action="append", default=[], help="sentence for the page; repeatable")
    parser.add_argument("--parts", default=",".join(PARTS), help="parts to run, in this order")
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--budget-s", type=float, default=300, help="seconds; no start that would end later")
    parser.add_argument("--results", type=Path, required=True, help="output path without suffix, for .json and .md")
    parser.add_argument(
        "--backend", default="nccl", choices=["nccl", "host"], help="host: test this program, with busbw on both sides"
    )
    return parser


def sides_by_launch_mode(arguments: argparse.Namespace, ours: BusbwPrograms) -> dict[str, dict[str, Any]]:
    """Returns the programs "busbw" and "nccl-tests" for each launch mode. A trial has busbw on both sides."""
    theirs: Any = ours if arguments.backend == "host" else NcclTests(arguments.nccl_tests.resolve())
    sides = {mode: {"busbw": ours, "nccl-tests": theirs} for mode in LAUNCH_FLAGS}
    if arguments.mpirun:
        folder = (arguments.mpi_nccl_tests or arguments.nccl_tests).resolve()
        sides["processes"]["nccl-tests"] = NcclTests(folder, tuple(shlex.split(arguments.mpirun)))
    return sides


def main() -> int:
    """Measures, and writes the results."""
    parser = argument_parser()
    arguments = parser.parse_args()
    parts = arguments.parts.split(",")
    if unknown := [part for part in parts if part not in PARTS]:
        parser.error(f"--parts {unknown[0]}: allowed are wall, spread and parity")
    trial = arguments.backend == "host"
    groups = arguments.measure or map(parse_comparisons, DEFAULT_COMPARISONS)
    comparisons = [replace(comparison, factor=arguments.factor) for group in groups for comparison in group]
    ours = BusbwPrograms(arguments.programs.resolve(), arguments.backend)
    sides_by_mode = sides_by_launch_mode(arguments, ours)
    sides = sides_by_mode["g"]
    gpus = arguments.gpus or ours.gpus()
    budget = Budget(arguments.budget_s)
    earlier = json.loads(arguments.add_to.read_text()) if arguments.add_to else None
    collection = RowCollection(earlier["rows"] if earlier else ())
    earlier_rows = json.dumps(collection.rows())
    code = ExitCode.GOOD
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        results = empty_results(arguments, provenance(ours, gpus, folder), gpus, budget)
        if earlier and (different := find_differences(earlier, results)):
            parser.error(f"--add-to {arguments.add_to}: different {', '.join(different)}; measure without it")
        try:
            for part in parts:
                if part == "wall":
                    results["wall_s"] = measure_wall_times(sides, gpus, budget, trial=trial)
                elif part == "spread":
                    results["repeatability"] = measure_repeatability(sides, arguments.repetitions, gpus, budget, folder)
                else:
                    rounds = Rounds(sides_by_mode, gpus, budget, collection, trial=trial)
                    rounds.run_planned(comparisons)
                    rounds.run_undecided(comparisons)
        except RunError as problem:
            budget.left_out.append(str(problem))
        except KeyboardInterrupt:
            budget.left_out.append("the rest: interrupted")
            code = ExitCode.INTERRUPTED
        results["rows"] = collection.rows()
        has_new_rows = json.dumps(results["rows"]) != earlier_rows
        has_other_parts = any(results["wall_s"].values()) or bool(results["repeatability"])
        if not has_new_rows and not has_other_parts:
            reason = budget.left_out[-1] if budget.left_out else "no program gave a row"
            print(f"nothing was measured, so nothing was written; last skipped: {reason}", file=sys.stderr)
            return code or ExitCode.ENVIRONMENT
        if earlier:
            add_earlier_parts(results, earlier)
    write_results(arguments.results, results)
    return code


def empty_results(
    arguments: argparse.Namespace, provenance: dict[str, Any], gpus: int, budget: Budget
) -> dict[str, Any]:
    """Returns results without figures. They share the list of skipped parts with the budget."""
    return {
        "provenance": provenance,
        "gpus": gpus,
        "notes": arguments.note,
        "their_processes": "processes under mpirun" if arguments.mpirun else "threads, -t",
        "large_flags": list(CHECK_FLAGS),
        "wall_s": {},
        "repeatability": [],
        "rows": [],
        "left_out": budget.left_out,
    }


def add_earlier_parts(results: dict[str, Any], earlier: dict[str, Any]) -> None:
    """Adds the notes of an earlier call, and its figures of the parts that were not measured now."""
    for name in ("wall_s", "repeatability"):
        results[name] = results[name] or earlier[name]
    results["notes"] = [*earlier["notes"], *results["notes"]]


def write_results(path: Path, results: dict[str, Any]) -> None:
    """Writes JSON and page, and prints the beginning of the page. `path` has no suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Path(f"{path}.json").write_text(json.dumps(results, indent=1) + "\n")
    page = as_page(results)
    Path(f"{path}.md").write_text(page)
    print("\n".join(page.splitlines()[:60]))


if __name__ == "__main__":
    sys.exit(main())
