"""Forms of recordings that differ between versions and programs, with the operations that they mean.

The lines of NCCL and RCCL follow `src/init.cc` and `src/enqueue.cc` of NVIDIA/nccl 2.10 to 2.30 and of ROCm/rccl.
Events follow `libkineto/src/output_json.cpp` of pytorch/kineto, dumps `FlightRecorderDetail.hpp` of pytorch/pytorch.
The values are invented.
"""

import json
from pathlib import Path

import pytest

from busbw.errors import UsageError
from busbw.traces import format as layout
from busbw.traces.format import Algorithm, Flag, Function, Protocol
from busbw.traces.importers import IMPORTERS
from busbw.traces.model import Trace

INSPECTOR, FLIGHT_RECORDER, KINETO, _, NCCL_LOG = IMPORTERS
U = layout.UNKNOWN_BYTE
IN_PLACE = int(Flag.IS_IN_PLACE_KNOWN | Flag.IN_PLACE)


def read_log(folder: Path, text: str) -> Trace:
    path = folder / "job.log"
    path.write_text(text)
    assert NCCL_LOG.recognizes(text.encode(), path)
    return NCCL_LOG.read([path])


def rows(trace: Trace, *names: str) -> list[tuple[int, ...]]:
    return [tuple(int(call[name]) for name in names) for rank in trace.ranks for call in rank.operations]


def call_line(
    name: str,
    count: int,
    *,
    pid: int = 10,
    comm: str = "0xa0",
    size: int = 2,
    op_count: str = "0",
    root: int = 0,
    more: str = "",
) -> str:
    return (
        f"n1:{pid}:{pid} [0] NCCL INFO {name}: opCount {op_count} sendbuff 0x7000 recvbuff 0x8000"
        f" count {count} datatype 7 op 0 root {root} comm {comm} [nranks={size}] stream 0x5{more}\n"
    )


def init_line(
    pid: int, rank: int, *, comm: str = "0xa0", size: int = 2, form: str = "2.19", state: str = "COMPLETE"
) -> str:
    """Returns the line about a rank of a communicator, in the form that begins with this version."""
    head = f"n1:{pid}:{pid + 1} [0] NCCL INFO "
    ranks = f"comm {comm} rank {rank} nranks {size} cudaDev 0 "
    return (
        head
        + {
            "2.10": f"{ranks}busId 1b000 - Init {state}\n",
            "2.13": f"{ranks}busId 1b000 commId 0xfeed0000beef - Init {state}\n",
            "2.19": f"ncclCommInitRank {ranks}nvmlDev 0 busId 1b000 commId 0xfeed0000beef - Init {state}\n",
        }[form]
    )


@pytest.mark.parametrize("form", ["2.10", "2.13", "2.19"])
def test_forms_of_init_lines(tmp_path: Path, form: str) -> None:
    text = "".join(init_line(pid, 11 - pid, form=form) for pid in (10, 11)) + call_line("AllReduce", 5, pid=10)
    trace = read_log(tmp_path, text + call_line("AllReduce", 5, pid=11))
    assert [(rank.rank, rank.pid) for rank in trace.ranks] == [(0, 11), (1, 10)]
    assert [one.members for one in trace.communicators] == [(0, 1)]
    assert (trace.communicators[0].identity == "0000feed0000beef") == (form != "2.10")
    assert any("inferred" in problem and "sizes" in problem for problem in trace.problems) == (form == "2.10")


@pytest.mark.parametrize(
    "form",
    [
        "ncclCommSplit comm 0xb0 rank {rank} nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 parent 0xa0 color {color} key 3"
        " commId 0x{color}99 - Init COMPLETE",
        "ncclCommSplit comm 0xb0 rank {rank} nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 parent 0xa0 splitCount 1"
        " color {color} key 3- Init START",
        "ncclCommShrink comm 0xb0 rank {rank} nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 parent 0xa0 childCount 1"
        " color {color} key 3 - Init COMPLETE",
    ],
)
def test_forms_of_splits(tmp_path: Path, form: str) -> None:
    """Four ranks; the even and the odd ones form communicators."""
    text = ""
    for rank in range(4):
        pid = 10 + rank
        split = form.format(rank=rank // 2, color=7 + rank % 2)
        text += init_line(pid, rank, size=4) + f"n1:{pid}:99 [0] NCCL INFO {split}\n"
        text += call_line("AllReduce", 8, pid=pid, comm="0xb0")
    trace = read_log(tmp_path, text)
    used = {int(call["communicator"]) for rank in trace.ranks for call in rank.operations}
    assert sorted(trace.communicators[index].members for index in used) == [(0, 2), (1, 3)]


def test_a_pointer_that_is_used_again_is_another_communicator(tmp_path: Path) -> None:
    text = init_line(10, 0, state="START") + init_line(10, 0) + call_line("AllReduce", 1)
    again = (init_line(10, 0, size=4, state="START") + init_line(10, 0, size=4)).replace("0xfeed0000beef", "0x77")
    trace = read_log(tmp_path, text + again + call_line("AllReduce", 2, size=4))
    assert [(one.identity, one.size) for one in trace.communicators] == [("0000feed0000beef", 2), (f"{0x77:016x}", 4)]
    assert rows(trace, "communicator", "count") == [(0, 1), (1, 2)]


def test_ranks_of_containers_with_one_host_and_process_id_are_separate(tmp_path: Path) -> None:
    paths = []
    for rank in range(2):
        paths.append(tmp_path / f"rank{rank}.log")
        paths[-1].write_text(init_line(10, rank) + call_line("AllReduce", 7) * 3)
    trace = NCCL_LOG.read(paths)
    assert [rank.rank for rank in trace.ranks] == [0, 1]
    assert rows(trace, "count") == [(7,)] * 6
    assert any("several ranks have one host, process and device" in problem for problem in trace.problems)


def test_rccl_numbers_the_calls_of_a_group_and_names_the_rank(tmp_path: Path) -> None:
    text = ""
    for group in range(2):
        for task, name in enumerate(("Send", "Recv")):
            more = f" task {task} globalrank 1"
            text += call_line(name, 10 + group, op_count="3", root=0, more=more)
    trace = read_log(tmp_path, text)
    groups = [int(call["group"]) for call in trace.ranks[0].operations]
    assert groups[0] == groups[1] != groups[2] == groups[3]
    assert trace.ranks[0].own_rank_by_communicator == {0: 1}


def test_repeated_transfers_begin_a_new_inferred_group(tmp_path: Path) -> None:
    pairs = [("Send", 0), ("Recv", 0), ("Send", 1), ("Recv", 1)] * 2
    trace = read_log(tmp_path, init_line(10, 0) + "".join(call_line(name, 4, root=peer) for name, peer in pairs))
    groups = [int(call["group"]) for call in trace.ranks[0].operations]
    assert groups[:4] == [groups[0]] * 4
    assert groups[4:] == [groups[4]] * 4
    assert groups[0] != groups[4]
    assert rows(trace, "function", "peer")[:2] == [(Function.SEND, 0), (Function.RECV, 0)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("40 Bytes -> Algo TREE proto LL128 channel{Lo..Hi}={0..3}", (Algorithm.TREE, Protocol.LL128, 4)),
        (
            "40 Bytes -> Algo COLLNET_DIRECT proto SIMPLE channel{Lo..Hi}={2..3}",
            (Algorithm.COLLNET_DIRECT, Protocol.SIMPLE, 2),
        ),
        ("40 Bytes -> Algo 5 proto 2 time 12.5", (Algorithm.NVLS_TREE, Protocol.SIMPLE, U)),
        ("40 Bytes -> Algo Ring proto LL channel{Lo..Hi}={0..0}", (Algorithm.RING, Protocol.LL, 1)),
        ("41 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}", (U, U, U)),
    ],
)
def test_forms_of_tuning_lines(tmp_path: Path, line: str, expected: tuple[int, int, int]) -> None:
    text = init_line(10, 0) + call_line("AllReduce", 10) + f"n1:10:10 [0] NCCL INFO AllReduce: {line}\n"
    assert rows(read_log(tmp_path, text), "algorithm", "protocol", "channels") == [expected]


@pytest.mark.parametrize(
    ("kind", "rest", "expected"),
    [
        ("Symmetric", "Kernel AllReduce_AGxLL_R nchannels 9 nthreads 512 nWorks 1", (Algorithm.SYMMETRIC, U, 9)),
        ("Copy Engine", "cudaMemcpyBatchAsync", (Algorithm.COPY_ENGINE, U, U)),
        ("Hierarchical CE", "RMA proxy + CE", (Algorithm.COPY_ENGINE, U, U)),
    ],
)
def test_kernels_outside_of_the_list(tmp_path: Path, kind: str, rest: str, expected: tuple[int, int, int]) -> None:
    text = (
        init_line(10, 0)
        + call_line("AllReduce", 10)
        + f"n1:10:10 [0] NCCL INFO AllReduce [{kind}]: 40 Bytes -> {rest}\n"
    )
    assert rows(read_log(tmp_path, text), "algorithm", "protocol", "channels") == [expected]


def test_tuning_lines_at_the_end_of_a_group_find_their_calls(tmp_path: Path) -> None:
    """NCCL sorts the calls of a group by size. 2.23 names the whole size of an AllGather."""
    calls = call_line("AllReduce", 10) + call_line("AllGather", 30) + call_line("AllReduce", 20)
    kernels = "".join(
        f"n1:10:10 [0] NCCL INFO {name}: {size} Bytes -> Algo RING proto LL channel{{Lo..Hi}}={{0..{high}}}\n"
        for name, size, high in (("AllGather", 240, 5), ("AllReduce", 80, 6), ("AllReduce", 40, 7))
    )
    trace = read_log(tmp_path, init_line(10, 0) + calls + kernels)
    assert rows(trace, "channels") == [(8,), (6,), (7,)]


@pytest.mark.parametrize(
    ("name", "send", "recv", "expected"),
    [
        ("AllReduce", 0x1000, 0x1000, IN_PLACE),
        ("AllReduce", 0x1000, 0x2000, int(Flag.IS_IN_PLACE_KNOWN)),
        ("AllGather", 0x1000 + 400, 0x1000, IN_PLACE),  # rank 1 sends 100 floats from its place
        ("AllGather", 0x1000, 0x1000, int(Flag.IS_IN_PLACE_KNOWN)),
        ("ReduceScatter", 0x1000, 0x1000 + 400, IN_PLACE),
        ("AlltoAll", 0x1000, 0x1000, 0),
    ],
)
def test_in_place(tmp_path: Path, name: str, send: int, recv: int, expected: int) -> None:
    line = call_line(name, 100).replace("0x7000", hex(send)).replace("0x8000", hex(recv))
    assert rows(read_log(tmp_path, init_line(10, 1) + line), "flags") == [(expected,)]


def test_timestamps_need_fractions(tmp_path: Path) -> None:
    for time, expected in (("12:00:00.250000", 250_000_001), ("12:00:00", 0)):
        first = time.replace(".25", ".00")
        text = (
            f"[2026-04-14 {first}] " + call_line("AllReduce", 1) + f"[2026-04-14 {time}] " + call_line("AllReduce", 2)
        )
        trace = read_log(tmp_path, text)
        assert int(trace.ranks[0].operations["enqueue_ns"][1]) == expected


def test_damaged_and_mixed_lines_are_counted(tmp_path: Path) -> None:
    line = call_line("AllReduce", 1)
    text = init_line(10, 0) + line + line[:90] + line + line.replace("count 1 ", "count 99999999999999999999 ")
    trace = read_log(tmp_path, text)
    assert rows(trace, "count") == [(1,)]
    assert any("1 lines of the log are damaged" in problem for problem in trace.problems)
    assert any("1 operations are left out because their values are impossible" in problem for problem in trace.problems)


def test_text_directly_before_the_host_is_no_other_process(tmp_path: Path) -> None:
    line = call_line("AllReduce", 1)
    trace = read_log(tmp_path, init_line(10, 0) + f"loss 0.5{line}" + f"  5%|#{line}")
    assert [(rank.host, len(rank.operations)) for rank in trace.ranks] == [("n1", 2)]


# ---- PyTorch ---------------------------------------------------------------------------------------------------------


def read_events(folder: Path, *events: dict[str, object], groups: object = (), rank: int = 1) -> Trace:
    path = folder / "trace.json"
    job = {"backend": "nccl", "rank": rank, "world_size": 4, "pg_config": groups, "nccl_version": "2.27.5"}
    path.write_text(json.dumps({"schemaVersion": 1, "distributedInfo": job, "traceEvents": events}))
    return KINETO.read([path])


def comms(name: str, inputs: int, outputs: int, **values: object) -> dict[str, object]:
    arguments = {
        "External id": 5,
        "Collective name": name,
        "In msg nelems": inputs,
        "Out msg nelems": outputs,
        "dtype": "BFloat16",
        "Group size": 4,
        "Process Group Name": "0",
        "Process Group Ranks": "[0, 1, 2, 3]",
        **{key.replace("_", " "): value for key, value in values.items()},
    }
    return {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "ts": 10.5, "dur": 1, "tid": 3, "args": arguments}


def test_unequal_alltoall_becomes_sends_and_receives(tmp_path: Path) -> None:
    """Splits are rows of 10 elements. Empty ones are not sent, as in PyTorch."""
    event = comms("all_to_allv", 60, 40, In_split_size="[1, 0, 2, 3]", Out_split_size="[0, 4, 0, 0]")
    trace = read_events(tmp_path, event, comms("allreduce", 1, 1))
    send, recv = Function.SEND, Function.RECV
    assert rows(trace, "function", "peer", "count") == [
        (send, 0, 10),
        (recv, 1, 40),
        (send, 2, 20),
        (send, 3, 30),
        (Function.ALL_REDUCE, -1, 1),
    ]
    groups = trace.ranks[0].operations["group"].tolist()
    assert groups[:4] == [groups[0]] * 4
    assert groups[0] != 0 == groups[4]


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (
            comms("all_to_allv", 80, 80, In_split_size="[2, 2, 2, 2]", Out_split_size="[2, 2, 2, 2]"),
            (Function.ALLTOALL, 20),
        ),
        (comms("all_to_allv", 80, 80, In_split_size="[2, 2, ...]", Out_split_size="[2, 2, ...]"), (Function.OTHER, 80)),
        (comms("all_to_all", 82, 82), (Function.OTHER, 82)),
        (comms("barrier", 0, 0), (Function.ALL_REDUCE, 1)),
        (comms("gather", 5, 20), (Function.GATHER, 5)),
        (comms("scatter", 20, 5), (Function.SCATTER, 5)),
        (comms("_reduce_oop", 5, 5), (Function.REDUCE, 5)),
        (comms("reduce_scatter_tensor_coalesced", 40, 10), (Function.REDUCE_SCATTER, 10)),
        (comms("allgather_into_tensor_coalesced", 10, 40), (Function.ALL_GATHER, 10)),
        (comms("custom", 9, 9), (Function.OTHER, 9)),
    ],
)
def test_collectives_of_pytorch(tmp_path: Path, event: dict[str, object], expected: tuple[int, int]) -> None:
    trace = read_events(tmp_path, event)
    assert rows(trace, "function", "count") == [expected]
    is_joined = any("1 coalesced operations" in problem for problem in trace.problems)
    assert is_joined == ("coalesced" in str(event["args"]))


@pytest.mark.parametrize(
    ("name", "splits", "is_assumed"), [("all_to_all", "[]", True), ("all_to_allv", "[2, 2, 2, 2]", False)]
)
def test_an_alltoall_without_sizes_of_its_tensors_is_assumed_to_be_equal(
    tmp_path: Path, name: str, splits: str, is_assumed: bool
) -> None:
    event = comms(name, 80, 80, In_split_size=splits, Out_split_size=splits)
    trace = read_events(tmp_path, event)
    assert rows(trace, "function", "count") == [(Function.ALLTOALL, 20)]
    assert any("1 alltoall are taken as equal" in problem for problem in trace.problems) == is_assumed


def test_an_operation_with_a_call_and_a_kernel_counts_once_in_a_problem(tmp_path: Path) -> None:
    call = comms("allreduce_coalesced", 80, 80)
    trace = read_events(tmp_path, call, call | {"cat": "kernel", "name": "ncclDevKernel_Generic", "dur": 3})
    assert rows(trace, "function", "device_end_ns") == [(Function.ALL_REDUCE, 3001)]
    assert any("1 coalesced operations" in problem for problem in trace.problems)


def test_impossible_values_are_a_reason_for_an_empty_trace(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="1 operations are left out because their values are impossible"):
        read_events(tmp_path, comms("allreduce", -5, -5))


def test_waits_and_uneven_gathers_are_no_operations(tmp_path: Path) -> None:
    """PyTorch gathers tensors of unequal sizes by broadcasts, which the trace lists too."""
    events = [comms("all_gather", 10, 45), *(comms("_broadcast_oop", size, size) for size in (10, 10, 10, 15))]
    trace = read_events(tmp_path, *events, comms("wait", 0, 0, Group_size=1), comms("init", 0, 0))
    assert rows(trace, "function") == [(Function.BROADCAST,)] * 4
    assert any("1 collectives with unequal sizes" in problem for problem in trace.problems)


@pytest.mark.parametrize(
    ("values", "groups", "expected"),
    [
        ({}, [{"pg_name": "0", "pg_size": 4, "ranks": [1, 3, 5, 8]}], (1, 3, 5, 8)),
        ({}, [{"pg_name": "0", "pg_size": 4, "ranks": "[1, 3, 5, 8]"}], (1, 3, 5, 8)),
        ({"Global_rank_start": 1, "Global_rank_stride": 4}, [], (1, 5, 9, 13)),
        ({}, [], (None, None, None, None)),
    ],
)
def test_lists_of_ranks_that_are_cut(
    tmp_path: Path, values: dict[str, object], groups: object, expected: tuple[int | None, ...]
) -> None:
    event = comms("allreduce", 1, 1, Process_Group_Ranks="[1, 3, ...]", **values)
    trace = read_events(tmp_path, event, groups=groups)
    assert trace.communicators[0].members == expected
    assert trace.ranks[0].own_rank_by_communicator == ({} if None in expected else {0: 0})


def test_process_groups_of_one_name_are_unique_with_their_ranks(tmp_path: Path) -> None:
    events = [comms("allreduce", 1, 1, Process_Group_Ranks=ranks) for ranks in ("[0, 1, 2, 3]", "[1, 5, 6, 7]")]
    assert len(read_events(tmp_path, *events).communicators) == 2


def test_kernels_without_call_are_counted(tmp_path: Path) -> None:
    kernel = {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_SendRecv(...)", "ts": 20, "dur": 5}
    graph = kernel | {"args": {"stream": 7, "grid": [4, 1, 1]}}
    linked = kernel | {"args": {"stream": 7, "grid": [24, 1, 1], "External id": 5}, "ts": 11.25}
    trace = read_events(tmp_path, comms("allreduce", 1, 1), graph, linked)
    assert "1 kernels of NCCL have no call (coalesced calls or CUDA graphs)" in trace.problems
    assert rows(trace, "enqueue_ns", "device_start_ns", "device_end_ns", "channels") == [(1, 751, 5751, 24)]


def flight_entry(title: str, shapes: list[list[int]], **values: object) -> dict[str, object]:
    return {
        "record_id": 0,
        "process_group": ["0", "default_pg"],
        "collective_seq_id": 1,
        "p2p_seq_id": 0,
        "profiling_name": title,
        "time_created_ns": 1724779239936775119,
        "input_sizes": shapes,
        "input_dtypes": ["Float"],
        "output_sizes": shapes,
        "output_dtypes": ["Float"],
        "is_p2p": False,
        **values,
    }


def read_dump(folder: Path, *entries: dict[str, object]) -> Trace:
    path = folder / "nccl_trace_rank_1"
    groups = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"}}
    path.write_text(json.dumps({"entries": entries, "pg_config": groups, "version": "2.4"}))
    return FLIGHT_RECORDER.read([path])


def test_forms_of_the_flight_recorder(tmp_path: Path) -> None:
    trace = read_dump(
        tmp_path,
        flight_entry("nccl:all_reduce", [[3, 4], [5]]),
        flight_entry("nccl:all_reduce_barrier", [[1]], collective_seq_id=2),
        flight_entry("nccl:coalesced", [], collective_seq_id=3),
        flight_entry("gloo:all_reduce", [[9]], collective_seq_id=4),
        flight_entry("nccl:all_to_all", [[6], [6], [6]], collective_seq_id=5),
        flight_entry("nccl:all_to_all", [[6], [6], [7]], collective_seq_id=6),
        flight_entry("nccl:send 1->2", [[8]], is_p2p=True, p2p_seq_id=1),
        flight_entry("nccl:recv 1<-0", [[8]], is_p2p=True, p2p_seq_id=1),
    )
    send, recv = Function.SEND, Function.RECV
    assert rows(trace, "function", "count", "peer") == [
        (Function.ALL_REDUCE, 17, -1),
        (Function.ALL_REDUCE, 1, -1),
        (Function.ALLTOALL, 6, -1),
        *((function, count, peer) for peer, count in enumerate((6, 6, 7)) for function in (send, recv)),
        (send, 8, 2),
        (recv, 8, 0),
    ]


def test_operations_of_old_dumps_have_no_names_of_groups(tmp_path: Path) -> None:
    entry = flight_entry("nccl:all_reduce", [[3, 4]])
    del entry["process_group"]
    with pytest.raises(UsageError, match=r"no operation.*1 entries with values of another form"):
        read_dump(tmp_path, entry)


def test_times_of_the_inspector_on_the_host_are_no_durations(tmp_path: Path) -> None:
    values = {"coll": "AllReduce", "coll_sn": 0, "coll_msg_size_bytes": 64, "coll_exec_time_us": 9}
    path = tmp_path / "n1-pid5.log"
    lines = [
        {"header": {"id": "0x1", "rank": 0, "n_ranks": 2}, "coll_perf": values | {"coll_timing_source": source}}
        for source in ("kernel_gpu", "kernel_cpu", "collective_cpu")
    ]
    lines.append({"coll_perf": values})  # v4.3 names the communicator only once
    path.write_text("\n".join(map(json.dumps, lines)))
    trace = INSPECTOR.read([path])
    assert rows(trace, "device_start_ns", "device_end_ns") == [(1, 9001), (1, 9001), (0, 0)]
    assert any("1 records do not name their communicator" in problem for problem in trace.problems)


def test_the_inspector_names_functions_and_numbers_none(tmp_path: Path) -> None:
    path = tmp_path / "n1-pid5.log"
    header = {"id": "0x1", "rank": 0, "n_ranks": 2}
    lines = [
        {"header": header, "coll_perf": {"coll": name, "coll_sn": 0, "coll_msg_size_bytes": 64}}
        for name in ("AllReduce", "0", 0)
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    functions = [(Function.ALL_REDUCE,), (Function.OTHER,), (Function.OTHER,)]
    assert rows(INSPECTOR.read([path]), "function") == functions


def test_logs_of_tests_are_no_traces() -> None:
    """`busbw show` reads them as tables, also with messages of NCCL between the rows."""
    golden = Path(__file__).parents[2] / "golden"
    logs = sorted(log for log in (*golden.glob("*.*"), *(golden / "logs").rglob("*.*")) if log.is_file())
    recognized = [
        log.name for log in logs if any(importer.recognizes(log.read_bytes()[: 1 << 16], log) for importer in IMPORTERS)
    ]
    assert len(logs) > 10
    assert recognized == []
