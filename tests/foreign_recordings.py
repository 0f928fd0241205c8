"""Writes a trace in the formats of other programs, for the tests of importers.

Each function writes what the original program would have written for the same calls, and nothing else.
"""

import json
import pickle
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from busbw.traces import format as layout
from busbw.traces.format import Function
from busbw.traces.model import Communicator, RankTrace, Trace

_NCCL_NAMES = {
    Function.ALL_REDUCE: "AllReduce",
    Function.ALL_GATHER: "AllGather",
    Function.REDUCE_SCATTER: "ReduceScatter",
    Function.BROADCAST: "Broadcast",
    Function.REDUCE: "Reduce",
    Function.ALLTOALL: "AlltoAll",
    Function.SEND: "Send",
    Function.RECV: "Recv",
}
_PROFILER_NAMES = {
    Function.ALL_REDUCE: "allreduce",
    Function.ALL_GATHER: "_allgather_base",
    Function.REDUCE_SCATTER: "_reduce_scatter_base",
    Function.BROADCAST: "broadcast",
    Function.REDUCE: "reduce",
    Function.ALLTOALL: "all_to_all",
    Function.SEND: "send",
    Function.RECV: "recv",
}
_FLIGHT_NAMES = {
    Function.ALL_REDUCE: "all_reduce",
    Function.ALL_GATHER: "_all_gather_base",
    Function.REDUCE_SCATTER: "_reduce_scatter_base",
    Function.BROADCAST: "broadcast",
    Function.REDUCE: "reduce",
    Function.ALLTOALL: "all_to_all",
}
_TORCH_TYPES = {7: "Float", 9: "BFloat16"}
_CHAKRA_TYPES = {
    Function.ALL_REDUCE: 0,
    Function.REDUCE: 1,
    Function.ALL_GATHER: 2,
    Function.BROADCAST: 5,
    Function.ALLTOALL: 6,
    Function.REDUCE_SCATTER: 7,
}


def _calls(trace: Trace, rank: RankTrace) -> Iterator[tuple[np.void, Communicator, Function]]:
    for call in rank.operations:
        yield call, trace.communicators[call["communicator"]], Function(int(call["function"]))


def _elements(call: np.void, communicator: Communicator, function: Function) -> tuple[int, int]:
    """Returns the elements of the input and output tensors of a rank, as PyTorch counts them."""
    count = int(call["count"])
    whole = count * communicator.size
    return {
        Function.ALL_GATHER: (count, whole),
        Function.REDUCE_SCATTER: (whole, count),
        Function.ALLTOALL: (whole, whole),
    }.get(function, (count, count))


def nccl_log(trace: Trace, *, prefix: str = "", has_ids: bool = True) -> str:
    """Returns what NCCL 2.28 prints with NCCL_DEBUG_SUBSYS=INIT,COLL,TUNING, of all processes."""
    lines = []
    for rank in trace.ranks:
        head = f"{prefix}{rank.host}:{rank.pid}:{rank.pid} [0] NCCL INFO "
        lines.append(f"{prefix}{rank.host}:{rank.pid}:{rank.pid} [0] NCCL INFO NCCL version 2.28.9+cuda12.9")
        for index, own_rank in rank.own_rank_by_communicator.items():
            one = trace.communicators[index]
            for state in ("START", "COMPLETE") if has_ids else ():
                lines.append(
                    f"{head}ncclCommInitRankConfig comm {0x1000 + index:#x} rank {own_rank} nranks {one.size} cudaDev 0"
                    f" nvmlDev 0 busId 1b000 commId 0x{one.identity} - Init {state}"
                )
    rows = [(rank, call, one, function) for rank in trace.ranks for call, one, function in _calls(trace, rank)]
    # Processes write in turns; each keeps its order.
    for rank, call, one, function in sorted(rows, key=lambda row: int(row[0].start_ns + row[1]["enqueue_ns"])):
        head = f"{prefix}{rank.host}:{rank.pid}:{rank.pid} [0] NCCL INFO "
        name, count = _NCCL_NAMES[function], int(call["count"])
        pair = function in (Function.SEND, Function.RECV)
        lines.append(
            f"{head}{name}: opCount 0 sendbuff {'(nil)' if pair else '0x7f0000000000'} recvbuff 0x7f1000000000"
            f" count {count} datatype {call['datatype']} op {call['redop'] if call['redop'] < 5 else 0}"
            f" root {max(0, call['peer'])} comm {0x1000 + int(call['communicator']):#x} [nranks={one.size}]"
            f" stream {0x9000 + int(call['stream']):#x}"
        )
        if rank.own_rank_by_communicator[int(call["communicator"])] == 0 and not pair:
            size = count * int(layout.DATATYPE_BYTES[call["datatype"]])
            lines.append(f"{head}{name}: {size} Bytes -> Algo RING proto SIMPLE channel{{Lo..Hi}}={{0..7}}")
    return "\n".join(lines) + "\n"


def write_inspector(trace: Trace, folder: Path, *, version: str, is_verbose: bool) -> list[Path]:
    """Writes logs of NCCL's Inspector: "v4.0", or "v4.2" with algorithm, protocol and summaries."""
    paths = []
    for rank in trace.ranks:
        numbers: Counter[tuple[int, int]] = Counter()
        lines = []
        for call, one, function in _calls(trace, rank):
            side = "p2p" if function in (Function.SEND, Function.RECV) else "coll"
            key = int(call["communicator"]), int(function)
            size = int(call["count"]) * int(layout.DATATYPE_BYTES[call["datatype"]])
            values = {
                side: _NCCL_NAMES[function],
                f"{side}_sn": numbers[key],
                f"{side}_msg_size_bytes": size,
                f"{side}_exec_time_us": int(call["device_end_ns"] - call["device_start_ns"]) // 1000,
                f"{side}_timing_source": "kernel_gpu",
                f"{side}_algobw_gbs": 1.0,
                f"{side}_busbw_gbs": 1.0,
            }
            numbers[key] += 1
            if side == "p2p":
                values["p2p_peer"] = int(call["peer"])
            if version == "v4.2":
                values |= {"coll_algo": "RING", "coll_proto": "SIMPLE"} if side == "coll" else {}
            if is_verbose:
                start_us = (rank.start_ns + int(call["enqueue_ns"])) // 1000
                values["event_trace_ts"] = {
                    f"{side}_start_ts": start_us,
                    f"{side}_stop_ts": start_us,
                    "kernel_events": [],
                }
            header = {
                "id": f"0x{int(one.identity, 16):x}",
                "rank": rank.own_rank_by_communicator[key[0]],
                "n_ranks": one.size,
                "nnodes": 1,
            }
            if version == "v4.2":
                header["comm_name"] = one.name
            metadata = {
                "inspector_output_format_version": version,
                "git_rev": "",
                "rec_mechanism": "nccl_profiler_interface",
                "dump_timestamp_us": 1790000000000000,
                "hostname": rank.host,
                "pid": rank.pid,
            }
            lines.append({"header": header, "metadata": metadata, f"{side}_perf": values})
        if version == "v4.2":
            lines.append(
                {"header": lines[-1]["header"], "metadata": lines[-1]["metadata"], "dump_stats": {"coll_records": 1}}
            )
        paths.append(folder / f"{rank.host}-pid{rank.pid}.log")
        paths[-1].write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    return paths


def kineto_document(trace: Trace, rank: RankTrace, *, has_calls: bool = True, has_kernels: bool = True) -> str:
    """Returns the trace of PyTorch's profiler of one rank."""
    base_ns = 1_690_000_000_000_000_000
    events: list[dict[str, object]] = [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}]
    kernels: list[dict[str, object]] = []
    for number, (call, one, function) in enumerate(_calls(trace, rank), start=1):
        inputs, outputs = _elements(call, one, function)
        values: dict[str, object] = {
            "Collective name": _PROFILER_NAMES[function],
            "dtype": _TORCH_TYPES[int(call["datatype"])],
            "In msg nelems": inputs,
            "Out msg nelems": outputs,
            "Group size": one.size,
            "Process Group Name": one.name,
            "Process Group Description": "undefined",
            "Process Group Ranks": str([*one.members]),
            "In split size": "[]",
            "Out split size": "[]",
        }
        peer = int(call["peer"])
        if function == Function.SEND:
            values["Dst Rank"] = one.members[peer]
        elif function == Function.RECV:
            values["Src Rank"] = one.members[peer]
        own = peer if peer >= 0 else rank.own_rank_by_communicator[int(call["communicator"])]
        offset = rank.start_ns - base_ns
        events.append(
            {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 7, "tid": 9}
            | {"ts": (offset + int(call["enqueue_ns"])) / 1000, "dur": 5.0}
            | {"args": {"External id": number, "Rank": own, **values}}
        )
        events.append(
            {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 7, "tid": 9, "ts": 1.0, "dur": 1.0, "args": {}}
        )
        kernels.append(
            {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(...)", "pid": 0, "tid": 20}
            | {"ts": (offset + int(call["device_start_ns"])) / 1000}
            | {"dur": int(call["device_end_ns"] - call["device_start_ns"]) / 1000}
            | {"args": {"External id": number, "stream": 20 + int(call["stream"]), "grid": [8, 1, 1], **values}}
        )
    document = {
        "schemaVersion": 1,
        "deviceProperties": [],
        "distributedInfo": {
            "backend": "nccl",
            "rank": rank.rank,
            "world_size": len(trace.ranks),
            "pg_config": [
                {
                    "pg_name": one.name,
                    "pg_desc": "",
                    "backend_config": "cuda:nccl",
                    "pg_size": one.size,
                    "ranks": [*one.members],
                }
                for one in trace.communicators
            ],
            "nccl_version": rank.nccl_version,
        },
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": base_ns,
        "traceEvents": (events if has_calls else events[:1]) + (kernels if has_kernels else []),
        "traceName": "trace.json",
    }
    return json.dumps(document, indent=2)


def flight_dump(trace: Trace, rank: RankTrace) -> dict[str, object]:
    """Returns the content of a dump of PyTorch's flight recorder 2.10."""
    entries = []
    numbers: Counter[tuple[int, bool]] = Counter()
    for number, (call, one, function) in enumerate(_calls(trace, rank)):
        is_pair = function in (Function.SEND, Function.RECV)
        own = rank.own_rank_by_communicator[int(call["communicator"])]
        title = _FLIGHT_NAMES.get(function) or (
            f"send {own}->{call['peer']}" if function == Function.SEND else f"recv {own}<-{call['peer']}"
        )
        numbers[int(call["communicator"]), is_pair] += function != Function.RECV  # a send and a receive are one group
        inputs, outputs = _elements(call, one, function)
        entries.append(
            {
                "record_id": number,
                "pg_id": int(call["communicator"]),
                "process_group": (one.name, "undefined"),
                "collective_seq_id": numbers[int(call["communicator"]), False],
                "p2p_seq_id": numbers[int(call["communicator"]), True],
                "op_id": number,
                "profiling_name": f"nccl:{title}",
                "time_created_ns": rank.start_ns + int(call["enqueue_ns"]),
                "duration_ms": int(call["device_end_ns"] - call["device_start_ns"]) / 1e6,
                "input_sizes": [[inputs]],
                "input_dtypes": [_TORCH_TYPES[int(call["datatype"])]],
                "output_sizes": [[outputs]],
                "output_dtypes": [_TORCH_TYPES[int(call["datatype"])]],
                "state": "completed",
                "time_discovered_started_ns": None,
                "time_discovered_completed_ns": None,
                "retired": True,
                "timeout_ms": 600000,
                "is_p2p": is_pair,
            }
        )
    groups = {
        one.name: {"name": one.name, "desc": "undefined", "ranks": str([*one.members])} for one in trace.communicators
    }
    return {"version": "2.10", "pg_config": groups, "pg_status": {}, "entries": entries}


def write_flight_dumps(trace: Trace, folder: Path, *, is_pickle: bool) -> list[Path]:
    """Writes dumps of the flight recorder: pickle as on a timeout, or JSON with sorted keys."""
    paths = []
    for rank in trace.ranks:
        dump = flight_dump(trace, rank)
        paths.append(folder / f"nccl_trace_rank_{rank.rank}")
        paths[-1].write_bytes(pickle.dumps(dump, 2) if is_pickle else json.dumps(dump, sort_keys=True).encode())
    return paths


def write_chakra(trace: Trace, folder: Path) -> list[Path]:
    """Writes execution traces of Chakra as protocol buffers."""
    paths = []
    for rank in trace.ranks:
        groups = [{"pg_name": one.name, "pg_desc": "", "ranks": [*one.members]} for one in trace.communicators]
        first = _field(1, 1) + _field(2, "## process_group:init ##") + _field(3, 1)
        messages = [_field(1, "0.0.4"), first + _field(8, _field(1, json.dumps([json.dumps(groups)])))]
        for number, (call, one, function) in enumerate(_calls(trace, rank), start=2):
            inputs, _ = _elements(call, one, function)
            kind = {Function.SEND: 5, Function.RECV: 6}.get(function, 7)
            values: dict[str, int | str] = {
                "comm_size": inputs * int(layout.DATATYPE_BYTES[call["datatype"]]),
                "pg_name": one.name,
                "stream": int(call["stream"]),
            }
            if kind == 7:
                values["comm_type"] = _CHAKRA_TYPES[function]
            else:
                values["comm_dst" if kind == 5 else "comm_src"] = int(one.members[call["peer"]] or 0)
            duration_us = int(call["device_end_ns"] - call["device_start_ns"]) // 1000
            node = _field(1, number) + _field(2, "ncclDevKernel") + _field(3, kind) + _field(7, duration_us)
            for name, value in values.items():
                node += _field(10, _field(1, name) + _field(9 if isinstance(value, int) else 29, value))
            messages.append(node)
        paths.append(folder / f"job.{rank.rank}.et")
        paths[-1].write_bytes(b"".join(varint(len(message)) + message for message in messages))
    return paths


def varint(value: int) -> bytes:
    """Returns a number of a protocol buffer."""
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def _field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data
