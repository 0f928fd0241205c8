"""Repeats published tables of GPU machines on this machine. Writes a Markdown page and the records.

    python bench/gpu_tables.py ten  --programs .venv/bin --results build/bench-results/h200-x4-ten
    python bench/gpu_tables.py half --programs .venv/bin --results build/bench-results/h200-x4-half

ten: algbw of ten collectives from 1 MiB to 16 GiB by a factor of 4, as in a report on a server of eight H200s.
half: time of all-reduce and all-gather of halves in place, 1 KiB to 1 GiB, with CUDA graphs (-G 1) and one process for
each GPU, as in the NCCL columns of a page on ND H100 v5.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gpu_programs import BusbwPrograms, machine_line, provenance, run, size_text, without_paths

TEN = [
    "all_gather",
    "all_reduce",
    "alltoall",
    "broadcast",
    "gather",
    "hypercube",
    "reduce_scatter",
    "reduce",
    "scatter",
    "sendrecv",
]
RUN_TIMEOUT_S = 120.0

Rows = dict[str, dict[tuple[int, str], dict[str, Any]]]
"""Row records by collective, then by requested size and placement."""


def measure(ours: BusbwPrograms, table: PublishedTable, gpus: int, folder: Path) -> tuple[Rows, list[str]]:
    """Measures all collectives. Returns the rows of each, and all record lines without paths."""
    rows: Rows = {}
    lines = []
    flags = table.trial_flags if ours.backend == "host" else table.flags
    for collective in table.collectives:
        command = ours.command(collective, [table.rank_flag, str(gpus)], flags)
        completed = run(command, RUN_TIMEOUT_S, folder / f"{collective}.jsonl")
        lines += [json.dumps(without_paths(line), separators=(",", ":")) for line in completed.records]
        row_records = [record for record in completed.records if record["kind"] == "row"]
        rows[collective] = {(row["requested_bytes"], row["placement"]): row for row in row_records}
        print(f"{collective}: {completed.wall_s:.1f} s", file=sys.stderr)
    return rows, lines


def ten_table(rows: Rows) -> list[str]:
    """Returns a table of algbw out of place, with one line per size and one column per collective."""
    lines = ["algbw in GB/s, out of place:", ""]
    lines += [f"| size | {' | '.join(rows)} |", f"| ---: |{' ---: |' * len(rows)}"]
    for size in sizes_of(rows):
        values = [rows[collective].get((size, "out_of_place"), {}).get("algbw_gbps") for collective in rows]
        lines.append(table_line(size, values))
    return lines


def half_table(rows: Rows) -> list[str]:
    """Returns a table of time in place by size, with the device time if it is known."""
    all_rows = [row for rows_of_collective in rows.values() for row in rows_of_collective.values()]
    times = {"time_us": "time"}
    if any(row.get("device_time_us") is not None for row in all_rows):
        times["device_time_us"] = "device time"
    columns = [(collective, key) for collective in rows for key in times]
    titles = [f"{collective} {times[key]}" for collective, key in columns]
    lines = ["Time in us, in place:", "", f"| size | {' | '.join(titles)} |"]
    lines.append(f"| ---: |{' ---: |' * len(columns)}")
    for size in sizes_of(rows):
        values = [rows[collective].get((size, "in_place"), {}).get(key) for collective, key in columns]
        lines.append(table_line(size, values))
    return lines


def sizes_of(rows: Rows) -> list[int]:
    """Returns the requested sizes of all collectives in bytes, in order."""
    return sorted({size for rows_of_collective in rows.values() for size, _ in rows_of_collective})


def table_line(size_bytes: int, values: Sequence[float | None]) -> str:
    """Returns a line of the table. A cell is empty if its value is None."""
    cells = ["" if value is None else f"{value:.2f}" for value in values]
    return f"| {size_text(size_bytes)} | {' | '.join(cells)} |"


class PublishedTable(NamedTuple):
    """A published table and the flags that repeat it."""

    title: str
    collectives: list[str]
    rank_flag: str
    """Flag for the number of GPUs."""
    flags: list[str]
    trial_flags: list[str]
    """Flags on the host backend, in a test of this program."""
    make_table: Callable[[Rows], list[str]]


TABLES = {
    "ten": PublishedTable(
        title="Ten collectives",
        collectives=TEN,
        rank_flag="-g",
        flags=["-b", "1M", "-e", "16G", "-f", "4", "-n", "10", "-w", "2", "-c", "0"],
        trial_flags=["-b", "64K", "-e", "1M", "-f", "4", "-n", "2", "-c", "0"],
        make_table=ten_table,
    ),
    "half": PublishedTable(
        title="Halves in CUDA graphs",
        collectives=["all_reduce", "all_gather"],
        rank_flag="--processes",
        flags=["-d", "half", "-G", "1", "-b", "1K", "-e", "1G", "-f", "2", "-w", "20", "-n", "200", "-c", "0"],
        trial_flags=["-d", "half", "-b", "1K", "-e", "64K", "-f", "2", "-n", "20", "-c", "0"],
        make_table=half_table,
    ),
}


def main() -> None:
    """Measures, and writes the page and the records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--programs", type=Path, required=True)
    parser.add_argument("--gpus", type=int, help="default: all")
    parser.add_argument("--results", type=Path, required=True, help="output path without suffix, for .jsonl.gz and .md")
    parser.add_argument("--backend", default="nccl", choices=["nccl", "host"], help="host: test this program")
    arguments = parser.parse_args()
    ours = BusbwPrograms(arguments.programs.resolve(), arguments.backend)
    table = TABLES[arguments.table]
    gpus = arguments.gpus or ours.gpus()
    with tempfile.TemporaryDirectory() as scratch:
        facts = provenance(ours, gpus, Path(scratch))
        rows, lines = measure(ours, table, gpus, Path(scratch))
    page = [f"# {table.title}: {machine_line(facts)}", ""]
    page += [f"Every program with `{table.rank_flag} {gpus} {' '.join(table.flags)}`.", ""]
    page += table.make_table(rows)
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(f"{arguments.results}.jsonl.gz", "wt") as file:
        file.write("\n".join([json.dumps({"kind": "provenance", **facts}), *lines]) + "\n")
    Path(f"{arguments.results}.md").write_text("\n".join(page) + "\n")
    print("\n".join(page))


if __name__ == "__main__":
    main()
