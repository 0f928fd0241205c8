"""One job in the format of each program: the importer reads what was written, except what the format lacks."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import foreign_recordings
import numpy as np
import pytest
import synthetic_traces
from synthetic_traces import Call, split_ranks

from busbw.errors import UsageError
from busbw.traces import format as layout
from busbw.traces.format import Algorithm, DeviceClock, Flag, Function, Protocol
from busbw.traces.importers import IMPORTERS
from busbw.traces.model import RankTrace, Trace

UNKNOWN = layout.UNKNOWN_BYTE
JOB = synthetic_traces.make_trace(
    ranks=4,
    hosts=2,
    partitions=[[(0, 1, 2, 3)], split_ranks(4, 2), split_ranks(4, 2, 2)],
    calls=[
        Call(function=Function.ALL_GATHER, count=1000, datatype=9, redop=UNKNOWN, partition=1),
        Call(function=Function.ALL_REDUCE, count=lambda step, rank: 64 + step, redop=2, partition=2),
        Call(function=Function.REDUCE_SCATTER, count=1000, partition=1, stream=1),
        Call(function=Function.BROADCAST, count=77, root=1, redop=UNKNOWN),
        Call(function=Function.ALLTOALL, count=4096, datatype=9, redop=UNKNOWN),
        Call(function=Function.SEND, count=5000, shift=1, redop=UNKNOWN),
        Call(function=Function.REDUCE, count=9, root=2),
    ],
    steps=3,
)


def read(paths: list[Path]) -> Trace:
    """Reads files with the only importer that recognizes them, as `read_trace` does."""
    beginning = paths[0].read_bytes()
    if beginning.startswith(b"\x1f\x8b"):
        beginning = gzip.decompress(beginning)
    (importer,) = (each for each in IMPORTERS if each.recognizes(beginning[: 1 << 16], paths[0]))
    return importer.read(paths)


def write_each(folder: Path, write: Callable[[RankTrace], str]) -> list[Path]:
    paths = []
    for rank in JOB.ranks:
        paths.append(folder / f"rank_{rank.rank}.json")
        paths[-1].write_text(write(rank))
    return paths


def describe(trace: Trace, *names: str) -> list[list[tuple[object, ...]]]:
    """Returns the fields of all operations of each rank, with the members of the communicator."""
    return [
        [
            (trace.communicators[call["communicator"]].members, *(int(call[name]) for name in names))
            for call in rank.operations
        ]
        for rank in trace.ranks
    ]


CALL_FIELDS = ("function", "count", "datatype", "peer")


def assert_same_job(trace: Trace, *names: str) -> None:
    assert [rank.rank for rank in trace.ranks] == [0, 1, 2, 3]
    assert describe(trace, *names) == describe(JOB, *names)
    members = {frozenset(enumerate(one.members)) for one in JOB.communicators}
    assert {frozenset(enumerate(one.members)) for one in trace.communicators} == members
    for rank in trace.ranks:
        for index, own_rank in rank.own_rank_by_communicator.items():
            assert trace.communicators[index].members[own_rank] == rank.rank


def assert_same_groups(trace: Trace) -> None:
    """Compares which operations of a rank are in one group; the numbers may differ."""
    for rank, original in zip(trace.ranks, JOB.ranks, strict=True):
        for operations in (rank.operations, original.operations):
            numbers = operations["group"]
            assert np.all((numbers != 0) == np.isin(operations["function"], [Function.SEND, Function.RECV]))
        _, first = np.unique(rank.operations["group"], return_inverse=True)
        _, second = np.unique(original.operations["group"], return_inverse=True)
        assert np.array_equal(first, second)


def unix_times(rank: RankTrace, name: str = "enqueue_ns") -> list[int]:
    return [rank.start_ns + int(value) for value in rank.operations[name]]


def assert_unknown(trace: Trace, *names: str) -> None:
    unknown = {"redop": UNKNOWN, "stream": layout.UNKNOWN_INDEX, "algorithm": UNKNOWN, "channels": UNKNOWN}
    for rank in trace.ranks:
        for name in names:
            assert set(rank.operations[name].tolist()) == {unknown.get(name, 0)}, name


def assert_durations(trace: Trace) -> None:
    for rank, original in zip(trace.ranks, JOB.ranks, strict=True):
        assert rank.device_clock == DeviceClock.DURATION
        assert set(rank.operations["device_start_ns"].tolist()) == {1}
        durations = original.operations["device_end_ns"] - original.operations["device_start_ns"]
        assert np.array_equal(rank.operations["device_end_ns"] - 1, durations)


@pytest.mark.parametrize("prefix", ["", "[1,3]<stdout>:", "17: ", "2026-11-27T00:00:00Z stdout F "])
def test_nccl_log(tmp_path: Path, prefix: str) -> None:
    path = tmp_path / "job.log"
    path.write_text("step 1\n" + foreign_recordings.nccl_log(JOB, prefix=prefix))
    trace = read([path])
    assert_same_job(trace, *CALL_FIELDS, "stream")
    assert_same_groups(trace)
    assert {one.identity for one in trace.communicators} == {one.identity for one in JOB.communicators}
    for rank, original in zip(trace.ranks, JOB.ranks, strict=True):
        assert (rank.host, rank.pid, rank.nccl_version) == (original.host, original.pid, "2.28.9")
        reduces = np.isin(rank.operations["function"], [Function.ALL_REDUCE, Function.REDUCE_SCATTER, Function.REDUCE])
        assert np.array_equal(rank.operations["redop"][reduces], original.operations["redop"][reduces])
        assert set(rank.operations["redop"][~reduces].tolist()) == {UNKNOWN}
        # Rank 0 of each communicator prints the algorithm.
        leads = [rank.own_rank_by_communicator[index] == 0 for index in rank.operations["communicator"].tolist()]
        has_kernel = np.array(leads) & (rank.operations["peer"] == -1) | np.array(leads) & reduces
        kernels = rank.operations[["algorithm", "protocol", "channels"]]
        assert set(kernels[has_kernel].tolist()) <= {(Algorithm.RING, Protocol.SIMPLE, 8)}
        assert set(kernels[~np.array(leads)].tolist()) <= {(UNKNOWN, UNKNOWN, UNKNOWN)}
    assert_unknown(trace, "enqueue_ns", "device_start_ns")
    assert any("no times" in problem for problem in trace.problems)


def test_nccl_log_of_one_file_per_process(tmp_path: Path) -> None:
    lines = foreign_recordings.nccl_log(JOB).splitlines(keepends=True)
    paths = []
    for rank in JOB.ranks:
        paths.append(tmp_path / f"nccl.{rank.pid}.log")
        paths[-1].write_text("".join(line for line in lines if f":{rank.pid}:" in line))
    assert_same_job(read(paths), *CALL_FIELDS)


def test_nccl_log_without_init_lines(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text(foreign_recordings.nccl_log(JOB, has_ids=False))
    trace = read([path])
    assert len(trace.ranks) == 4
    sizes = [[trace.communicators[call["communicator"]].size for call in rank.operations] for rank in trace.ranks]
    assert sizes == [[JOB.communicators[call["communicator"]].size for call in rank.operations] for rank in JOB.ranks]
    assert any("inferred from sizes" in problem for problem in trace.problems)
    assert any("numbered by appearance" in problem for problem in trace.problems)


@pytest.mark.parametrize("version", ["v4.0", "v4.2"])
@pytest.mark.parametrize("is_verbose", [False, True])
def test_inspector(tmp_path: Path, version: str, is_verbose: bool) -> None:
    trace = read(foreign_recordings.write_inspector(JOB, tmp_path, version=version, is_verbose=is_verbose))
    assert [rank.rank for rank in trace.ranks] == [0, 1, 2, 3]
    assert describe(trace, "function") == describe(JOB, "function")
    for rank, original in zip(trace.ranks, JOB.ranks, strict=True):
        sizes = original.operations["count"] * layout.DATATYPE_BYTES[original.operations["datatype"]].astype(np.uint64)
        assert np.array_equal(rank.operations["count"], sizes)
        assert set(rank.operations["flags"].tolist()) == {Flag.COUNT_IS_IN_BYTES}
        assert (rank.host, rank.pid, rank.lost_count) == (original.host, original.pid, 0)
        is_pair = np.isin(rank.operations["function"], [Function.SEND, Function.RECV])
        assert np.array_equal(rank.operations["peer"][is_pair], original.operations["peer"][is_pair])
        algorithm = Algorithm.RING if version == "v4.2" else UNKNOWN
        assert set(rank.operations["algorithm"][~is_pair].tolist()) == {algorithm}
        if is_verbose:
            assert unix_times(rank) == [time // 1000 * 1000 for time in unix_times(original)]
    assert_durations(trace)
    assert_unknown(trace, "redop", "stream", "group", *(() if is_verbose else ("enqueue_ns",)))


def test_inspector_removes_what_a_rank_dropped(tmp_path: Path) -> None:
    paths = foreign_recordings.write_inspector(JOB, tmp_path, version="v4.0", is_verbose=False)
    lines = paths[2].read_text().splitlines(keepends=True)
    dropped = next(index for index, line in enumerate(lines) if '"Broadcast"' in line and '"coll_sn":1' in line)
    paths[2].write_text("".join(lines[:dropped] + lines[dropped + 1 :]))
    trace = read(paths)
    assert [rank.lost_count for rank in trace.ranks] == [0, 0, 1, 0]
    assert "3 operations are left out because another rank dropped them" in trace.problems
    for rank in trace.ranks:
        assert np.count_nonzero(rank.operations["function"] == Function.BROADCAST) == 2
        assert np.count_nonzero(rank.operations["function"] == Function.ALL_REDUCE) == 3


def test_inspector_keeps_the_end_of_the_others_if_a_rank_stopped(tmp_path: Path) -> None:
    paths = foreign_recordings.write_inspector(JOB, tmp_path, version="v4.0", is_verbose=False)
    lines = paths[2].read_text().splitlines(keepends=True)
    paths[2].write_text("".join(lines[:-5]))
    trace = read(paths)
    counts = [len(rank.operations) for rank in trace.ranks]
    assert counts[0] == counts[1] == counts[3] == counts[2] + 5


@pytest.mark.parametrize(("has_calls", "has_kernels"), [(True, True), (True, False), (False, True)])
def test_kineto(tmp_path: Path, has_calls: bool, has_kernels: bool) -> None:
    def document(rank: RankTrace) -> str:
        return foreign_recordings.kineto_document(JOB, rank, has_calls=has_calls, has_kernels=has_kernels)

    trace = read(write_each(tmp_path, document))
    if has_calls:
        assert_same_job(trace, *CALL_FIELDS)
    else:  # the description of a kernel lacks the root
        assert_same_job(trace, "function", "count", "datatype")
    for rank, original in zip(trace.ranks, JOB.ranks, strict=True):
        assert rank.nccl_version == "2.28.9"
        if has_calls:
            assert unix_times(rank) == pytest.approx(unix_times(original), abs=1)
        if has_kernels:
            assert rank.device_clock == DeviceClock.HOST
            for name in ("device_start_ns", "device_end_ns"):
                assert unix_times(rank, name) == pytest.approx(unix_times(original, name), abs=1)
            assert set(rank.operations["channels"].tolist()) == {8}
            assert len(set(zip(rank.operations["stream"], original.operations["stream"], strict=True))) == 2
        else:
            assert rank.device_clock == DeviceClock.NONE
            assert_unknown(trace, "device_start_ns", "stream", "channels")
    assert_unknown(trace, "redop", "algorithm")


def test_kineto_compressed_and_in_compact_form(tmp_path: Path) -> None:

    paths = []
    for rank in JOB.ranks:
        document = json.loads(foreign_recordings.kineto_document(JOB, rank))
        events = document.pop("traceEvents")
        paths.append(tmp_path / f"{rank.host}_{rank.pid}.pt.trace.json.gz")  # older: groups and rank follow the events
        paths[-1].write_bytes(
            gzip.compress(json.dumps({"schemaVersion": 1, "traceEvents": events, **document}).encode())
        )
    assert_same_job(read(paths), *CALL_FIELDS)


@pytest.mark.parametrize("is_pickle", [True, False])
def test_flight_recorder(tmp_path: Path, is_pickle: bool) -> None:
    trace = read(foreign_recordings.write_flight_dumps(JOB, tmp_path, is_pickle=is_pickle))
    is_rooted = (Function.BROADCAST, Function.REDUCE)
    assert_same_job(trace, "function", "count", "datatype")
    assert_same_groups(trace)
    for rank, original in zip(trace.ranks, JOB.ranks, strict=True):
        known = ~np.isin(rank.operations["function"], is_rooted)
        assert np.array_equal(rank.operations["peer"][known], original.operations["peer"][known])
        assert set(rank.operations["peer"][~known].tolist()) == {-1}
        assert unix_times(rank) == unix_times(original)
    assert_durations(trace)
    assert_unknown(trace, "redop", "stream", "algorithm")


@pytest.mark.parametrize(
    "name",
    [
        "nccl_trace_rank_{}",
        "rank{}_dump.json",
        "nccl_trace_rank_{}_20261129",
        "nccl_trace_rank_{}.1790000000",
        "nccl_trace_rank_{}.20261129-101010.json",
        "job5_rank_{}_attempt_1.json",
        "host7_rank_{} (1).json",
        "dump_{}.json",
    ],
)
def test_the_rank_of_a_flight_recorder_dump_is_in_its_name(tmp_path: Path, name: str) -> None:
    paths = foreign_recordings.write_flight_dumps(JOB, tmp_path, is_pickle=False)
    renamed = [paths[rank].rename(tmp_path / name.format(rank)) for rank in (3, 1)]
    assert [rank.rank for rank in read(renamed).ranks] == [1, 3]


def test_a_number_that_is_in_no_process_group_is_not_the_rank(tmp_path: Path) -> None:
    paths = foreign_recordings.write_flight_dumps(JOB, tmp_path, is_pickle=False)
    trace = read([path.rename(tmp_path / f"dump_{1000 + number}") for number, path in enumerate(paths)])
    assert [rank.rank for rank in trace.ranks] == [0, 1, 2, 3]
    assert "4 ranks are numbered by appearance, because the source does not number them" in trace.problems


def test_a_damaged_pickle_does_not_hide_the_other_ranks(tmp_path: Path) -> None:
    paths = foreign_recordings.write_flight_dumps(JOB, tmp_path, is_pickle=True)
    paths[2].write_bytes(paths[2].read_bytes()[:500])
    trace = read(paths)
    assert [rank.rank for rank in trace.ranks] == [0, 1, 3]
    assert any("nccl_trace_rank_2 is not a valid pickle" in problem for problem in trace.problems)


def test_entries_of_other_backends_are_counted(tmp_path: Path) -> None:
    path, *_ = foreign_recordings.write_flight_dumps(JOB, tmp_path, is_pickle=False)
    text = path.read_text()
    count = text.count('"nccl:')
    path.write_text(text.replace('"nccl:', '"gloo:', 2))
    assert "2 entries of other backends than NCCL, such as gloo, are left out" in read([path]).problems
    path.write_text(text.replace('"nccl:', '"gloo:'))
    with pytest.raises(UsageError, match=f"no operations: {count} entries of other backends than NCCL"):
        read([path])


def test_flight_recorder_cuts_to_the_common_window(tmp_path: Path) -> None:
    """A ring buffer dropped the first entries of one rank, so those of the others have no partner."""

    paths = foreign_recordings.write_flight_dumps(JOB, tmp_path, is_pickle=False)
    dump = json.loads(paths[1].read_text())
    dump["entries"] = dump["entries"][7:]
    paths[1].write_text(json.dumps(dump))
    trace = read(paths)
    assert trace.ranks[1].lost_count == 7
    for function in (Function.BROADCAST, Function.ALL_GATHER, Function.ALL_REDUCE):
        for one in range(len(trace.communicators)):
            counts = {
                int(
                    np.count_nonzero(
                        (rank.operations["function"] == function) & (rank.operations["communicator"] == one)
                    )
                )
                for rank in trace.ranks
                if one in rank.own_rank_by_communicator
            }
            assert len(counts) == 1


def test_chakra(tmp_path: Path) -> None:
    trace = read(foreign_recordings.write_chakra(JOB, tmp_path))
    assert [rank.rank for rank in trace.ranks] == [0, 1, 2, 3]
    assert describe(trace, "function", "stream") == describe(JOB, "function", "stream")
    for rank, original in zip(trace.ranks, JOB.ranks, strict=True):
        sizes = original.operations["count"] * layout.DATATYPE_BYTES[original.operations["datatype"]].astype(np.uint64)
        assert np.array_equal(rank.operations["count"], sizes)
        is_pair = np.isin(rank.operations["function"], [Function.SEND, Function.RECV])
        assert np.array_equal(rank.operations["peer"][is_pair], original.operations["peer"][is_pair])
        assert (rank.operations["peer"][~is_pair] == -1).all()
    assert [problem for problem in trace.problems if "no times, operators, roots" in problem]
    assert_durations(trace)
    assert_unknown(trace, "redop", "algorithm", "enqueue_ns")


def test_equal_chakra_files_are_of_different_ranks(tmp_path: Path) -> None:
    first, *others = foreign_recordings.write_chakra(JOB, tmp_path)
    for path in others:
        path.write_bytes(first.read_bytes())
    trace = read([first, *others])
    assert [rank.rank for rank in trace.ranks] == list(range(1 + len(others)))
    assert not any("copies" in problem for problem in trace.problems)


def test_missing_ranks_are_named(tmp_path: Path) -> None:
    paths = write_each(tmp_path, lambda rank: foreign_recordings.kineto_document(JOB, rank))
    trace = read([paths[1], paths[3]])
    assert [rank.rank for rank in trace.ranks] == [1, 3]
    assert "2 ranks of 4 not recorded: 0, 2" in trace.problems
    assert trace.size == 4
    assert describe(trace, *CALL_FIELDS) == [describe(JOB, *CALL_FIELDS)[rank] for rank in (1, 3)]


def test_a_copy_of_a_file_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text(foreign_recordings.nccl_log(JOB))
    copy = tmp_path / "job-copy.log"
    copy.write_text(path.read_text())
    trace = read([path, copy])
    assert describe(trace, "count") == describe(JOB, "count")
    assert "1 file left out as copies of others: job-copy.log" in trace.problems


def test_a_rank_that_occurs_twice_is_named(tmp_path: Path) -> None:
    paths = write_each(tmp_path, lambda rank: foreign_recordings.kineto_document(JOB, rank))
    part = tmp_path / "part.json"
    part.write_text(paths[0].read_text() + " ")
    trace = read([*paths, part])
    assert_same_job(trace, *CALL_FIELDS)
    assert "rank 0 occurs several times; 1 recording left out: part.json" in trace.problems


def test_the_recordings_of_the_ranks_are_of_the_same_time(tmp_path: Path) -> None:
    """The profiler has recorded twice, and of the longer recording some ranks are missing."""
    early = foreign_recordings.write_flight_dumps(JOB, tmp_path, is_pickle=False)
    late = []
    for number, path in enumerate(early):
        dump = json.loads(path.read_text())
        for entry in dump["entries"]:
            entry["time_created_ns"] += 60_000_000_000
        late.append(tmp_path / f"late_rank_{number}")
        late[-1].write_text(json.dumps(dump))
        if number in (1, 3):
            dump = json.loads(path.read_text())
            path.write_text(json.dumps(dump | {"entries": dump["entries"][:-3]}))
    trace = read([*early, late[1], late[3]])
    assert [Path(rank.source).name for rank in trace.ranks] == [path.name for path in early]
    assert "ranks 1, 3 occur several times; 2 recordings left out: late_rank_1, late_rank_3" in trace.problems
    trace = read([*early, *late])
    assert [Path(rank.source).name for rank in trace.ranks] == [path.name for path in late]


def test_two_files_of_one_rank_are_not_joined(tmp_path: Path) -> None:
    paths = foreign_recordings.write_chakra(JOB, tmp_path)
    second = tmp_path / "second.1.et"
    second.write_bytes(paths[1].read_bytes()[:-200])
    trace = read([*paths, second])
    assert describe(trace, "function") == describe(JOB, "function")
    assert "rank 1 occurs several times; 1 recording left out: second.1.et" in trace.problems
