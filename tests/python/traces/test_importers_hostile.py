"""Files that are damaged, huge, or made to do harm: importers raise UsageError, or return a valid trace."""

import gzip
import io
import json
import os
import pickle
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import foreign_recordings
import pytest
import synthetic_traces
from synthetic_traces import Call, split_ranks

from busbw.errors import BusbwError, UsageError
from busbw.traces import format as layout
from busbw.traces.format import Function
from busbw.traces.importers import IMPORTERS, flight_recorder
from busbw.traces.model import Trace

INSPECTOR, FLIGHT_RECORDER, KINETO, CHAKRA, NCCL_LOG = IMPORTERS
JOB = synthetic_traces.make_trace(
    ranks=2,
    partitions=[[(0, 1)], split_ranks(2, 1)],
    calls=[
        Call(function=Function.ALL_GATHER, count=1000, datatype=9),
        Call(count=1),
        Call(function=Function.SEND, count=5000, shift=1),
        Call(function=Function.ALLTOALL, count=50),
    ],
    steps=2,
)
Write = Callable[[Path], Path]


def _text(content: str, name: str = "job.log") -> Write:
    def write(folder: Path) -> Path:
        (folder / name).write_text(content)
        return folder / name

    return write


FORMATS = {
    "NCCL log": (NCCL_LOG, _text(foreign_recordings.nccl_log(JOB))),
    "Inspector": (
        INSPECTOR,
        lambda folder: foreign_recordings.write_inspector(JOB, folder, version="v4.2", is_verbose=True)[0],
    ),
    "profiler": (KINETO, _text(foreign_recordings.kineto_document(JOB, JOB.ranks[0]), "rank0.json")),
    "flight JSON": (
        FLIGHT_RECORDER,
        lambda folder: foreign_recordings.write_flight_dumps(JOB, folder, is_pickle=False)[0],
    ),
    "flight pickle": (
        FLIGHT_RECORDER,
        lambda folder: foreign_recordings.write_flight_dumps(JOB, folder, is_pickle=True)[0],
    ),
    "Chakra": (CHAKRA, lambda folder: foreign_recordings.write_chakra(JOB, folder)[0]),
}


def assert_valid(trace: Trace) -> None:
    assert [rank.rank for rank in trace.ranks] == sorted({rank.rank for rank in trace.ranks})
    for rank in trace.ranks:
        operations = rank.operations
        assert operations.dtype == layout.OPERATION
        assert set(operations["kind"].tolist()) <= {layout.Kind.OPERATION}
        assert all(index < len(trace.communicators) for index in operations["communicator"].tolist())
        assert {Function(value) for value in operations["function"].tolist()} <= set(Function)
        assert max(operations["count"].tolist(), default=0) <= 1 << 60
        assert rank.start_ns >= 0
        for index, own_rank in rank.own_rank_by_communicator.items():
            assert 0 <= own_rank < trace.communicators[index].size
    for one in trace.communicators:
        assert len(one.members) == one.size
    assert len({one.identity for one in trace.communicators}) == len(trace.communicators)


VALUES = (
    b"-1",
    b"0",
    b"1e999",
    b"NaN",
    b"null",
    b'"x"',
    b"[]",
    b"{}",
    b"9" * 30,
    b"9" * 5000,
    b"18446744073709551615",
    b"true",
)


def mutate(content: bytes, generator: random.Random) -> bytes:
    """Returns the content with some damage."""
    data = bytearray(content)
    for _ in range(generator.choice((1, 1, 2, 8))):
        place = generator.randrange(len(data))
        kind = generator.randrange(5)
        if kind == 0:
            data[place] = generator.randrange(256)
        elif kind == 1:
            del data[place : place + generator.choice((1, 3, 40))]
        elif kind == 2:
            data[place:place] = data[generator.randrange(len(data)) :][: generator.choice((2, 50))]
        elif kind == 3:  # another value for a number
            while place < len(data) and not chr(data[place]).isdigit():
                place += 1
            end = place
            while end < len(data) and chr(data[end]).isdigit():
                end += 1
            data[place:end] = generator.choice(VALUES)
        else:
            del data[generator.randrange(len(data) // 2, len(data)) :]
        data = data or bytearray(b"\0")
    return bytes(data)


@pytest.mark.parametrize("name", FORMATS)
def test_damage_never_raises_other_errors(tmp_path: Path, name: str) -> None:
    importer, write = FORMATS[name]
    path = write(tmp_path)
    content = path.read_bytes()
    read_count = 0
    for seed in range(120):
        path.write_bytes(mutate(content, random.Random(seed)))
        try:
            trace = importer.read([path])
        except BusbwError:
            continue
        assert_valid(trace)
        read_count += 1
    assert read_count >= {"flight pickle": 5, "flight JSON": 30}.get(name, 60)  # their groups are at the end


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    "content", [b"", b"\0" * 100, os.urandom(1000), b"{", b'{"entries": ', b"[[[", b"\x80\x02", b"\x1f\x8b"]
)
def test_garbage_has_no_operation(tmp_path: Path, name: str, content: bytes) -> None:
    importer, write = FORMATS[name]
    path = write(tmp_path)
    path.write_bytes(content)
    with pytest.raises(UsageError):
        importer.read([path])


@pytest.mark.parametrize("name", ["profiler", "flight JSON", "Inspector"])
def test_a_cut_file_keeps_its_beginning(tmp_path: Path, name: str) -> None:
    importer, write = FORMATS[name]
    path = write(tmp_path)
    whole = importer.read([path])
    content = path.read_bytes()
    if name == "flight JSON":  # the groups at the end are needed
        dump = json.loads(content)
        content = json.dumps({"pg_config": dump["pg_config"], "entries": dump["entries"]}).encode()
    path.write_bytes(gzip.compress(content[: len(content) // 3], 0)[:-20])
    trace = importer.read([path])
    assert 0 < len(trace.ranks[0].operations) < len(whole.ranks[0].operations)
    assert any("damaged" in problem for problem in trace.problems)


@pytest.mark.parametrize("name", ["profiler", "flight JSON"])
def test_deep_json_does_not_overflow_the_stack(tmp_path: Path, name: str) -> None:
    importer, write = FORMATS[name]
    path = write(tmp_path)
    key = b'"traceEvents": [' if name == "profiler" else b'"entries": ['
    path.write_bytes(path.read_bytes().replace(key, key + b"[" * 100_000 + b"]" * 100_000 + b",", 1))
    with pytest.raises(UsageError, match="damaged"):
        importer.read([path])


class _Harm:
    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, ("echo harm",)


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps({"pg_config": {}, "entries": [_Harm()]}, 2),
        b"\x80\x02c__builtin__\nexec\n(X\x06\x00\x00\x00import\x85R.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
        b"\x80\x02Pan identity\n.",
        b"\x80\x02}r\xff\xff\xff\xff.",  # memo index that reserves 32 GiB
        b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\xff\x7f.",  # bytes of 8 EiB
        b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".",
    ],
)
def test_pickles_cannot_run_code_or_fill_the_memory(
    tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "system", lambda command: pytest.fail(f"it ran {command}"))
    path = tmp_path / "nccl_trace_rank_0"
    path.write_bytes(content)
    with pytest.raises(UsageError):
        FLIGHT_RECORDER.read([path])


def test_the_unpickler_accepts_what_pytorch_writes(tmp_path: Path) -> None:
    content = pickle.dumps({"a": [(1, 2.5, None, True, "x")]}, 2)
    assert flight_recorder._PlainUnpickler(io.BytesIO(content)).load() == {"a": [(1, 2.5, None, True, "x")]}


def test_impossible_sizes_do_not_fill_the_memory(tmp_path: Path) -> None:
    """A communicator lists its ranks, so its size is limited."""
    path = tmp_path / "job.log"
    path.write_text(
        foreign_recordings.nccl_log(JOB).replace("nranks 2", "nranks 999999999").replace("nranks=2", "nranks=999999999")
    )
    with pytest.raises(UsageError, match="impossible size"):
        NCCL_LOG.read([path])


def test_a_long_trace_needs_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "rank0.json"
    document = foreign_recordings.kineto_document(JOB, JOB.ranks[0])
    event = json.dumps({"ph": "X", "cat": "cpu_op", "name": "aten::add", "args": {"Input Dims": "x" * 900}})
    path.write_text(document.replace('"traceEvents": [', '"traceEvents": [' + f"{event},\n" * 20_000, 1))
    tracemalloc.start()
    try:
        trace = KINETO.read([path])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert path.stat().st_size > 18e6
    assert peak < 9e6
    assert len(trace.ranks[0].operations) == len(JOB.ranks[0].operations)
