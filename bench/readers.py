"""Measures the readers: makes nccl-tests logs of a given size, reads them, and prints MB/s and peak memory.

Usage: python bench/readers.py [MEGABYTES]    (default 1000; the log is written to a temporary folder)
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HEAD = """# nccl-tests version 2.19.6 nccl-headers=22809 nccl-library=22809
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 4 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 1 iters: 20
#
# Using devices
#  Rank  0 Group  0 Pid    895 on         vm device  0 [0000:00:06] NVIDIA H200
#  Rank  1 Group  0 Pid    895 on         vm device  1 [0000:00:07] NVIDIA H200
#  Rank  2 Group  0 Pid    895 on         vm device  2 [0000:00:08] NVIDIA H200
#  Rank  3 Group  0 Pid    895 on         vm device  3 [0000:00:09] NVIDIA H200
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
"""
FOOT = """# Out of bounds values : 0 OK
# Avg bus bandwidth    : 1
#
# Collective test concluded: all_reduce_perf
#
"""

BYTES_PER_ROW = 125
"""Approximate length of a row, which determines the number of rows of a log with a single table."""


def placement_columns(size_bytes: int, row_number: int) -> str:
    """Returns the columns of one placement: a slightly varying time and its bandwidths."""
    time_us = round(20 + size_bytes / 3e5 + row_number % 97 / 50, 2)
    algbw = size_bytes / time_us / 1e3
    return f"{time_us:>8.2f}  {algbw:>6.2f}  {algbw * 1.5:>6.2f}       0"


def write_log(path: Path, megabytes: int, prefix: str, rows_per_table: int) -> None:
    """Writes tables until the file has the given size. `prefix` precedes each line, as under mpirun."""
    with path.open("w") as out:
        row_number = 0
        while out.tell() < megabytes * 1_000_000:
            lines = HEAD.splitlines()
            for row_in_table in range(rows_per_table):
                row_number += 1
                size = 8 << row_in_table % 31
                out_of_place = placement_columns(size, row_number)
                in_place = placement_columns(size, row_number + 7)
                lines.append(f"{size:>12}  {size // 4:>12}     float     sum      -1  {out_of_place}  {in_place}")
            lines += FOOT.splitlines()
            out.write("".join(f"{prefix}{line}\n" for line in lines))


def main() -> None:
    """Reads each kind of log in a separate process, because peak memory is counted per process."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    kinds = {
        "plain, tables of 31 rows": ("", 31),
        "plain, one table": ("", 1 << 40),
        "mpirun's tags": ("[1,0]<stdout>:", 31),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, (prefix, rows_per_table) in kinds.items():
            path = Path(folder) / "log.txt"
            rows = min(rows_per_table, megabytes * 1_000_000 // BYTES_PER_ROW)
            write_log(path, megabytes, prefix, rows)
            done = subprocess.run(
                [sys.executable, __file__, "--read", path], capture_output=True, text=True, check=True
            )
            print(f"{name}: {done.stdout.strip()}", flush=True)


def read_log(path: Path) -> None:
    """Reads one log through the public interface, without keeping rows."""
    from busbw import readers

    start_s, start_cpu_s = time.perf_counter(), time.process_time()
    rows = refused = 0
    for event in readers.stream(path):
        if isinstance(event, readers.TableChunk):
            rows += len(event.table.rows)
        else:
            refused += 1
    wall_s, cpu_s = time.perf_counter() - start_s, time.process_time() - start_cpu_s
    megabytes = path.stat().st_size / 1e6
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    speed = f"{megabytes / wall_s:.1f} MB/s ({megabytes / cpu_s:.1f} per second of CPU)"
    print(f"{megabytes:.0f} MB, {rows} rows, {refused} refused: {speed}, peak {peak_mib:.0f} MiB")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--read"]:
        read_log(Path(sys.argv[2]))
    else:
        main()
