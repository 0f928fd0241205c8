"""Compares the GPU engine with nccl-tests on one machine: time by size, wall time, repeatability.

    python bench/gpu_parity.py --programs .venv/bin --nccl-tests FOLDER --results build/bench-results/h200-x4-parity

Both programs get the same flags and alternate in rounds, each of them first equally often. Each run repeats its sizes
several times (-N). After the planned rounds, the rest of --budget-s goes to more rounds of the undecided sizes. A round
that would not end in time is not started.

    --measure g:all:latency:5 --measure processes:sendrecv,broadcast:plateau,large:1 --add-to EARLIER.json

selects launch modes, collectives, bands of sizes and rounds. --add-to adds the rounds to those of an earlier call on an
equal machine. The user must build nccl-tests; both programs must find the same NCCL library. Without MPI (no --mpirun),
nccl-tests uses threads (-t) for "processes". Run this script with a Python that has busbw.
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
from gpu_parity_rounds import BANDS, CHECKED, RUN_TIMEOUT_S, WAYS, Budget, Rounds, RowCollection, measures
from gpu_programs import BusbwPrograms, NcclTests, RunError, provenance, run

from busbw.errors import ExitCode

MEASURE = ["g,processes:all:large:2", "g,processes:all:latency:2"]
SPREAD = ["-b", "1K", "-e", "1M", "-f", "32", "-c", "0"]
EQUAL_FACTS = ("nccl_version", "cuda_driver", "driver")
"""Facts that must be equal before rounds are merged, besides GPUs and busbw's version."""


def wall_times(sides: dict[str, Any], gpus: int, budget: Budget, trial: bool) -> dict[str, list[float]]:
    """Measures the wall time of the whole sweep with checks, twice per program, alternating."""
    found: dict[str, list[float]] = {side: [] for side in sides}
    flags = ["-b", "8M", "-e", "8M", "-n", "1", "-c", "0"] if trial else WHOLE_SWEEP
    for turn in range(2):
        for side in sorted(sides, reverse=turn == 1):
            if budget.allows(f"whole sweep {turn + 1} of {side}"):
                command = sides[side].command("all_reduce", ["-g", str(gpus)], flags)
                found[side].append(run(command, RUN_TIMEOUT_S).wall_s)
    return found


def spread_of(values: list[float]) -> dict[str, Any]:
    """Returns (max - min) / median, and standard deviation / mean, in percent."""
    return {
        "values_us": values,
        "median_us": statistics.median(values),
        "range_percent": 100 * (max(values) - min(values)) / statistics.median(values),
        "stdev_percent": 100 * statistics.stdev(values) / statistics.mean(values),
    }


def repeatability(sides: dict[str, Any], runs: int, gpus: int, budget: Budget, folder: Path) -> list[dict[str, Any]]:
    """Repeats the runs of each program, and returns the spread of its figures."""
    values: dict[tuple[str, int, str], list[float]] = {}
    for turn in range(runs):
        for side in sorted(sides, reverse=turn % 2 == 1):
            if not budget.allows(f"repetition {turn + 1} of {side}"):
                continue
            record = folder / "spread.jsonl" if side == "busbw" else None
            done = run(sides[side].command("all_reduce", ["-g", str(gpus)], SPREAD), RUN_TIMEOUT_S, record)
            for (size, placement), cycles in done.times_us.items():
                if placement == "out_of_place":
                    name = "nccl-tests: time" if side == "nccl-tests" else "busbw: time"
                    values.setdefault((name, size, placement), []).extend(cycles)
            for row in done.records:
                if row["kind"] == "row" and row["placement"] == "out_of_place":
                    key = ("busbw: median", row["size_bytes"], row["placement"])
                    values.setdefault(key, []).append(row["stats"]["median_us"])
                    if (device := row.get("device_time_us")) is not None:
                        key = ("busbw: device time", row["size_bytes"], row["placement"])
                        values.setdefault(key, []).append(device)
    return [
        {"what": figure, "size_bytes": size, "runs": len(found), **spread_of(found)}
        for (figure, size, _), found in sorted(values.items(), key=lambda item: (item[0][1], item[0][0]))
        if len(found) > 1
    ]


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Lists settings that must be equal before rounds of two results may be merged."""
    different = [name for name in ("machine", "busbw") if before["provenance"][name] != now["provenance"][name]]
    facts = [each["provenance"]["facts"] for each in (before, now)]
    different += [name for name in EQUAL_FACTS if facts[0].get(name) != facts[1].get(name)]
    return [
        *different,
        *(name for name in ("gpus", "their_processes", "large_flags") if before.get(name) != now.get(name)),
    ]


def main() -> int:
    """Measures, and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=Path, required=True, help="folder of busbw's programs")
    parser.add_argument("--nccl-tests", type=Path, required=True, help="folder of nccl-tests' programs")
    parser.add_argument("--mpirun", default="", help="command that starts nccl-tests' processes, if built with MPI")
    parser.add_argument("--mpi-nccl-tests", type=Path, help="nccl-tests' programs with MPI (default: --nccl-tests)")
    parser.add_argument("--gpus", type=int, help="default: all")
    parser.add_argument(
        "--measure",
        type=measures,
        action="append",
        metavar="WAYS:COLLECTIVES:BANDS:ROUNDS",
        help=f"WAYS: {', '.join(WAYS)}; BANDS: {', '.join(BANDS)}; repeatable (default: {' '.join(MEASURE)})",
    )
    parser.add_argument(
        "--factor", type=int, choices=[2, 4], default=2, help="factor between sizes; 4 takes every other"
    )
    parser.add_argument("--add-to", type=Path, metavar="JSON", help="earlier results to extend")
    parser.add_argument("--note", action="append", default=[], help="sentence for the page; repeatable")
    parser.add_argument("--parts", default="wall,spread,parity", help="parts to run, in this order")
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--budget-s", type=float, default=300, help="seconds; no start that would end later")
    parser.add_argument("--results", type=Path, required=True, help="output path without suffix, for .json and .md")
    parser.add_argument(
        "--backend", default="nccl", choices=["nccl", "host"], help="host: test this program, with busbw on both sides"
    )
    arguments = parser.parse_args()
    trial = arguments.backend == "host"
    requested = arguments.measure or map(measures, MEASURE)
    wanted = [replace(each, factor=arguments.factor) for found in requested for each in found]
    ours = BusbwPrograms(arguments.programs.resolve(), arguments.backend)
    theirs: Any = ours if trial else NcclTests(arguments.nccl_tests.resolve())
    sides: dict[str, Any] = {"busbw": ours, "nccl-tests": theirs}
    processes = sides
    if arguments.mpirun:
        folder = (arguments.mpi_nccl_tests or arguments.nccl_tests).resolve()
        processes = {**sides, "nccl-tests": NcclTests(folder, tuple(shlex.split(arguments.mpirun)))}
    gpus = arguments.gpus or ours.gpus()
    budget = Budget(arguments.budget_s)
    before = json.loads(arguments.add_to.read_text()) if arguments.add_to else None
    collection = RowCollection(before["rows"] if before else ())
    rows_before = json.dumps(collection.rows())
    code = ExitCode.GOOD
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        results: dict[str, Any] = {
            "provenance": provenance(ours, gpus, folder),
            "gpus": gpus,
            "notes": arguments.note,
            "their_processes": "processes under mpirun" if arguments.mpirun else "threads, -t",
            "large_flags": list(CHECKED),
            "wall_s": {},
            "repeatability": [],
            "rows": [],
            "left_out": budget.left_out,
        }
        if before and (different := differences(before, results)):
            parser.error(f"--add-to {arguments.add_to}: different {', '.join(different)}; measure without it")
        try:
            for part in arguments.parts.split(","):
                if part == "wall":
                    results["wall_s"] = wall_times(sides, gpus, budget, trial)
                elif part == "spread":
                    results["repeatability"] = repeatability(sides, arguments.repetitions, gpus, budget, folder)
                elif part == "parity":
                    by_way = {way: processes if way == "processes" else sides for way in WAYS}
                    rounds = Rounds(by_way, gpus, budget, collection, trial)
                    rounds.planned(wanted)
                    rounds.more(wanted)
                else:
                    parser.error(f"--parts {part}: allowed are wall, spread and parity")
        except RunError as problem:
            budget.left_out.append(str(problem))
        except KeyboardInterrupt:
            budget.left_out.append("the rest: interrupted")
            code = ExitCode.INTERRUPTED
        results["rows"] = collection.rows()
        has_new_rows = json.dumps(results["rows"]) != rows_before
        if not has_new_rows and not any(results["wall_s"].values()) and not results["repeatability"]:
            reason = budget.left_out[-1] if budget.left_out else "no program gave a row"
            print(f"nothing was measured, so nothing was written; last skipped: {reason}", file=sys.stderr)
            return code or ExitCode.ENVIRONMENT
        if before:
            for name in ("wall_s", "repeatability"):
                results[name] = results[name] or before[name]
            results["notes"] = [*before["notes"], *results["notes"]]
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    Path(f"{arguments.results}.json").write_text(json.dumps(results, indent=1) + "\n")
    page = as_page(results)
    Path(f"{arguments.results}.md").write_text(page)
    print("\n".join(page.splitlines()[:60]))
    return code


if __name__ == "__main__":
    sys.exit(main())
