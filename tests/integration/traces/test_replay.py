"""Does `busbw-engine replay` run the operations of a program, as threads, processes and over sockets?

The oracle is the trace that the host backend records: it must hold the operations of the program, one by one.
"""

import json
from collections import defaultdict
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from polling import free_port

from busbw.traces import format as layout
from busbw.traces.format import Flag, Function, Kind

from ..programs import Finished, Programs, of_kind, read_json, read_records

Operation = list[Any]
MS = 1_000_000


def all_reduce(communicator: int, count: int = 100, gap_ns: int = 0, group: int = 0) -> Operation:
    return [communicator, "all_reduce", "float", "sum", count, -1, group, gap_ns, 0]


def transfer(function: str, communicator: int, peer: int, count: int, group: int) -> Operation:
    return [communicator, function, "half", "", count, peer, group, 0, 0]


def tensor_and_data_parallel() -> dict[str, Any]:
    """Ranks 0 and 1, 2 and 3 share a layer; 0 and 2, 1 and 3 have the same weights. Every rank is in two groups."""
    operations = []
    for rank in range(4):
        tensor, data = rank // 2, 2 + rank % 2
        counts = [[5, 3000], [0, 7]]  # alltoallv between the ranks of a tensor group: unequal, and nothing
        own, peer = rank % 2, 1 - rank % 2
        exchange = [transfer("send", tensor, to, counts[own][to], 4) for to in range(2)]
        exchange += [transfer("recv", tensor, source, counts[source][own], 4) for source in range(2)]
        operations.append(
            [
                all_reduce(tensor, 1000, gap_ns=200_000),
                [data, "all_gather", "bfloat16", "", 5000, -1, 0, 0, 1],
                [tensor, "reduce_scatter", "int64", "max", 20_000, -1, 1, 300_000, 1],
                [data, "broadcast", "double", "", 77, 1, 1, 0, 0],
                [tensor, "all_reduce", "bfloat16", "avg", 50_000, -1, 0, 0, 1],
                [data, "alltoall", "uint8", "", 300, -1, 0, 0, 0],
                *exchange,
                [data, "reduce", "float", "prod", 10, 0, 0, 0, 0],
                [data, "gather", "int32", "", 900, 1, 0, 0, 0],
                [data, "scatter", "int32", "", 900, 0, 0, 0, 0],
                transfer("send" if own == 0 else "recv", tensor, peer, 40_000, 0),
            ]
        )
    return program([[0, 1], [2, 3], [0, 2], [1, 3]], operations)


def program(communicators: list[list[int]], operations: list[list[Operation]]) -> dict[str, Any]:
    return {
        "format": "busbw-replay 1",
        "name": "test",
        "ranks": len(operations),
        "communicators": communicators,
        "operations": operations,
    }


def write(programs: Programs, document: object) -> str:
    text = document if isinstance(document, str) else json.dumps(document)
    (programs.folder / "program.json").write_text(text)
    return "program.json"


def replay(
    programs: Programs, document: object, *arguments: object, environment: dict[str, str] | None = None
) -> Finished:
    file = write(programs, document)
    return programs.run("busbw-engine", "replay", file, "--backend", "host", *arguments, environment=environment)


def replay_over_sockets(programs: Programs, document: object, *arguments: object, environment: dict[str, str]) -> None:
    file = write(programs, document)
    common = {"BUSBW_SIZE": "2", "BUSBW_RENDEZVOUS": f"tcp://127.0.0.1:{free_port()}", "BUSBW_TOKEN": "of-these-tests"}
    running = [
        programs.start(
            "busbw-engine",
            *("replay", file, "--backend", "host", "-t", 2, *arguments),
            environment={**common, **environment, "BUSBW_RANK": str(rank)},
        )
        for rank in range(2)
    ]
    assert [one.finish().code for one in running] == [0, 0]


def recorded_operations(folder: Path, ranks: int) -> dict[int, list[tuple[Any, ...]]]:
    """Operations of each rank, from the bytes of the files: members, values of the program, group."""
    entries: list[tuple[Path, np.void]] = []
    operations: list[tuple[Path, np.void]] = []
    for path in folder.glob("*.trace"):
        data = path.read_bytes()
        header = np.frombuffer(data, layout.HEADER, 1)[0]
        assert (header["magic"], header["device_clock"], header["lost_count"]) == (layout.MAGIC, 1, 0)
        records = data[layout.HEADER_BYTES :][: int(header["record_count"]) * layout.RECORD_BYTES]
        for start in range(0, len(records), layout.RECORD_BYTES):
            kinds = {Kind.OPERATION: (layout.OPERATION, operations), Kind.COMMUNICATOR: (layout.COMMUNICATOR, entries)}
            dtype, target = kinds[Kind(records[start])]
            target.append((path, np.frombuffer(records, dtype, 1, start)[0]))
    known = {(path, int(entry["communicator"])): entry for path, entry in entries}
    world_ids = {int(entry["id"]) for _, entry in entries if entry["size"] == ranks}
    assert len(world_ids) == 1
    rank_of_thread: dict[tuple[Path, int], int] = {}
    for path, operation in operations:
        entry = known[path, int(operation["communicator"])]
        if int(entry["id"]) in world_ids:
            rank_of_thread[path, int(operation["thread"])] = int(entry["rank"])
    members = defaultdict[int, dict[int, int]](dict)
    for path, operation in operations:
        entry = known[path, int(operation["communicator"])]
        members[int(entry["id"])][int(entry["rank"])] = rank_of_thread[path, int(operation["thread"])]
    result = defaultdict[int, list[tuple[Any, ...]]](list)
    for path, operation in operations:
        identity = int(known[path, int(operation["communicator"])]["id"])
        if identity in world_ids:
            continue
        assert 0 < operation["enqueue_ns"] == operation["device_start_ns"] <= operation["device_end_ns"]
        reduces = operation["redop"] != layout.UNKNOWN_BYTE
        result[rank_of_thread[path, int(operation["thread"])]].append(
            (
                tuple(rank for _, rank in sorted(members[identity].items())),
                Function(operation["function"]).name.lower(),
                layout.DATATYPE_NAMES[operation["datatype"]],
                layout.REDOP_NAMES[operation["redop"]] if reduces else "",
                int(operation["count"]),
                int(operation["peer"]),
                bool(operation["flags"] & Flag.IN_PLACE),
                int(operation["group"]),
            )
        )
    return result


def groups(operations: list[tuple[Any, ...]]) -> list[list[tuple[Any, ...]]]:
    """Operations without the number of their group, as groups in which the order has no meaning."""
    parts = groupby(enumerate(operations), key=lambda entry: entry[1][-1] or -1 - entry[0])
    return [sorted(operation[:-1] for _, operation in part) for _, part in parts]


def expect_recording_of(document: dict[str, Any], folder: Path) -> None:
    recorded = recorded_operations(folder, document["ranks"])
    for rank, operations in enumerate(document["operations"]):
        step = groups(
            [
                (tuple(document["communicators"][op[0]]), op[1], op[2], op[3], op[4], op[5], bool(op[8]), op[6])
                for op in operations
            ]
        )
        found = groups(recorded[rank])
        assert len(found) > len(step)
        assert found == step * (len(found) // len(step))


RANKS = {"threads": ["-t", 4], "processes": ["--processes", 4], "both": ["--processes", 2, "-t", 2]}


@pytest.mark.parametrize("ranks", RANKS.values(), ids=RANKS)
def test_the_recording_of_a_replay_has_the_operations_of_the_program(ranks: list[object], programs: Programs) -> None:
    document = tensor_and_data_parallel()
    trace = {"BUSBW_TRACE_DIRECTORY": str(programs.folder / "trace")}
    finished = replay(programs, document, *ranks, "-n", 3, "-c", 0, environment=trace)
    assert (finished.code, finished.stderr) == (0, "")
    expect_recording_of(document, programs.folder / "trace")


def test_the_recording_of_a_replay_over_sockets_has_the_operations_of_the_program(programs: Programs) -> None:
    document = tensor_and_data_parallel()
    trace = {"BUSBW_TRACE_DIRECTORY": str(programs.folder / "trace")}
    replay_over_sockets(programs, document, "-n", 3, "-c", 0, environment=trace)
    expect_recording_of(document, programs.folder / "trace")


def test_a_benchmark_is_recorded_with_its_check(programs: Programs) -> None:
    trace = {"BUSBW_TRACE_DIRECTORY": str(programs.folder / "trace")}
    arguments = ["--backend", "host", "-t", 2, "-b", "4K", "-e", "4K", "-n", 5, "-w", 2, "--placement", "out"]
    assert programs.run("all_reduce", *arguments, environment=trace).code == 0
    (path,) = (programs.folder / "trace").glob("*.trace")
    records = np.frombuffer(path.read_bytes()[layout.HEADER_BYTES :], layout.OPERATION)
    operations = records[records["kind"] == Kind.OPERATION]
    assert set(operations["thread"]) == {0, 1}
    for thread in range(2):
        own = operations[operations["thread"] == thread]
        assert set(own["count"]) == {1024}
        assert len(own) >= 2 + 5 + 1


def test_the_row_has_size_and_count_of_the_step_and_no_bandwidth(programs: Programs) -> None:
    document = program([[0, 1]], [[all_reduce(0, 10), [0, "all_gather", "half", "", 100, -1, 0, 0, 0]]] * 2)
    outputs = ["-J", "out.json", "--records", "out.jsonl"]
    finished = replay(programs, document, "-t", 2, "-n", 2, "--report-times", 1, *outputs)
    assert (finished.code, finished.stderr) == (0, "")
    (row,) = of_kind(read_records(programs.folder / "out.jsonl"), "row")
    assert (row["size_bytes"], row["count"], row["dtype"], row["redop"], row["root"]) == (440, 2, "none", None, None)
    assert (row["algbw_gbps"], row["busbw_gbps"], row["check"]["state"]) == (None, None, "checked")
    assert row["time_us"] > 0
    (result,) = read_json(programs.folder / "out.json")["results"]
    assert (result["out_of_place"]["alg_bw"], result["out_of_place"]["bus_bw"], result["in_place"]) == (
        None,
        None,
        None,
    )
    assert "N/A     N/A       0" in finished.stdout
    assert "Avg bus bandwidth    : N/A" in finished.stdout


def test_gaps_are_part_of_the_step_and_overlap_between_communicators(programs: Programs) -> None:
    """The gap of a communicator begins at the end of its own operation, so 40 ms of the second one cost no time.

    If the second gap began after the first communicator's operations, the step would take 90 ms.
    """
    document = program([[0, 1], [0, 1]], [[all_reduce(0, gap_ns=20 * MS), all_reduce(0, gap_ns=30 * MS)]] * 2)
    for operations in document["operations"][:1]:
        operations.append(all_reduce(1, gap_ns=40 * MS))
    finished = replay(programs, document, "-t", 2, "-n", 7, "-c", 0, "--records", "out.jsonl")
    assert (finished.code, finished.stderr) == (0, "")
    (row,) = of_kind(read_records(programs.folder / "out.jsonl"), "row")
    assert 50_000 <= row["stats"]["min_us"] < 90_000


@pytest.mark.parametrize("ranks", RANKS.values(), ids=RANKS)
def test_correct_data_passes_the_check_and_a_flipped_bit_does_not(ranks: list[object], programs: Programs) -> None:
    document = tensor_and_data_parallel()
    good = replay(programs, document, *ranks, "-n", 1)
    assert (good.code, good.stderr) == (0, "")
    wrong = replay(
        programs, document, *ranks, "-n", 1, "--fault", "flip:rank=2,index=3,bit=1", "--records", "out.jsonl"
    )
    assert wrong.code == 1
    (row,) = of_kind(read_records(programs.folder / "out.jsonl"), "row")
    # Rank 2 receives in 8 kinds of operations, and its flipped element has one index; the root receives the others.
    assert row["check"]["wrong_ranks"] == 1
    assert {wrong["rank"] for wrong in row["check"]["first_wrong"]} == {2}
    assert "receive buffer of" in row["check"]["first_wrong"][0]["place"]


def test_a_dead_rank_is_named(programs: Programs) -> None:
    finished = replay(programs, tensor_and_data_parallel(), "--processes", 4, "--fault", "die:rank=1,phase=timing")
    assert finished.code == 4
    assert "rank 1" in finished.stderr


Change = Callable[[dict[str, Any]], object]


def change(path: list[Any], value: object) -> Change:
    """Replaces a value of a document."""

    def apply(document: dict[str, Any]) -> None:
        place: Any = document
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return apply


FIRST = ["operations", 1, 0]
INVALID: dict[str, tuple[Change, str]] = {
    "format": (change(["format"], "busbw-replay 2"), 'its format is "busbw-replay 2"; use "busbw-replay 1"'),
    "unknown key": (change(["steps"], 1), 'unknown key "steps"'),
    "missing key": (lambda document: document.pop("name"), 'no key "name"; add "name"'),
    "ranks": (change(["ranks"], 3), '"operations" has 2 lists for 3 ranks'),
    "member out of range": (change(["communicators", 0], [0, 2]), "a rank of communicator 0 is 2; allowed: 0 to 1"),
    "repeated member": (change(["communicators", 0], [0, 0]), "communicator 0 has rank 0 twice"),
    "empty communicator": (change(["communicators", 0], []), "communicator 0 has no ranks"),
    "not a member": (change(["communicators", 0], [0]), "rank 1, operation 0: communicator 0 does not have rank 1"),
    "values": (change(FIRST, [0]), "rank 1, operation 0 is no list of nine or ten values"),
    "communicator": (change([*FIRST, 0], 1), "rank 1, operation 0: the communicator is 1; allowed: 0 to 0"),
    "unknown function": (change([*FIRST, 1], "all_to_none"), "rank 1, operation 0: all_to_none cannot be replayed"),
    "one-sided": (change([*FIRST, 1], "put_signal"), "rank 1, operation 0: put_signal cannot be replayed"),
    "type": (change([*FIRST, 2], "float128"), "rank 1, operation 0: the element type float128 is unknown"),
    "operator": (change([*FIRST, 3], ""), 'rank 1, operation 0: the operator "" is unknown'),
    "negative count": (change([*FIRST, 4], -1), "rank 1, operation 0: the count is -1; allowed: 0 to "),
    "count beyond 64 bits": (change([*FIRST, 4], 2**62), "rank 1, operation 0: the count is 4611686018427387904"),
    "fraction": (change([*FIRST, 4], 1.5), "rank 1, operation 0: the count is 1.5"),
    "root": (change([*FIRST, 5], 0), "rank 1, operation 0: the root is 0; allowed: -1 to -1"),
    "gap": (change([*FIRST, 7], -5), "rank 1, operation 0: the gap in ns is -5"),
    "in place": (change([*FIRST, 8], 2), "rank 1, operation 0: the in-place flag is 2; allowed: 0 to 1"),
    "no operation": (change(["operations"], [[], []]), "no rank has an operation"),
    "other count": (
        change([*FIRST, 4], 99),
        "rank 1, operation 0 (all_reduce of 99 float sum on communicator 0): it differs from rank 0, operation 0",
    ),
    "other operation": (
        change(FIRST, [0, "broadcast", "float", "", 100, 0, 0, 0, 0]),
        "rank 1, operation 0 (broadcast of 100 float root 0 on communicator 0): it differs from rank 0, operation 0",
    ),
    "missing operation": (
        change(["operations", 1], []),
        "rank 0, operation 0 (all_reduce of 100 float sum on communicator 0): rank 1 has no such operation",
    ),
    "send without receive": (
        lambda document: document["operations"][0].append(transfer("send", 0, 1, 8, 0)),
        "rank 0, operation 1 (send of 8 half to 1 on communicator 0): no receive belongs to it",
    ),
    "receive without send": (
        lambda document: document["operations"][0].append(transfer("recv", 0, 1, 8, 0)),
        "rank 0, operation 1 (recv of 8 half from 1 on communicator 0): no send belongs to it",
    ),
    "other size received": (
        lambda document: [
            document["operations"][rank].append(transfer(name, 0, 1 - rank, 8 + rank, 0))
            for rank, name in enumerate(("send", "recv"))
        ],
        "rank 0, operation 1 (send of 8 half to 1 on communicator 0): its size differs from rank 1, operation 1",
    ),
    "circle of sends": (
        lambda document: [
            document["operations"][rank].extend([transfer(name, 0, 1 - rank, 8, 0) for name in ("send", "recv")])
            for rank in range(2)
        ],
        "rank 0, operation 1 (send of 8 half to 1 on communicator 0): the ranks issue operations in different orders",
    ),
}


@pytest.mark.parametrize("case", INVALID)
def test_an_invalid_program_is_refused_with_its_place(case: str, programs: Programs) -> None:
    document = program([[0, 1]], [[all_reduce(0)], [all_reduce(0)]])
    apply, expected = INVALID[case]
    apply(document)
    finished = replay(programs, document, "-t", 2, "-T", 10)
    assert finished.code == 2, finished
    assert expected in finished.sentence()
    assert finished.sentence().startswith("busbw-engine: program.json: ")


def test_a_replay_that_does_not_fit_into_memory_is_an_error_of_the_environment(programs: Programs) -> None:
    operation = all_reduce(0, count=2**50)
    finished = replay(programs, program([[0, 1]], [[operation], [operation]]), "-t", 2)
    assert finished.code == 3, finished
    expected = "rank 0, operation 0 (all_reduce of 1125899906842624 float sum on communicator 0): 2 buffers of 4 PiB"
    assert finished.sentence().startswith(
        f"busbw-engine: program.json: {expected} for each of 2 ranks do not fit into "
    )


def test_wrong_files_flags_and_rank_counts_are_refused(programs: Programs) -> None:
    document = program([[0, 1]], [[all_reduce(0)], [all_reduce(0)]])
    assert "byte 2 is not JSON" in replay(programs, "{", "-t", 2).sentence()
    assert "the program has 2 ranks, the job has 3" in replay(programs, document, "-t", 3).sentence()
    assert "-b (--minbytes) 8: replay has no such flag" in replay(programs, document, "-t", 2, "-b", 8).sentence()
    assert "the file cannot be read" in programs.run("busbw-engine", "replay", "absent.json").sentence()
    assert "the command line names no replay program" in programs.run("busbw-engine", "replay", "-t", 2).sentence()


def test_processes_need_the_same_program(programs: Programs) -> None:
    """Otherwise the ranks would hang in the first difference."""
    common = {"BUSBW_SIZE": "2", "BUSBW_RENDEZVOUS": f"tcp://127.0.0.1:{free_port()}", "BUSBW_TOKEN": "of-these-tests"}
    running = []
    for rank in range(2):
        folder = programs.subfolder(str(rank))
        document = program([[0, 1]], [[all_reduce(0, 10 + rank)], [all_reduce(0, 10 + rank)]])
        (folder / "program.json").write_text(json.dumps(document))
        environment = {**common, "BUSBW_RANK": str(rank)}
        arguments = ["replay", "program.json", "--backend", "host"]
        running.append(programs.start("busbw-engine", *arguments, environment=environment, folder=folder))
    ended = [one.finish() for one in running]
    assert [one.code for one in ended] == [2, 2]
    assert "has a different trace than process 0" in ended[0].stderr
