"""Imports logs of NCCL's Inspector: one JSON object per line and operation, one file per process."""

from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from busbw.support.files import path_text
from busbw.traces.building import NO_SEQUENCE, Call, RankBuilder, TraceBuilder
from busbw.traces.format import Algorithm, Flag, Function, Protocol
from busbw.traces.importers.inspector_jobs import Process, find_older_processes
from busbw.traces.importers.recording import open_recording, read_lines
from busbw.units import count_text

_KEYS = (b'"coll_perf"', b'"p2p_perf"', b'"inspector_output_format_version"')
"""Keys that only logs of the Inspector have."""
_INT8 = 0


class _Header(msgspec.Struct):
    """The communicator of a record."""

    id: str
    rank: int
    n_ranks: int
    comm_name: str = ""


class _Metadata(msgspec.Struct):
    """The process of a record."""

    hostname: str = ""
    pid: int | None = None


class _Record(msgspec.Struct):
    """A line."""

    header: _Header | None = None
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    coll_perf: dict[str, Any] | None = None
    p2p_perf: dict[str, Any] | None = None


def recognizes(beginning: bytes, path: Path) -> bool:
    """True for a log of the Inspector. `path` is not used."""
    return beginning.lstrip()[:1] == b"{" and any(key in beginning for key in _KEYS)


def read(builder: TraceBuilder, paths: Sequence[Path]) -> Sequence[str]:
    """Reads the logs of one job."""
    decode = msgspec.json.Decoder(_Record).decode
    older = find_older_processes(paths)
    for path in paths:
        with open_recording(path) as file:
            for line in read_lines(file):
                try:
                    _add(builder, decode(line), path_text(path), older)
                except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError):
                    if line.strip():
                        builder.add_problem("{count} lines are damaged or have another form")
    for rank in builder.ranks:
        rank.lost_count += _count_missing(rank)
        _order_by_time(builder, rank)
        builder.add_problem("{count} operations are missing: too small for the Inspector, or dropped", rank.lost_count)
    return ["the Inspector states bytes instead of element types, and no streams, roots and groups"]


def _add(builder: TraceBuilder, record: _Record, source: str, older: Set[Process]) -> None:
    """Adds the operation of a line, unless its process is one of the older ones."""
    prefix, values = ("p2p", record.p2p_perf) if record.coll_perf is None else ("coll", record.coll_perf)
    if values is None:
        return  # the line is a summary of the records before it
    header = record.header
    if header is None:
        builder.add_problem("{count} records do not name their communicator and are left out")
        return
    process = record.metadata.hostname, record.metadata.pid
    if process in older:
        builder.add_problem(
            f"the files are of several jobs; {{count}} operations of {count_text(len(older), 'process', 'processes')}"
            " of older jobs are left out"
        )
        return
    name = "" if header.comm_name == "unknown" else header.comm_name
    index = builder.find_or_add_communicator(f"{int(header.id, 16):016x}", header.n_ranks, name=name)
    if index is None:
        return
    rank = builder.find_or_add_rank(process, source)
    if rank.own_rank_by_communicator.get(index, header.rank) != header.rank:
        builder.add_problem("a process has several ranks; operations of small communicators may be at another of them")
        rank = builder.find_or_add_rank((*process, header.rank), source)
    rank.host, rank.pid = process
    builder.join(rank, index, header.rank)
    duration_ns = round(values.get(f"{prefix}_exec_time_us", 0) * 1000)
    is_device_time = str(values.get(f"{prefix}_timing_source", "kernel")).startswith("kernel")
    if not is_device_time:
        duration_ns = 0  # it is the time of the call on the host
    times = values.get("event_trace_ts")
    start_us = times.get(f"{prefix}_start_ts", 0) if isinstance(times, dict) else 0
    call = Call(
        function=Function.of_nccl(str(values.get(prefix))),
        communicator=index,
        elements=values.get(f"{prefix}_msg_size_bytes", -1),
        datatype=_INT8,
        flags=Flag.COUNT_IS_IN_BYTES,
        peer=values.get("p2p_peer", -1),
        enqueue_ns=round(start_us * 1000),
        duration_ns=duration_ns,
        algorithm=Algorithm.of_nccl(str(values.get("coll_algo"))),
        protocol=Protocol.of_nccl(str(values.get("coll_proto"))),
    )
    rank.add(call, values.get("coll_sn", NO_SEQUENCE))


def _count_missing(rank: RankBuilder) -> int:
    """Returns the number of operations that are missing according to the sequence numbers.

    The Inspector numbers the operations of each function on each communicator consecutively.
    """
    operations = rank.operations
    missing_count = 0
    for communicator, function in np.unique(operations[["communicator", "function"]]).tolist():
        is_counted = (operations["communicator"] == communicator) & (operations["function"] == function)
        numbers = np.unique(rank.sequences[is_counted & (rank.sequences >= 0)])
        if len(numbers):
            missing_count += int(numbers[-1] - numbers[0]) + 1 - len(numbers)
    return missing_count


def _order_by_time(builder: TraceBuilder, rank: RankBuilder) -> None:
    """Sorts the operations of a rank by the times of their calls."""
    enqueue_ns = rank.operations["enqueue_ns"]
    if not enqueue_ns.any():
        builder.add_problem(
            "without NCCL_INSPECTOR_DUMP_VERBOSE the times and the order between communicators are unknown"
        )
    rank.select(np.argsort(enqueue_ns, kind="stable"))
    rank.start_at_first_time()
