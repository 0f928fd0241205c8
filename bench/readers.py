"""Measures the readers: makes nccl-tests logs of a given size, reads them, and prints MB/s and peak memory.

Usage: python bench/readers.py [MEGABYTES]    (1000 without; the log goes to a temporary folder)
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


def text(size_bytes: int, step: int) -> str:
    """Returns the columns of one placement: a slightly varying time and its bandwidths."""
    time_us = round(20 + size_bytes / 3e5 + step % 97 / 50, 2)
    algbw = size_bytes / time_us / 1e3
    return f"{time_us:>8.2f}  {algbw:>6.2f}  {algbw * 1.5:>6.2f}       0"


def write(path: Path, megabytes: int, prefix: str, rows_per_table: int) -> None:
    """Writes tables until the file has the given size."""
    with path.open("w") as out:
        step = 0
        while out.tell() < megabytes * 1_000_000:
            lines = HEAD.splitlines()
            for at in range(rows_per_table):
                step += 1
                size = 8 << at % 31
                lines.append(
                    f"{size:>12}  {size // 4:>12}     float     sum      -1  {text(size, step)}  {text(size, step + 7)}"
                )
            lines += FOOT.splitlines()
            out.write("".join(f"{prefix}{line}\n" for line in lines))


def main() -> None:
    """Reads each kind of log in a separate process, for a separate peak memory."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    kinds = {
        "plain, tables of 31 rows": ("", 31),
        "plain, one table": ("", 1 << 40),
        "mpirun's tags": ("[1,0]<stdout>:", 31),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, (prefix, rows) in kinds.items():
            path = Path(folder) / "log.txt"
            rows = min(rows, megabytes * 1_000_000 // 125)
            write(path, megabytes, prefix, rows)
            done = subprocess.run(
                [sys.executable, __file__, "--read", path], capture_output=True, text=True, check=True
            )
            print(f"{name}: {done.stdout.strip()}", flush=True)


def read(path: Path) -> None:
    """Reads one log through the public interface, without keeping rows."""
    from busbw import readers

    before, before_cpu = time.perf_counter(), time.process_time()
    rows = refused = 0
    for event in readers.stream(path):
        if isinstance(event, readers.TableChunk):
            rows += len(event.table.rows)
        else:
            refused += 1
    seconds, cpu = time.perf_counter() - before, time.process_time() - before_cpu
    megabytes = path.stat().st_size / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    speed = f"{megabytes / seconds:.1f} MB/s ({megabytes / cpu:.1f} per second of CPU)"
    print(f"{megabytes:.0f} MB, {rows} rows, {refused} refused: {speed}, peak {peak:.0f} MiB")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--read"]:
        read(Path(sys.argv[2]))
    else:
        main()
