"""Writes large logs for readers.py, in each kind of format that busbw reads. All are of one machine."""

import json
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path
from statistics import mean

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
AVERAGE = """# Out of bounds values : 0 OK
# Avg bus bandwidth    : {:.2f}
#
"""
CONCLUSION = """# Collective test concluded: all_reduce_perf
#
"""
GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "golden"
SIZES = tuple(8 << power for power in range(31))
_RANKS = 4
_SAMPLES = 20


def time_us(size_bytes: int, row_number: int) -> float:
    """Returns a slightly varying time of an all-reduce on 4 H200."""
    return round(20 + size_bytes / 2.4e5 + row_number % 97 / 50, 2)


def busbw_gbps(size_bytes: int, row_number: int) -> float:
    """Returns the bus bandwidth of that all-reduce."""
    return 1.5 * size_bytes / time_us(size_bytes, row_number) / 1e3


def _placement_columns(size_bytes: int, row_number: int) -> str:
    busbw = busbw_gbps(size_bytes, row_number)
    return f"{time_us(size_bytes, row_number):>8.2f}  {busbw / 1.5:>6.2f}  {busbw:>6.2f}       0"


def _text_row(size_bytes: int, number: int) -> str:
    figures = f"{_placement_columns(size_bytes, number)}  {_placement_columns(size_bytes, number + 7)}"
    return f"{size_bytes:>12}  {size_bytes // 4:>12}     float     sum      -1  {figures}\n"


def _tables(prefix: str) -> Iterator[str]:
    """Yields runs of one row per size, each line after a prefix."""
    for first_number in count(step=len(SIZES)):
        numbered_sizes = list(enumerate(SIZES, start=first_number))
        rows = "".join(_text_row(size, number) for number, size in numbered_sizes)
        average = mean(busbw_gbps(size, number + step) for number, size in numbered_sizes for step in (0, 7))
        run = HEAD + rows + AVERAGE.format(average) + CONCLUSION
        yield "".join(prefix + line for line in run.splitlines(keepends=True))


def plain_tables() -> Iterator[str]:
    """Yields runs one after the other, as a test over night writes them."""
    return _tables("")


def prefixed_tables() -> Iterator[str]:
    """Yields runs with the prefix of mpirun."""
    return _tables("[1,0]<stdout>:")


def library_messages() -> Iterator[str]:
    """Yields runs with NCCL_DEBUG=INFO: many messages of NCCL before each table."""
    messages = (GOLDEN / "nccl" / "no_gpudirect.log").read_text()
    for run in plain_tables():
        yield messages + run


def other_output() -> Iterator[str]:
    """Yields runs between the output of a training job."""
    steps = count()
    for run in plain_tables():
        yield run
        for step in islice(steps, 300):
            yield (
                f"2026-11-26 10:21:50,{step % 1000:03} INFO trainer [rank 0/32] step {step:>8} "
                f"loss {2 + 1 / (step + 1):.4f} lr 0.0003 tokens/s {412_000 + step % 977}\n"
            )


def docker_entries() -> Iterator[str]:
    """Yields runs as Docker's json-file driver stores them: each line in an object of JSON."""
    numbers = count()
    for run in plain_tables():
        yield "".join(
            json.dumps({"log": line, "stream": "stdout", "time": f"2026-11-26T10:21:50.{next(numbers) % 10**9:09}Z"})
            + "\n"
            for line in run.splitlines(keepends=True)
        )


def html_lines() -> Iterator[str]:
    """Yields runs as a log viewer in a browser saves them: each line in a tag of its own."""
    for run in plain_tables():
        yield "".join(f'<div class="line">{line}</div>\n' for line in run.splitlines())


def rccl_tests_csv() -> Iterator[str]:
    """Yields the CSV of rccl-tests with many passes. Each line is one placement of a row."""
    yield "numCycle,name,nodes,ranks,ranksPerNode,gpusPerRank,size,type,redop,inPlace,time,algBw,busBw,#wrong\n"
    for number in count():
        size = SIZES[number % len(SIZES)]
        for placement, time in enumerate((time_us(size, number), time_us(size, number + 7))):
            algbw = size / time / 1e3
            yield (
                f"{number // len(SIZES)},AllReduce,1,{_RANKS},{_RANKS},1,{size},float,sum,{placement},"
                f"{time:.2f},{algbw:.2f},{algbw * 1.5:.2f},0\n"
            )


def one_table() -> Iterator[str]:
    """Yields one run with many passes (-N)."""
    yield HEAD
    for number in count():
        yield _text_row(SIZES[number % len(SIZES)], number)


def nccl_tests_json() -> Iterator[str]:
    """Yields one document of nccl-tests (-J) with many passes."""
    document = json.loads((GOLDEN / "nccl_tests.json").read_text())
    document["config"]["devices"] = [
        {"rank": rank, "group": 0, "pid": 895, "hostname": "vm", "device": rank, "device_info": "NVIDIA H200"}
        for rank in range(_RANKS)
    ]
    document["config"]["nthreads"] = 1
    del document["results"], document["errors"], document["average_bus_bandwidth"]
    yield json.dumps(document)[:-1] + ',\n"results":[\n'
    for number in count():
        size = SIZES[number % len(SIZES)]
        placements = {name: _json_figures(size, number) for name in ("out_of_place", "in_place")}
        comma = ",\n" if number else ""
        yield comma + json.dumps(
            {"size": size, "count": size // 4, "type": "float", "redop": "sum", "root": -1, **placements}
        )


def _json_figures(size: int, number: int) -> dict[str, float]:
    time = time_us(size, number)
    return {"time": time, "alg_bw": size / time / 1e3, "bus_bw": 1.5 * size / time / 1e3, "nwrong": 0}


def busbw_record() -> Iterator[str]:
    """Yields the record of one run with many passes, with the times of every rank and iteration."""
    header, _, row, *_ = map(json.loads, (GOLDEN / "records.jsonl").read_text().splitlines())
    header["ranks"] = [
        {**header["ranks"][0], "rank": rank, "device": rank, "bus_id": f"0000:0{rank}:00", "device_name": "NVIDIA H200"}
        for rank in range(_RANKS)
    ]
    yield json.dumps(header) + "\n"
    row |= {"late_ranks": [], "warnings": [], "device_time_us": None, "launch_time_us": None, "sample_clock": "host"}
    for number in count():
        size = SIZES[number % len(SIZES)]
        time = time_us(size, number)
        samples = [[round(time + (number + sample) % 7 / 100, 2) for sample in range(_SAMPLES)]] * _RANKS
        row |= {"requested_bytes": size, "size_bytes": size, "count": size // 4, "cycle": number // len(SIZES)}
        row |= {"time_us": time, "algbw_gbps": size / time / 1e3, "busbw_gbps": 1.5 * size / time / 1e3}
        row["stats"] |= {"median_us": time, "mean_us": time, "min_us": time, "max_us": time + 1, "samples": _SAMPLES}
        row["stats"] |= {"p95_us": time, "p99_us": time, "median_ci95_us": [time, time]}
        for placement in ("out_of_place", "in_place"):
            yield json.dumps({**row, "placement": placement, "samples_us": samples}) + "\n"


LOGS: dict[str, Callable[[], Iterator[str]]] = {
    "text, tables of 31 rows": plain_tables,
    "text, one table": one_table,
    "text, mpirun's prefix": prefixed_tables,
    "text, NCCL_DEBUG=INFO": library_messages,
    "text, mostly other output": other_output,
    "text in Docker's JSON": docker_entries,
    "text in HTML": html_lines,
    "CSV of rccl-tests": rccl_tests_csv,
    "JSON of nccl-tests": nccl_tests_json,
    "record of busbw": busbw_record,
}
"""The parts of an endless log of each kind."""
_ENDS = {"text, one table": CONCLUSION, "JSON of nccl-tests": '\n],"end_time":"2026-11-21 08:16:40"}\n'}


def write_log(path: Path, kind: str, megabytes: float) -> None:
    """Writes a log until the file has at least the given size."""
    size_bytes = 0
    with path.open("w") as out:
        for part in LOGS[kind]():
            size_bytes += out.write(part)
            if size_bytes >= megabytes * 1e6:
                break
        out.write(_ENDS.get(kind, ""))
