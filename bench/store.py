"""Measures the run store with a million rows: `python bench/store.py [ROWS] [FOLDER]`.

It writes runs of 125 rows (25 sizes, 5 types, both placements) as records, and indexes the runs. Then it times whole
commands, from the start of Python to the last line.
"""

import itertools
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import msgspec
import numpy as np

from busbw import records

GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "golden" / "records.jsonl"
SIZES = [8 << step for step in range(25)]
DTYPES = ("float", "half", "double", "int8", "bfloat16")
ROWS_PER_RUN = len(SIZES) * len(DTYPES)
COMMAND = [sys.executable, "-c", "import sys; from busbw.cli.main import main; sys.exit(main())"]
COMMANDS = (
    ["--help"],
    ["runs"],
    ["runs", "--collective", "all_reduce", "--dtype", "float", "--since", "2024-06-01"],
    ["runs", "--limit", "0"],
    ["runs", "--rows", "--collective", "all_reduce", "--dtype", "float", "--sizes", "1M..4M"],
    ["runs", "--rows", "--limit", "1000"],
    ["runs", "--rows", "--limit", "0", "--json"],
    ["history", "all_reduce", "--dtype", "float"],
    ["history", "all_reduce"],
)


def make_runs(store: Path, rows: int) -> None:
    """Writes runs that start one hour apart."""
    random = np.random.default_rng(1)
    golden = records.read(GOLDEN)
    golden_row = golden.rows[0]
    first_start = datetime(2024, 1, 1, tzinfo=timezone.utc)
    for run_number in range(rows // ROWS_PER_RUN):
        start_time = first_start + timedelta(hours=run_number)
        header = msgspec.structs.replace(golden.header, start_time=start_time.isoformat())
        lines = [msgspec.json.encode(header)]
        noise = random.lognormal(0, 0.02, 2 * ROWS_PER_RUN)  # factor of each time: about 2 % of scatter
        cases = itertools.product(DTYPES, SIZES, ("out_of_place", "in_place"))
        for (dtype, size, placement), factor in zip(cases, noise, strict=True):
            time_us = float((10 + size / 1e5) * factor)
            new_row = msgspec.structs.replace(
                golden_row,
                dtype=dtype,
                size_bytes=size,
                requested_bytes=size,
                placement=placement,
                time_us=time_us,
                algbw_gbps=size / time_us / 1e3,
                busbw_gbps=1.5 * size / time_us / 1e3,
                samples_us=[],
                warnings=[],
            )
            lines.append(msgspec.json.encode(new_row))
        folder = store / f"{start_time:%Y%m%dT%H%M%SZ}-all_reduce"
        folder.mkdir(parents=True)
        (folder / "records.jsonl").write_bytes(b"\n".join([*lines, b""]))


def measure_command(arguments: list[str], store: Path) -> tuple[float, int]:
    """Returns the wall time of the whole command in seconds, and its number of output lines."""
    start_s = time.perf_counter()
    environment = {"BUSBW_STORE": str(store), "PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [*COMMAND, *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True
    )
    return time.perf_counter() - start_s, done.stdout.count(b"\n")


def main() -> None:
    """Prints the minimum and maximum of three runs for each command."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    given_folder = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    store = given_folder or Path(tempfile.mkdtemp(prefix="busbw-store-"))
    try:
        if not (store / ".index.sqlite").exists():
            make_runs(store, rows)
            print(f"index built: {measure_command(['runs'], store)[0]:.1f} s for {rows:,} rows")
        for command in COMMANDS:
            runs = [measure_command(command, store) for _ in range(3)]
            print(f"{min(runs)[0]:6.2f} to {max(runs)[0]:.2f} s, {runs[0][1]:9,} lines: busbw {' '.join(command)}")
    finally:
        if given_folder is None:
            shutil.rmtree(store)


if __name__ == "__main__":
    main()
