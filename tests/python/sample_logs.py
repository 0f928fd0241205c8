"""Logs for tests of exporters and views. Keyword arguments of each function replace fields of the default."""

from busbw.logs.log import Figure, Log, Rank, Refusal, Row, Table
from busbw.records import StatsRecord, WrongElement


def figure(time_us: float | None = 16.0, **changes: object) -> Figure:
    fields: dict[str, object] = {
        "time_us": time_us,
        "algbw_gbps": 0.5,
        "busbw_gbps": 0.75,
        "check": "checked",
        "wrong_elements": 0,
    }
    return Figure(**{**fields, **changes})  # type: ignore[arg-type]


def row(size_bytes: int = 8, line: int = 1, **changes: object) -> Row:
    fields: dict[str, object] = {
        "line": line,
        "collective": "all_reduce",
        "size_bytes": size_bytes,
        "count": size_bytes // 4,
        "dtype": "float",
        "redop": "sum",
        "ranks": 4,
        "figures": {"out_of_place": figure(), "in_place": figure(17.25)},
    }
    return Row(**{**fields, **changes})  # type: ignore[arg-type]


STATS = StatsRecord(
    samples=3,
    mean_us=16,
    median_us=15.5,
    p95_us=24,
    p99_us=24,
    min_us=12,
    max_us=24,
    stdev_us=5,
    cv_percent=31.25,
    median_ci95_us=(15, 17.5),
)


def table(**changes: object) -> Table:
    fields: dict[str, object] = {
        "format": "records 1.0",
        "program": "all_reduce_perf",
        "collective": "all_reduce",
        "command": "mpirun -H node17:4 /home/alice/bin/all_reduce_perf -b 8 -e 1G --records /data/alice/r.jsonl",
        "start_time": "2026-10-01T12:00:00+02:00",
        "program_version": "busbw 0.1.0",
        "library": "NCCL 2.28.9",
        "ranks": 4,
        "rank_list": tuple(
            Rank(
                rank=number,
                pid=54321 + number,
                host=f"node{17 + number // 2}.acme.example",
                device=number,
                bus_id=f"0000:{16 + number:02x}:00",
                device_name="NVIDIA H200",
            )
            for number in range(4)
        ),
        "settings": {"backend": "nccl", "run_id": "20261001T100000-node17-54321", "machine.kernel": "6.1-acme"},
        "environment": {"NCCL_SOCKET_IFNAME": "acme0", "USER": "alice", "NCCL_ALGO": "Ring"},
        "rows": (row(8), row(16, 2)),
        "complete": True,
    }
    return Table(**{**fields, **changes})  # type: ignore[arg-type]


def log(*tables: Table, **changes: object) -> Log:
    fields: dict[str, object] = {"source": "/home/alice/r.jsonl", "tables": tables or (table(),)}
    return Log(**{**fields, **changes})  # type: ignore[arg-type]


WRONG = figure(
    wrong_elements=5,
    first_wrong=(WrongElement(rank=1, place="result", index=7, expected="3 (0x40400000)", got="4 (0x40800000)"),),
    stats=STATS,
    warnings=("the times scatter by 31 %; pin the ranks to cores",),
)

AWKWARD = log(
    table(
        title="| a <b>heading</b> with `marks` & \x1b[31mescapes\x00 |",
        rows=(
            row(8, figures={"out_of_place": WRONG, "in_place": figure(None, busbw_gbps=None, algbw_gbps=None)}),
            row(8, 2, cycle=1),
            row(1 << 30, 3, dtype=None, redop=None, ranks=None, collective=None, variant='say "hi"\n=1+1'),
            row(64, 4, figures={"unstated": figure(check="unstated", wrong_elements=None)}),
            row(128, 5, figures={"in_place": figure(check="not_applicable", wrong_elements=None)}),
        ),
        complete=False,
        end_reason="rank 3 on node17 (pid 54321) was lost",
    ),
    table(program=None, collective=None, library=None, start_time=None, ranks=None, rank_list=(), rows=(row(),)),
    refused=(Refusal(line=9, text="node17:54321 [0] NCCL INFO secret", reason="3 columns are no row"),),
    warnings=("two logs are mixed; give each in a file",),
)
"""Log with missing values, wrong data, special characters, secrets and a refused line."""


_H200_HEADER = """# nccl-tests version 2.19.6 nccl-headers=22809 nccl-library=22809
# Collective test starting: {collective}_perf
# nThread 1 nGpus 4 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 1 iters: 20
#
# Using devices
{ranks}
#
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
"""
_H200_FOOTER = """# Out of bounds values : 0 OK
# Avg bus bandwidth    : {average:.6g}
#
# Collective test concluded: {collective}_perf
#
"""


def h200_run(times: float = 1.0, collective: str = "all_reduce", *, wrong: int = 0) -> str:
    """A run on 4 H200: 20 us, and 360 GB/s for large sizes, all of it `times` as slow."""
    ranks = "\n".join(
        f"#  Rank {rank:>2} Group  0 Pid    895 on         vm device {rank:>2} [0000:00:0{rank}] NVIDIA H200"
        for rank in range(4)
    )
    lines, busbws = [], []
    for power in range(3, 34, 2):
        size = 1 << power
        time_us = (20 + size / 240e3) * times
        busbws.append(1.5 * size / time_us / 1e3)
        figures = f"{time_us:.2f} {size / time_us / 1e3:.2f} {busbws[-1]:.2f}"
        lines.append(f"{size} {size // 4} float sum -1 {figures} {wrong} {figures} {wrong}\n")
    return (
        _H200_HEADER.format(collective=collective, ranks=ranks)
        + "".join(lines)
        + _H200_FOOTER.format(average=sum(busbws) / len(busbws), collective=collective)
    )
