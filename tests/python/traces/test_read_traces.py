"""Reading traces of the own format: round trips, several ranks in a process, several runs, damaged files."""

import gzip
import os
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synthetic_traces import Call, make_trace, split_ranks

from busbw.errors import BusbwError, UsageError
from busbw.traces import format as layout
from busbw.traces.clocks import align_clocks
from busbw.traces.format import DeviceClock, Function, Kind
from busbw.traces.importers import Importer
from busbw.traces.matching import match_operations
from busbw.traces.model import Trace
from busbw.traces.read import is_trace, read_trace
from busbw.traces.steps import find_steps
from busbw.traces.write import write_trace

CALLS = (Call(), Call(partition=1, function=Function.SEND, shift=1), Call(partition=2, function=Function.ALL_GATHER))
PARTITIONS = ([range(8)], split_ranks(8, 2), split_ranks(8, 4, 2))


def make_operations(communicators: Sequence[int], threads: Sequence[int] = (), streams: Sequence[int] = ()) -> Any:
    operations = np.zeros(len(communicators), layout.OPERATION)
    operations["kind"] = Kind.OPERATION
    operations["communicator"] = communicators
    operations["count"] = np.arange(len(communicators)) + 1
    operations["enqueue_ns"] = np.arange(len(communicators)) + 1
    operations["thread"] = threads or 0
    operations["stream"] = streams or 0
    return operations


def write_file(
    path: Path,
    communicators: Sequence[tuple[int, int, int, int]],
    operations: Any,
    **header_fields: Any,
) -> None:
    """Writes a file with communicators (index, id, rank, size)."""
    header = np.zeros((), layout.HEADER)
    header["magic"], header["version"], header["header_bytes"] = layout.MAGIC, layout.VERSION, layout.HEADER_BYTES
    header["record_count"] = len(communicators) + len(operations)
    header["rank"] = header["size"] = -1
    header["is_closed"] = 1
    for name, value in header_fields.items():
        header[name] = value
    records = np.zeros(len(communicators), layout.COMMUNICATOR)
    for record, (index, identity, rank, size) in zip(records, communicators, strict=True):
        record["kind"], record["communicator"] = Kind.COMMUNICATOR, index
        record["has_id"], record["id"] = 1, identity
        record["rank"], record["size"] = rank, size
    content = header.tobytes().ljust(layout.HEADER_BYTES, b"\0") + records.tobytes() + operations.tobytes()
    path.write_bytes(content)


def counts(trace: Trace) -> list[list[int]]:
    """Returns the counts of all operations of each rank. The helpers above give each operation another one."""
    return [rank.operations["count"].tolist() for rank in trace.ranks]


@pytest.mark.parametrize("clock", DeviceClock)
def test_a_written_trace_is_read_back(tmp_path: Path, clock: DeviceClock) -> None:
    trace = make_trace(partitions=PARTITIONS, calls=CALLS, hosts=2, device_clock=clock)
    write_trace(trace, tmp_path / "trace")
    found = read_trace(tmp_path / "trace")
    assert found.problems == ()
    assert found.name == "trace"
    assert found.communicators == trace.communicators
    assert found.size == 8
    for rank, expected in zip(found.ranks, trace.ranks, strict=True):
        assert np.array_equal(rank.operations, expected.operations)
        assert replace(rank, source="", operations=expected.operations) == expected


def test_gaps_remain_known_in_a_written_trace(tmp_path: Path) -> None:
    trace = make_trace(ranks=1)
    trace = replace(trace, ranks=(replace(trace.ranks[0], lost_count=5, first_unmatched=3),))
    write_trace(trace, tmp_path / "trace")
    (found,) = read_trace(tmp_path / "trace").ranks
    assert (found.lost_count, found.first_unmatched) == (5, 3)
    assert np.array_equal(found.operations, trace.ranks[0].operations)


def test_an_invalid_communicator_ends_no_matches_of_others(tmp_path: Path) -> None:
    for rank in range(2):
        communicators = [(0, 7, rank, 2), (1, 8, rank, 2 if rank else -2)]
        write_file(tmp_path / f"{rank}.trace", communicators, make_operations([0, 0, 1, 0, 1, 0]), rank=rank, size=2)
    found = read_trace(tmp_path)
    assert [rank.first_unmatched for rank in found.ranks] == [None, None]
    (matched,) = (one for one in found.matching.operations if len(one.ranks) == 2)
    assert matched.indices.tolist() == [[0, 0], [1, 1], [2, 3], [3, 5]]


def test_one_file_of_a_directory_is_a_trace_of_one_rank(tmp_path: Path) -> None:
    write_trace(make_trace(partitions=PARTITIONS, calls=CALLS), tmp_path)
    found = read_trace(tmp_path / "rank-00003.trace")
    assert [rank.rank for rank in found.ranks] == [3]
    assert found.communicators[0].members == tuple(range(8))  # from the records of members
    assert found.problems == ("7 ranks of 8 not recorded: 0, 1, 2, 4, 5, 6, 7",)


def test_a_trace_is_not_written_over_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(UsageError, match="is not empty"):
        write_trace(make_trace(ranks=2), tmp_path)


def test_members_are_the_ranks_that_were_recorded(tmp_path: Path) -> None:
    for rank in (0, 2):
        write_file(tmp_path / f"{rank}.trace", [(5, 77, rank, 4)], make_operations([5, 5]), rank=rank, size=4)
    found = read_trace(tmp_path)
    assert [rank.rank for rank in found.ranks] == [0, 2]
    assert found.communicators[0].members == (0, None, 2, None)
    assert found.communicators[0].identity == f"{77:016x}"
    assert found.ranks[1].operations["communicator"].tolist() == [0, 0]
    assert found.problems == ("2 ranks of 4 not recorded: 1, 3",)


def test_without_a_launcher_the_largest_common_communicator_gives_the_ranks(tmp_path: Path) -> None:
    for rank in range(4):  # the files are named in the opposite order
        pair = (1, 100 + rank // 2, rank % 2, 2)
        write_file(tmp_path / f"{9 - rank}.trace", [pair, (0, 7, rank, 4)], make_operations([0] * (rank + 1)))
    found = read_trace(tmp_path)
    assert counts(found) == [[1], [1, 2], [1, 2, 3], [1, 2, 3, 4]]
    assert {one.members for one in found.communicators} == {(0, 1, 2, 3), (0, 1), (2, 3)}
    assert found.problems == ()


def test_ranks_that_nothing_tells_are_named(tmp_path: Path) -> None:
    for place in range(2):
        write_file(tmp_path / f"{place}.trace", [(0, 7 + place, place, 2)], make_operations([0]))
    assert any("numbered by appearance" in problem for problem in read_trace(tmp_path).problems)


def test_communicators_of_an_unknown_size_have_the_recorded_ranks(tmp_path: Path) -> None:
    for rank in range(3):
        write_file(tmp_path / f"{rank}.trace", [(0, 5, rank, -1)], make_operations([0]))
    trace = read_trace(tmp_path)
    assert [(one.size, one.members) for one in trace.communicators] == [(3, (0, 1, 2))]
    assert [len(rank.operations) for rank in trace.ranks] == [1, 1, 1]
    assert trace.problems == ("this NCCL gave no sizes of 1 communicator; they have the recorded ranks",)


def test_a_rank_that_called_nothing_is_a_rank(tmp_path: Path) -> None:
    for rank in range(2):
        write_file(tmp_path / f"{rank}.trace", [(0, 7, rank, 2)], make_operations([0] * rank), rank=rank)
    assert counts(read_trace(tmp_path)) == [[], [1]]


class TestSeveralRanksInAProcess:
    def test_threads_separate_them(self, tmp_path: Path) -> None:
        communicators = [(rank, 7, rank, 4) for rank in range(4)] + [
            (4 + rank, 100 + rank // 2, rank % 2, 2) for rank in range(4)
        ]
        used = [(rank, rank) for rank in range(4)] + [(4 + rank, rank) for rank in range(4)]
        operations = make_operations([one for one, _ in used], [thread for _, thread in used])
        write_file(tmp_path / "a.trace", communicators, operations)
        found = read_trace(tmp_path)
        assert found.problems == ()
        assert counts(found) == [[1, 5], [2, 6], [3, 7], [4, 8]]
        assert [one.members for one in found.communicators] == [(0, 1, 2, 3), (0, 1), (2, 3)]

    def test_threads_separate_them_without_a_common_communicator(self, tmp_path: Path) -> None:
        communicators = [(rank, 100 + rank // 2, rank % 2, 2) for rank in range(4)]
        write_file(tmp_path / "a.trace", communicators, make_operations([0, 1, 2, 3], [0, 1, 2, 3]), rank=0)
        found = read_trace(tmp_path)
        assert counts(found) == [[1], [2], [3], [4]]

    def test_streams_separate_the_ranks_of_one_thread(self, tmp_path: Path) -> None:
        communicators = [(0, 7, 0, 2), (1, 7, 1, 2), (2, 8, 0, 1), (3, 9, 0, 1)]
        operations = make_operations([0, 1, 2, 3], streams=[5, 6, 6, 5])
        write_file(tmp_path / "a.trace", communicators, operations)
        found = read_trace(tmp_path)
        assert found.problems == ()
        assert counts(found) == [[1, 4], [2, 3]]

    def test_what_remains_ambiguous_is_left_out(self, tmp_path: Path) -> None:
        communicators = [(rank, 7, rank, 4) for rank in range(4)] + [(4, 8, 0, 2), (5, 8, 1, 2)]
        write_file(tmp_path / "a.trace", communicators, make_operations([0, 1, 2, 3, 4, 5, 5]))
        found = read_trace(tmp_path)
        assert counts(found) == [[1], [2], [3], [4]]
        expected = (
            "a.trace has several ranks in one thread, and 3 operations on 2 communicators belong to an unknown one"
        )
        assert found.problems == (f"{expected}; they are left out",)

    def test_processes_with_several_ranks_form_a_job(self, tmp_path: Path) -> None:
        for process in range(2):
            communicators = [(place, 7, 2 * process + place, 4) for place in range(2)]
            operations = make_operations([0, 1], [0, 1])
            write_file(tmp_path / f"{process}.trace", communicators, operations, rank=process, size=2)
        found = read_trace(tmp_path)
        assert [rank.rank for rank in found.ranks] == [0, 1, 2, 3]
        assert found.problems == ()


class TestSeveralRuns:
    @pytest.mark.parametrize("has_launcher", [True, False])
    def test_the_newest_is_read(self, tmp_path: Path, has_launcher: bool) -> None:
        for run in range(2):
            for rank in range(4 - 2 * run):
                write_file(
                    tmp_path / f"{run}-{rank}.trace",
                    [(0, 7 + run, rank, 4 - 2 * run if has_launcher else 4)],
                    make_operations([0] * (run + 1)),
                    start_realtime_ns=1000 + run,
                    rank=rank if has_launcher else -1,
                )
        found = read_trace(tmp_path)
        assert counts(found) == [[1, 2], [1, 2]]
        names = "0-0.trace, 0-1.trace, 0-2.trace, 0-3.trace"
        assert found.problems[0] == f"4 files left out, because they are of older runs: {names}"

    def test_a_copy_of_a_file_is_left_out(self, tmp_path: Path) -> None:
        write_file(tmp_path / "a.trace", [(0, 7, 0, 1)], make_operations([0]), rank=0)
        (tmp_path / "copy.trace").write_bytes((tmp_path / "a.trace").read_bytes())
        found = read_trace(tmp_path)
        assert len(found.ranks) == 1
        assert found.problems == ("1 file left out, because another one has the same ranks: copy.trace",)

    def test_equal_ranks_of_the_launcher_do_not_hide_ranks_of_one_run(self, tmp_path: Path) -> None:
        for rank in range(3):
            write_file(tmp_path / f"{rank}.trace", [(0, 7, rank, 3)], make_operations([0]), rank=0)
        assert [rank.rank for rank in read_trace(tmp_path).ranks] == [0, 1, 2]


def offset_of(dtype: np.dtype[np.void], name: str) -> int:
    assert dtype.fields
    return int(dtype.fields[name][1])


def damage(path: Path, offset: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


class TestDamagedFiles:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        write_file(tmp_path / "a.trace", [(0, 7, 0, 1)], make_operations([0] * 10), rank=0)
        return tmp_path / "a.trace"

    @staticmethod
    def field_offset(row: int, name: str) -> int:
        return layout.HEADER_BYTES + (1 + row) * layout.RECORD_BYTES + offset_of(layout.OPERATION, name)

    @pytest.mark.parametrize(
        ("name", "value", "problem", "lost"),
        [
            ("kind", b"\x09", "1 record of unknown kinds left out", 1),
            ("kind", b"\x00", "1 record without content left out", 1),
            ("communicator", b"\x05", "1 record on communicators that were not declared left out", 1),
            ("count", b"\xff" * 8, "1 record with counts over 2^60 left out", 1),
            ("function", b"\xc8", "1 operation with invalid functions, which count as unknown", 0),
            ("datatype", b"\x0c", "1 operation with invalid element types, which count as unknown", 0),
            ("redop", b"\x07", "1 operation with invalid operators, which count as unknown", 0),
            ("algorithm", b"\x63", "1 operation with invalid algorithms, which count as unknown", 0),
            ("protocol", b"\x63", "1 operation with invalid protocols, which count as unknown", 0),
            ("enqueue_ns", b"\xff" * 8, "1 operation with invalid times of the call, which count as unknown", 0),
        ],
    )
    def test_a_fault_is_named_and_the_rest_is_read(
        self, file: Path, name: str, value: bytes, problem: str, lost: int
    ) -> None:
        damage(file, self.field_offset(3, name), value)
        found = read_trace(file)
        assert found.problems == (f"a.trace: {problem}",)
        assert (found.ranks[0].lost_count, found.ranks[0].first_unmatched) == (lost, 3 if lost else None)
        expected = [1, 2, 3, 5, 6, 7, 8, 9, 10] if lost else list(range(1, 11))
        assert counts(found) == [expected]
        if not lost:
            unknown = {"enqueue_ns": 0}.get(name, layout.UNKNOWN_BYTE)
            assert found.ranks[0].operations[name][3] == unknown

    def test_device_times_that_contradict_each_other_are_unknown(self, file: Path) -> None:
        damage(file, offset_of(layout.HEADER, "device_clock"), b"\x01")
        damage(file, self.field_offset(0, "device_start_ns"), (9).to_bytes(8, "little") + (8).to_bytes(8, "little"))
        found = read_trace(file)
        assert found.problems == ("a.trace: 1 operation with invalid device times, which count as unknown",)
        assert not found.ranks[0].operations["device_start_ns"].any()
        assert not found.ranks[0].operations["device_end_ns"].any()

    def test_records_that_a_killed_process_did_not_complete_are_no_gap(self, file: Path) -> None:
        damage(file, self.field_offset(9, "kind"), b"\0")
        damage(file, offset_of(layout.HEADER, "is_closed"), b"\0")
        found = read_trace(file)
        assert found.problems == ("a.trace was not closed: its process was killed, or still runs",)
        assert found.ranks[0].lost_count == 0
        assert counts(found) == [list(range(1, 10))]

    def test_a_truncated_file(self, file: Path) -> None:
        os.truncate(file, layout.HEADER_BYTES + 5 * layout.RECORD_BYTES + 7)
        found = read_trace(file)
        assert found.problems == ("a.trace is truncated: it has 5 of 11 records",)
        assert (found.ranks[0].lost_count, found.ranks[0].first_unmatched) == (6, None)
        assert counts(found) == [[1, 2, 3, 4]]

    def test_space_behind_the_records_is_not_read(self, file: Path) -> None:
        os.truncate(file, 1 << 20)
        assert counts(read_trace(file)) == [list(range(1, 11))]

    @pytest.mark.parametrize(
        ("offset", "content", "problem"),
        [
            (8, b"\x02", "a.trace has version 2 of the format, but this busbw reads version 1"),
            (0, b"x", "a.trace has no valid header"),
            (12, b"\x40\0\0\0", "a.trace has no valid header"),
        ],
    )
    def test_a_file_of_another_format_is_named(self, file: Path, offset: int, content: bytes, problem: str) -> None:
        damage(file, offset, content)
        with pytest.raises(UsageError, match=problem):
            read_trace(file.parent)
        write_file(file.with_name("b.trace"), [(0, 7, 1, 2)], make_operations([0]), rank=1)
        assert read_trace(file.parent).problems[0].startswith(problem)

    def test_an_empty_file(self, file: Path) -> None:
        (file.parent / "b.trace").touch()
        assert read_trace(file.parent).problems == ("b.trace has 0 bytes, which is less than a header; it is left out",)

    @pytest.mark.parametrize("name", ["size", "rank"])
    def test_a_damaged_communicator_does_not_exhaust_the_memory(self, file: Path, name: str) -> None:
        offset = layout.HEADER_BYTES + offset_of(layout.COMMUNICATOR, name)
        damage(file, offset, (2**31 - 1).to_bytes(4, "little"))
        with pytest.raises(UsageError, match="1 record of communicators are not valid"):
            read_trace(file)

    def test_many_large_communicators_do_not_exhaust_the_memory(self, tmp_path: Path) -> None:
        communicators = [(index, index, 0, 2**20) for index in range(100)]
        write_file(tmp_path / "a.trace", communicators, make_operations(list(range(100))), rank=0)
        found = read_trace(tmp_path)
        assert len(found.communicators) == 4
        assert found.problems[0] == "96 communicators of an impossible size or number, with their operations, left out"
        assert len(found.ranks[0].operations) == 4

    def test_lost_operations_are_named(self, tmp_path: Path) -> None:
        write_file(tmp_path / "a.trace", [(0, 7, 0, 1)], make_operations([0]), rank=0, lost_count=12)
        found = read_trace(tmp_path)
        assert found.ranks[0].lost_count == 12
        assert "12 operations could not be recorded" in found.problems[0]

    def test_a_lost_operation_with_a_reserved_record_counts_once(self, file: Path) -> None:
        damage(file, self.field_offset(3, "kind"), b"\0")
        damage(file, offset_of(layout.HEADER, "lost_count"), b"\x02")
        found = read_trace(file)
        assert found.ranks[0].lost_count == 2
        assert found.problems == (
            "a.trace: 2 operations could not be recorded, because of the size limit, a full disk or a slow one",
        )

    def test_damaged_bytes_cause_only_errors_with_a_message(self, tmp_path: Path) -> None:
        write_trace(make_trace(ranks=2, partitions=[[range(2)], [(0,), (1,)]], steps=2), tmp_path / "trace")
        source = random.Random(29)
        files = sorted((tmp_path / "trace").iterdir())
        originals = [file.read_bytes() for file in files]
        for _ in range(200):
            for file, original in zip(files, originals, strict=True):
                content = bytearray(original)
                for _ in range(source.choice([1, 3, 30])):
                    place = source.choice([source.randrange(600), source.randrange(4096, len(content))])
                    content[place] = source.choice([0, 1, 2, 3, 127, 255, source.randrange(256)])
                file.write_bytes(content[: source.choice([len(content), source.randrange(len(content))])])
            try:
                found = read_trace(tmp_path / "trace")
            except BusbwError:
                continue
            assert sum(len(rank.operations) for rank in found.ranks) <= 2 * 6
            for rank in found.ranks:
                assert set(rank.operations["communicator"].tolist()) <= set(rank.own_rank_by_communicator)
                assert rank.rank in found.communicators[min(rank.own_rank_by_communicator)].members
                find_steps(rank.operations)
            align_clocks(found, match_operations(found))


class TestOtherFiles:
    def test_what_is_no_trace_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "log.txt").write_text("hello")
        assert not is_trace(tmp_path / "log.txt")
        assert not is_trace(tmp_path)
        assert not is_trace(tmp_path / "absent")
        with pytest.raises(UsageError, match="has no trace"):
            read_trace(tmp_path)
        with pytest.raises(UsageError, match=r"cannot read .*absent: No such file"):
            read_trace(tmp_path / "absent")

    def test_a_pipe_does_not_block(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        assert not is_trace(tmp_path / "pipe")
        with pytest.raises(UsageError):
            read_trace(tmp_path / "pipe")

    def test_the_importer_that_recognizes_the_files_reads_them(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        trace = make_trace(ranks=2)
        received: list[Path] = []

        def read(_importer: Importer, paths: Sequence[Path]) -> Trace:
            received.extend(paths)
            return trace

        def make_importer(name: str, key: bytes) -> Importer:
            return Importer(name, name, lambda beginning, _: beginning.startswith(key), lambda _builder, _paths: ())

        importers = [make_importer("one", b"1"), make_importer("two", b"2")]
        monkeypatch.setattr("busbw.traces.read.IMPORTERS", tuple(importers))
        monkeypatch.setattr(Importer, "read", read)
        (tmp_path / "b.json").write_text("1...")
        with gzip.open(tmp_path / "a.json.gz", "wb") as file:
            file.write(b"1...")
        (tmp_path / "damaged.json.gz").write_bytes(b"\x1f\x8b\x08")
        (tmp_path / "notes").write_text("?")
        assert is_trace(tmp_path)
        assert read_trace(tmp_path) is trace
        assert received == [tmp_path / "a.json.gz", tmp_path / "b.json"]
        (tmp_path / "c.json").write_text("2...")
        with pytest.raises(UsageError, match="recordings of several programs: one, two"):
            read_trace(tmp_path)
