"""The GPU engine beside nccl-tests on the same machine in one run: time by size, in turns, and the ratio of medians.

    python bench/gpu_parity.py --programs build/gpu --nccl-tests FOLDER --gpus 2 --results bench/results/h200-x2-parity

nccl-tests is built by whoever wants the comparison; both must find the same NCCL library.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

SWEEP = ["-b", "8", "-e", "4G", "-f", "4", "-c", "1"]
SMALL_BYTES = 1 << 20


def times_us(program: Path, flags: list[str]) -> dict[tuple[int, str], float]:
    """The time of each row by size and placement, from the table that both print."""
    done = subprocess.run([str(program), *flags], check=True, capture_output=True, text=True, timeout=300)
    found = {}
    for line in done.stdout.splitlines():
        words = line.split()
        if words and words[0].isdigit():
            found[int(words[0]), "out_of_place"] = float(words[5])
            found[int(words[0]), "in_place"] = float(words[9])
    return found


def parity(programs: Path, peer: Path, collective: str, gpus: int, rounds: int) -> list[dict[str, Any]]:
    """Both programs in turns; a row for each size and placement."""
    flags = ["-t", str(gpus), *SWEEP]
    ours: dict[tuple[int, str], list[float]] = {}
    theirs: dict[tuple[int, str], list[float]] = {}
    for turn in range(rounds):
        sides = [(programs, ours), (peer, theirs)]
        for folder, kept in sides if turn % 2 == 0 else reversed(sides):
            for key, time_us in times_us(folder / f"{collective}_perf", flags).items():
                kept.setdefault(key, []).append(time_us)
    return [
        {
            "collective": collective,
            "size_bytes": size,
            "placement": placement,
            "busbw_us": statistics.median(ours[size, placement]),
            "nccl_tests_us": statistics.median(theirs[size, placement]),
            "ratio": statistics.median(ours[size, placement]) / statistics.median(theirs[size, placement]),
        }
        for size, placement in sorted(ours)
    ]


def as_table(results: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = [f"# {results['machine']}, {results['date']}, busbw {results['version']}, NCCL {results['nccl']}", ""]
    lines += [
        f"One process, {results['gpus']} threads, {results['rounds']} runs of each program in turns; median times.",
        "",
    ]
    for name, chosen in (("1 MiB and above", True), ("below 1 MiB", False)):
        for collective in dict.fromkeys(row["collective"] for row in results["rows"]):
            ratios = [
                row["ratio"]
                for row in results["rows"]
                if row["collective"] == collective and (row["size_bytes"] >= SMALL_BYTES) is chosen
            ]
            lines.append(
                f"- {collective}, {name}: busbw over nccl-tests median {statistics.median(ratios):.3f}, "
                f"{min(ratios):.3f} to {max(ratios):.3f}"
            )
    lines += [
        "",
        "| collective | bytes | placement | busbw (us) | nccl-tests (us) | ratio |",
        "| --- | ---: | --- | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {row['collective']} | {row['size_bytes']} | {row['placement'].replace('_', ' ')} | {row['busbw_us']:.2f} | "
        f"{row['nccl_tests_us']:.2f} | {row['ratio']:.3f} |"
        for row in results["rows"]
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measures and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=Path, required=True)
    parser.add_argument("--nccl-tests", type=Path, required=True)
    parser.add_argument("--gpus", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--collectives", default="all_reduce,all_gather,sendrecv")
    parser.add_argument("--results", type=Path, required=True, help="path without suffix; .json and .md are written")
    arguments = parser.parse_args()
    devices = subprocess.run(
        [str(arguments.programs / "busbw-engine"), "--list-devices"], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    version = subprocess.run(
        [str(arguments.programs / "busbw-engine"), "--version"], check=True, capture_output=True, text=True
    ).stdout.split()[1]
    record = Path(f"{arguments.results}.jsonl")
    smallest = ["-t", str(arguments.gpus), "-b", "8", "-e", "8", "--records", str(record)]
    subprocess.run([str(arguments.programs / "all_reduce_perf"), *smallest], check=True, capture_output=True)
    facts = json.loads(record.read_text().splitlines()[0])["machine"]
    record.unlink()
    rows = []
    for collective in arguments.collectives.split(","):
        rows += parity(arguments.programs, arguments.nccl_tests, collective, arguments.gpus, arguments.rounds)
    results = {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "machine": f"{arguments.gpus} of {len(devices)} x {devices[0].split(' ', 2)[2]}",
        "nccl": facts["nccl_version"],
        "environment": {name: value for name, value in os.environ.items() if name.startswith("NCCL_")},
        "version": version,
        "gpus": arguments.gpus,
        "rounds": arguments.rounds,
        "rows": rows,
    }
    Path(f"{arguments.results}.json").write_text(json.dumps(results, indent=1) + "\n")
    Path(f"{arguments.results}.md").write_text(as_table(results))
    print(as_table(results))


if __name__ == "__main__":
    main()
