"""The GPU engine beside nccl-tests on the same machine: time by size, wall time, repeatability.

    python bench/gpu_parity.py --programs .venv/bin --nccl-tests FOLDER --results bench/results/h200-x4-parity

Both sides get the same flags and run in turns, in rounds, until every collective has had its rounds or --budget-s is
spent; what was measured until then is written. nccl-tests is built by whoever wants the comparison; both must find the
same NCCL library. Where nccl-tests is built without MPI (no --mpirun), its side of "processes" is threads (-t).
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from gpu_programs import NcclTests, Ours, RunError, machine_line, provenance, run, size_text

COLLECTIVES = "all_reduce,all_gather,reduce_scatter,alltoall,sendrecv,broadcast"
# Up to 64 MiB many iterations cost little; above, a few that last milliseconds do.
BANDS = {
    "small": ["-b", "8", "-e", "64M", "-f", "2", "-n", "100", "-w", "20", "-c", "0"],
    "large": ["-b", "128M", "-e", "8G", "-f", "2", "-n", "10", "-w", "5", "-c", "0"],
}
TRIAL_BANDS = {
    "small": ["-b", "8", "-e", "512K", "-f", "64", "-n", "5", "-c", "0"],
    "large": ["-b", "1M", "-e", "4M", "-f", "2", "-n", "2", "-c", "0"],
}
WHOLE_SWEEP = ["-b", "8", "-e", "8G", "-f", "2", "-c", "1"]
SPREAD = ["-b", "1K", "-e", "1M", "-f", "32", "-c", "0"]
LARGE_BYTES = 1 << 20
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


def parity(
    sides: dict[str, dict[str, Any]], arguments: argparse.Namespace, gpus: int, budget: Budget
) -> list[dict[str, Any]]:
    """Both sides of each way in turns, a round of everything at a time; a row for each size and placement."""
    kept: dict[tuple[str, str, str], Times] = {}
    bands = TRIAL_BANDS if arguments.backend == "host" else BANDS
    for turn in range(arguments.rounds):
        for way in sides:
            for collective in arguments.collectives.split(","):
                for band, flags in bands.items():
                    if not budget.allows(f"round {turn + 1}, {way}, {collective}, {band}"):
                        continue
                    ranks = [{"g": "-g", "t": "-t", "processes": "--processes"}[way], str(gpus)]
                    both: dict[str, dict[tuple[int, str], float]] = {}
                    for side in sorted(sides[way], reverse=turn % 2 == 1):
                        command = sides[way][side].command(collective, ranks, flags)
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


# ---- the page --------------------------------------------------------------------------------------------------------


def summary(rows: list[dict[str, Any]]) -> list[str]:
    """Ratios by way, collective and band."""
    lines = ["| ranks | collective | sizes | median | least | greatest |", "| --- | --- | --- | ---: | ---: | ---: |"]
    for way, collective in dict.fromkeys((row["way"], row["collective"]) for row in rows):
        for large, name in ((True, "1 MiB and above"), (False, "below 1 MiB")):
            found = [
                row["ratio"]
                for row in rows
                if (row["way"], row["collective"]) == (way, collective)
                and (row["size_bytes"] >= LARGE_BYTES) is large
                and row["ratio"] is not None
            ]
            if found:
                lines.append(
                    f"| {way} | {collective} | {name} | {statistics.median(found):.3f} | {min(found):.3f} | "
                    f"{max(found):.3f} |"
                )
    return lines


def as_page(results: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = [f"# busbw beside nccl-tests: {machine_line(results['provenance'])}", ""]
    lines += [
        f"{results['gpus']} GPUs, up to {results['rounds']} rounds, both programs in turns with the same flags. A",
        "ratio is busbw's `time` over nccl-tests', medians over the rounds. `g`: one process and one thread (-g); `t`:",
        f"threads (-t); `processes`: a process for each GPU (nccl-tests: {results['their_processes']}).",
        "",
        *summary(results["rows"]),
    ]
    if any(results["wall_s"].values()):
        lines += ["", f"Wall time of `all_reduce_perf -g {results['gpus']} {' '.join(WHOLE_SWEEP)}`, in seconds:", ""]
        for side, values in results["wall_s"].items():
            lines.append(f"- {side}: {', '.join(f'{value:.1f}' for value in values) or 'not measured'}")
    if results["repeatability"]:
        lines += [
            "",
            "Runs repeated: how far their figures lie apart (range over median; standard deviation over mean).",
        ]
        lines += ["", "| size | figure | runs | median (us) | range | deviation |"]
        lines += ["| ---: | --- | ---: | ---: | ---: | ---: |"]
        lines += [
            f"| {size_text(row['size_bytes'])} | {row['what']} | {row['runs']} | {row['median_us']:.2f} | "
            f"{row['range_percent']:.2f} % | {row['stdev_percent']:.2f} % |"
            for row in results["repeatability"]
        ]
    if results["left_out"]:
        lines += ["", f"Left out ({len(results['left_out'])}): {'; '.join(results['left_out'][:6])}"]
    lines += ["", "| ranks | collective | size | placement | rounds | busbw (us) | nccl-tests (us) | ratio |"]
    lines += ["| --- | --- | ---: | --- | ---: | ---: | ---: | ---: |"]
    for row in results["rows"]:
        ours, theirs = statistics.median(row["busbw_us"]), statistics.median(row["nccl_tests_us"])
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.3f}"
        lines.append(
            f"| {row['way']} | {row['collective']} | {size_text(row['size_bytes'])} | "
            f"{row['placement'].replace('_', ' ')} | {len(row['busbw_us'])} | {ours:.2f} | {theirs:.2f} | {ratio} |"
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measures and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=Path, required=True, help="busbw's")
    parser.add_argument("--nccl-tests", type=Path, required=True, help="nccl-tests'")
    parser.add_argument("--mpirun", default="", help="starts nccl-tests' processes, where it is built with MPI")
    parser.add_argument("--mpi-nccl-tests", type=Path, help="nccl-tests' programs with MPI (default: --nccl-tests)")
    parser.add_argument("--gpus", type=int, help="default: all")
    parser.add_argument("--ways", default="g,processes", help="g, t, processes: how ranks are made")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--collectives", default=COLLECTIVES)
    parser.add_argument("--parts", default="wall,spread,parity", help="which, in this order")
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--budget-s", type=float, default=300, help="nothing is started after so long")
    parser.add_argument("--results", type=Path, required=True, help="path without suffix; .json and .md are written")
    parser.add_argument("--backend", default="nccl", choices=["nccl", "host"], help="host: try it out, both sides ours")
    arguments = parser.parse_args()
    trial = arguments.backend == "host"
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
            "rounds": arguments.rounds,
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
                    results["rows"] = parity(
                        {way: processes if way == "processes" else sides for way in arguments.ways.split(",")},
                        arguments,
                        gpus,
                        budget,
                    )
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
