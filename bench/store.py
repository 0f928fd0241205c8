"""How long the store takes with a million rows: `python bench/store.py [ROWS] [FOLDER]`.

Makes runs of 125 rows (25 sizes of 5 types, both placements) in the records' own format, indexes them, and times the
whole commands, from the start of Python to the last line.
"""

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
QUESTIONS = (
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
    """Runs one hour apart."""
    random = np.random.default_rng(1)
    model = records.read(GOLDEN)
    row = model.rows[0]
    start = datetime(2024, 1, 1, tzinfo=timezone.utc)
    for number in range(rows // ROWS_PER_RUN):
        moment = start + timedelta(hours=number)
        header = msgspec.structs.replace(model.header, start_time=moment.isoformat())
        lines = [msgspec.json.encode(header)]
        noise = random.lognormal(0, 0.02, 2 * ROWS_PER_RUN)
        cases = ((dtype, size, side) for dtype in DTYPES for size in SIZES for side in (0, 1))
        for (dtype, size, in_place), factor in zip(cases, noise, strict=True):
            time_us = float((10 + size / 1e5) * factor)
            made = msgspec.structs.replace(
                row,
                dtype=dtype,
                size_bytes=size,
                requested_bytes=size,
                placement="in_place" if in_place else "out_of_place",
                time_us=time_us,
                algbw_gbps=size / time_us / 1e3,
                busbw_gbps=1.5 * size / time_us / 1e3,
                samples_us=[],
                warnings=[],
            )
            lines.append(msgspec.json.encode(made))
        folder = store / f"{moment:%Y%m%dT%H%M%SZ}-all_reduce"
        folder.mkdir(parents=True)
        (folder / "records.jsonl").write_bytes(b"\n".join([*lines, b""]))


def timed(arguments: list[str], store: Path) -> tuple[float, int]:
    """Wall time of the whole command, and how many lines it printed."""
    begin = time.perf_counter()
    environment = {"BUSBW_STORE": str(store), "PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [*COMMAND, *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True
    )
    return time.perf_counter() - begin, done.stdout.count(b"\n")


def main() -> None:
    """Prints a line for each question: the best of three and the worst."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    named = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    store = named or Path(tempfile.mkdtemp(prefix="busbw-store-"))
    try:
        if not (store / ".index.sqlite").exists():
            make_runs(store, rows)
            print(f"index built: {timed(['runs'], store)[0]:.1f} s for {rows:,} rows")
        for question in QUESTIONS:
            took = [timed(question, store) for _ in range(3)]
            print(f"{min(took)[0]:6.2f} to {max(took)[0]:.2f} s, {took[0][1]:9,} lines: busbw {' '.join(question)}")
    finally:
        if named is None:
            shutil.rmtree(store)


if __name__ == "__main__":
    main()
