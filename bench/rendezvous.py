"""Measures the rendezvous of many processes over loopback, by their number. Part of `make bench`.

A member stands for one process of a job. It is a thread with its own connections, in a few processes on this machine.
So all members share the processors with process 0; on a cluster they do not. The table goes to bench/results/.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from bench import HERE, cpu_name

MEMBER_COUNTS = (16, 64, 256, 1024, 2048, 4096)
PROCESSES = 4  # processes for the members, besides the process of the first member
ROUNDS = 5
FIGURE_NAMES = ("rendezvous_s", "barrier_s", "gather_s", "peak_bytes")


def measure(program: Path, members: int) -> dict[str, Any]:
    """Returns the median and the maximum of each figure over ROUNDS runs."""
    runs = []
    for _ in range(ROUNDS):
        done = subprocess.run([str(program), str(members), str(PROCESSES)], check=True, capture_output=True, text=True)
        runs.append(json.loads(done.stdout))
    result: dict[str, Any] = {"members": members}
    for figure in FIGURE_NAMES:
        values = [run[figure] for run in runs]
        result[figure] = statistics.median(values)
        result[f"{figure}_max"] = max(values)
    return result


def as_table(results: dict[str, Any]) -> str:
    """Returns the results as Markdown."""
    lines = [
        f"# {results['machine']}, {results['date']}",
        "",
        f"Processes of one rank each over loopback, as threads of {PROCESSES} processes and the first member's own. "
        f"Medians of {ROUNDS} runs, in brackets the greatest; load on the machine before: "
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


def main() -> int:
    """Measures, and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, required=True, help="folder with the programs built from bench/*.cpp")
    parser.add_argument("--results", type=Path, default=HERE / "results", help="folder for the table")
    arguments = parser.parse_args()
    results: dict[str, Any] = {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "machine": f"{os.cpu_count()} x {cpu_name()}",
        "load_before": os.getloadavg()[0],
        "sizes": [],
    }
    for members in MEMBER_COUNTS:
        print(f"measuring the rendezvous of {members} processes ...", file=sys.stderr)
        results["sizes"].append(measure(arguments.build / "rendezvous", members))
    table = as_table(results)
    arguments.results.mkdir(parents=True, exist_ok=True)
    (arguments.results / "rendezvous.md").write_text(table)
    print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
