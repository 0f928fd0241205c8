"""Measures the speed of busbw and its peers in one run: `make bench`.

Each comparison alternates the two sides, so that a drift of the machine's speed favors neither. It reports the median
of the ratios of neighboring runs. The tables, which the docs quote, go to bench/results/. The folder --build has the
built programs of bench/programs/, such as bare_loop.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from gpu_programs import version_text

ROUNDS = 9
OVERHEAD_PAIRS = 31  # some runs take up to five times longer, because both threads share a core
MPI_ROUNDS = 5
MPI_SIZES = (1 << 20, 64 << 20, 4)  # first and last size in bytes, and the factor between sizes
MEMBER_COUNTS = (16, 64, 256, 1024, 2048, 4096)  # processes of a job, for the rendezvous
MEMBER_PROCESSES = 4  # processes for the members, besides the process of the first member
RENDEZVOUS_ROUNDS = 5
HERE = Path(__file__).parent


def run(command: list[str], **kwargs: Any) -> str:
    """Runs a command and returns its stdout; raises if the command fails."""
    done: subprocess.CompletedProcess[str] = subprocess.run(
        command, check=True, capture_output=True, text=True, **kwargs
    )
    return done.stdout


def records_of(program: Path, flags: list[str]) -> list[dict[str, Any]]:
    """Runs a program and returns its records."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        run([str(program), *flags, "--records", str(path)])
        return [json.loads(line) for line in path.read_text().splitlines()]


def rows_of(program: Path, flags: list[str]) -> list[dict[str, Any]]:
    """Runs a program and returns its row records."""
    return [record for record in records_of(program, flags) if record["kind"] == "row"]


def measure_overhead(programs: Path, build: Path) -> dict[str, Any]:
    """Compares the engine with a bare loop: 8-byte all-reduce of 2 ranks on the same backend, alternating."""
    iterations = 200_000
    flags = ["-t", "2", "-b", "8", "-e", "8", "-n", str(iterations), "-w", "20000", "-c", "0", "--placement", "out"]
    # Each entry runs one side and returns its time per operation.
    measure_us: dict[str, Callable[[], float]] = {
        "bare": lambda: float(run([str(build / "bare_loop"), "2", str(iterations)])),
        "engine": lambda: float(rows_of(programs / "all_reduce_perf", flags)[0]["time_us"]),
    }
    times_us: dict[str, list[float]] = {"bare": [], "engine": []}
    for pair in range(OVERHEAD_PAIRS):
        for side in sorted(measure_us, reverse=pair % 2 == 1):  # each side is first in every other pair
            times_us[side].append(measure_us[side]())
    ratios = [engine / bare for engine, bare in zip(times_us["engine"], times_us["bare"], strict=True)]
    low, median, high = statistics.quantiles(ratios, n=4)
    return {
        "engine_us": statistics.median(times_us["engine"]),
        "bare_us": statistics.median(times_us["bare"]),
        "engine_us_min": min(times_us["engine"]),
        "bare_us_min": min(times_us["bare"]),
        "ratio_median": median,
        "ratio_quartiles": [low, high],
        "rounds": OVERHEAD_PAIRS,
    }


def measure_startup(programs: Path) -> dict[str, Any]:
    """Measures the milliseconds from the start of the program to its first row."""
    times_ms = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        with subprocess.Popen(
            [str(programs / "all_reduce_perf"), "-t", "4", "-b", "8", "-e", "8"], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if not line.startswith("#") and line.strip():
                    times_ms.append((time.perf_counter() - start) * 1e3)
    return {"first_row_ms_median": statistics.median(times_ms), "first_row_ms_max": max(times_ms), "rounds": ROUNDS}


def measure_check(build: Path) -> dict[str, Any]:
    """Measures the check of 1 GiB of float sums per rank at 4 ranks, and plain reads of the same memory."""
    speeds = [json.loads(run([str(build / "check_speed")])) for _ in range(3)]
    result: dict[str, Any] = {
        key: statistics.median(speed[key] for speed in speeds) for key in ("read_gbps", "compare_gbps", "fill_gbps")
    }
    ratios = [speed["compare_gbps"] / speed["read_gbps"] for speed in speeds]
    result["compare_over_read_median"] = statistics.median(ratios)
    return result


def measure_output(programs: Path, build: Path) -> dict[str, Any]:
    """Measures the time to write 1,000 sizes with all samples, relative to the time of their measurement."""
    with tempfile.TemporaryDirectory() as folder:
        costs_s = [float(run([str(build / "output_cost"), f"{folder}/{i}.jsonl"])) for i in range(ROUNDS)]
    flags = ["-t", "4", "-b", "4K", "-e", "4000K", "-i", "4K", "-c", "0"]
    rows = rows_of(programs / "all_reduce_perf", flags)
    measured_s = sum(sum(row["samples_us"][0]) for row in rows) * 1e-6
    cost_s = statistics.median(costs_s)
    return {"rows": len(rows), "output_s": cost_s, "measured_s": measured_s, "share": cost_s / measured_s}


def compare_with_open_mpi(programs: Path, mpi: Path, build: Path) -> dict[str, Any]:
    """Compares the all-reduce of 4 float ranks with Open MPI, by size."""
    peer = build / "mpi_all_reduce"
    run([str(mpi / "mpicc"), "-O3", "-o", str(peer), str(HERE / "programs" / "mpi_all_reduce.c")])
    first, last, factor = MPI_SIZES
    iterations = "20"
    flags = ["-t", "4", "-b", str(first), "-e", str(last), "-f", str(factor), "-n", iterations, "-c", "0"]
    mpirun = [str(mpi / "mpirun"), "--allow-run-as-root", "--oversubscribe", "-np", "4", str(peer)]
    busbw_us: dict[int, list[float]] = {}  # by size, one time per round
    open_mpi_us: dict[int, list[float]] = {}
    for _ in range(MPI_ROUNDS):
        for row in rows_of(programs / "all_reduce_perf", [*flags, "--placement", "out"]):
            busbw_us.setdefault(row["size_bytes"], []).append(row["stats"]["median_us"])
        for line in run([*mpirun, str(first), str(last), str(factor), iterations]).splitlines():
            size, time_us = line.split()
            open_mpi_us.setdefault(int(size), []).append(float(time_us))
    version = run([str(mpi / "mpirun"), "--version"]).splitlines()[0]
    return {
        "peer": version,
        "sizes": [
            {
                "size_bytes": size,
                "busbw_us": statistics.median(busbw_us[size]),
                "open_mpi_us": statistics.median(open_mpi_us[size]),
                "ratio_median": statistics.median(
                    busbw / open_mpi for busbw, open_mpi in zip(busbw_us[size], open_mpi_us[size], strict=True)
                ),
            }
            for size in sorted(busbw_us)
        ],
    }


def measure_rendezvous(build: Path, members: int) -> dict[str, Any]:
    """Measures rendezvous, barrier and gather of many processes over loopback: median and maximum of each figure.

    A member stands for one process of a job. It is a thread with its own connections, in a few processes. So all
    members share the processors with process 0; on a cluster they do not.
    """
    command = [str(build / "rendezvous"), str(members), str(MEMBER_PROCESSES)]
    runs = [json.loads(run(command)) for _ in range(RENDEZVOUS_ROUNDS)]
    result: dict[str, Any] = {"members": members}
    for figure in ("rendezvous_s", "barrier_s", "gather_s", "peak_bytes"):
        values = [figures[figure] for figures in runs]
        result |= {figure: statistics.median(values), f"{figure}_max": max(values)}
    return result


def target_text(target: str, *, met: bool) -> str:
    """Returns the last cell of a row, which marks a missed target."""
    return target if met else f"{target}: **missed**"


def as_table(results: dict[str, Any]) -> str:
    """Returns the results as Markdown."""
    lines = [f"# {results['machine']}, {results['date']}, busbw {results['version']}", ""]
    lines += ["| what | figure | target |", "| --- | --- | --- |"]
    engine, start, check, output = (results[name] for name in ("overhead", "startup", "check_speed", "output_cost"))
    low, high = engine["ratio_quartiles"]
    lines.append(
        "| 8-byte all-reduce, 2 ranks, engine over bare loop "
        f"(median of {engine['rounds']} pairs' ratios, quartiles) "
        f"| {engine['ratio_median']:.3f} ({low:.3f} to {high:.3f}); medians "
        f"{engine['engine_us']:.3f} and {engine['bare_us']:.3f} us, "
        f"least {engine['engine_us_min']:.4f} and {engine['bare_us_min']:.4f} us "
        f"| {target_text('at most 1.03', met=engine['ratio_median'] <= 1.03)} |"
    )
    lines.append(
        f"| start to first row (median of {start['rounds']}) | {start['first_row_ms_median']:.1f} ms | "
        f"{target_text('at most 100 ms', met=start['first_row_ms_median'] <= 100)} |"
    )
    lines.append(
        f"| checking 1 GiB of float sums at 4 ranks, over reading that memory | {check['compare_gbps']:.1f} / "
        f"{check['read_gbps']:.1f} GB/s = {check['compare_over_read_median']:.2f} | "
        f"{target_text('at least 0.5', met=check['compare_over_read_median'] >= 0.5)} |"
    )
    lines.append(
        f"| output of 1,000 sizes with all samples, over measured time | {output['output_s'] * 1e3:.0f} ms / "
        f"{output['measured_s']:.2f} s = {output['share'] * 100:.2f} % | "
        f"{target_text('at most 2 %', met=output['share'] <= 0.02)} |"
    )
    if "open_mpi" in results:
        lines += [
            "",
            f"All-reduce, 4 float ranks, out of place, median time, beside {results['open_mpi']['peer']}:",
            "",
        ]
        lines += [
            "| bytes | busbw host backend (us) | Open MPI (us) | ratio | target |",
            "| ---: | ---: | ---: | ---: | --- |",
        ]
        lines += [
            f"| {row['size_bytes']} | {row['busbw_us']:.0f} | {row['open_mpi_us']:.0f} | {row['ratio_median']:.2f} | "
            f"{target_text('at most 1', met=row['ratio_median'] <= 1)} |"
            for row in results["open_mpi"]["sizes"]
        ]
    return "\n".join(lines) + "\n"


def as_rendezvous_table(results: dict[str, Any]) -> str:
    """Returns the results of the rendezvous as Markdown."""
    lines = [
        f"# {results['machine']}, {results['date']}",
        "",
        f"Processes of one rank each over loopback, as threads of {MEMBER_PROCESSES} processes and the first member's "
        f"own. Medians of {RENDEZVOUS_ROUNDS} runs, in brackets the greatest; load on the machine before: "
        f"{results['load_before']:.1f}. Targets at 4,096: rendezvous under 5 s, barrier under 1 s.",
        "",
        "| processes | rendezvous (s) | barrier (ms) | gather of 20 samples a rank (ms) "
        "| peak memory of process 0 (MB) |",
        "| ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in results["sizes"]:
        lines.append(
            f"| {row['members']:,} | {row['rendezvous_s']:.2f} ({row['rendezvous_s_max']:.2f}) "
            f"| {row['barrier_s'] * 1e3:.1f} ({row['barrier_s_max'] * 1e3:.1f}) "
            f"| {row['gather_s'] * 1e3:.1f} ({row['gather_s_max'] * 1e3:.1f}) "
            f"| {row['peak_bytes'] / 1e6:.1f} ({row['peak_bytes_max'] / 1e6:.1f}) |"
        )
    return "\n".join(lines) + "\n"


def cpu_name() -> str:
    """Returns the name of the processor from /proc/cpuinfo, or the architecture if the file has no name."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def main() -> int:
    """Measures everything and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=Path, required=True, help="folder with busbw-engine and the eleven names")
    parser.add_argument("--build", type=Path, required=True, help="folder with the programs built from bench/*.cpp")
    parser.add_argument("--mpi", type=Path, help="folder with Open MPI's mpicc and mpirun (default: no peer)")
    parser.add_argument("--results", type=Path, default=HERE / "results", help="folder for the tables")
    arguments = parser.parse_args()

    results: dict[str, Any] = {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "machine": f"{os.cpu_count()} x {cpu_name()}",
        "version": version_text(
            records_of(arguments.programs / "all_reduce_perf", ["-b", "8", "-e", "8", "-n", "1"])[0]
        ),
    }
    steps: dict[str, Callable[[], dict[str, Any]]] = {
        "overhead": lambda: measure_overhead(arguments.programs, arguments.build),
        "startup": lambda: measure_startup(arguments.programs),
        "check_speed": lambda: measure_check(arguments.build),
        "output_cost": lambda: measure_output(arguments.programs, arguments.build),
    }
    if arguments.mpi:
        steps["open_mpi"] = lambda: compare_with_open_mpi(arguments.programs, arguments.mpi, arguments.build)
    for name, step in steps.items():
        print(f"measuring {name} ...", file=sys.stderr)
        results[name] = step()
    print("measuring rendezvous ...", file=sys.stderr)
    results["load_before"] = os.getloadavg()[0]
    results["sizes"] = [measure_rendezvous(arguments.build, members) for members in MEMBER_COUNTS]
    arguments.results.mkdir(parents=True, exist_ok=True)
    for name, table in (("host.md", as_table(results)), ("rendezvous.md", as_rendezvous_table(results))):
        (arguments.results / name).write_text(table)
        print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
