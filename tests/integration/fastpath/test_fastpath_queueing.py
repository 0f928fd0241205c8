"""Tests of the work that the fast path queues for two ranks of a thread, with fake CUDA and NCCL.

The fakes are in bench/programs/fake_*.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from polling import HANG_GUARD_S

BUILD = Path(__file__).resolve().parents[3] / "build" / "gpu-compile"

LOAD = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
pointer = ctypes.c_void_p
"""
COMMUNICATORS = """
communicators = (pointer * 2)()
assert library.ncclCommInitAll(communicators, 2, None) == 0
buffers = [(ctypes.c_char * 4096)() for _ in range(2)]
def all_reduce(rank, stream):
    at = pointer(ctypes.addressof(buffers[rank]))
    half, add = 6, 0
    return library.ncclAllReduce(at, at, ctypes.c_size_t(64), half, add, pointer(communicators[rank]), pointer(stream))
"""


def started(folder: Path, program: str, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    """Starts a Python program with the fast-path library as its first argument."""
    library, nccl = BUILD / "libbusbw_nccl_pretended.so", BUILD / "libpretended_nccl.so"
    if not library.exists():
        pytest.skip(f"there is no {library}: tools/test.sh builds it where it has CUDA's compiler")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("BUSBW_", "NCCL_"))}
    environment = kept | {
        "BUSBW_FASTPATH_NCCL": str(nccl),
        "BUSBW_FASTPATH_LOG": str(folder / "fastpath.log"),
        "BUSBW_FASTPATH_METHOD": "exchange,1,32",
        **variables,
    }
    command: list[str | Path] = [sys.executable, "-c", LOAD + program, library, *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def queued(folder: Path, calls: str, *, is_fast: bool = True, **variables: str) -> list[str]:
    """Returns the work that a program's calls have queued, without the creation of communicators."""
    log, trail = folder / "queued", folder / "fastpath.log"
    log.unlink(missing_ok=True)
    done = started(folder, COMMUNICATORS + calls, BUSBW_PRETENDED_LOG=str(log), **variables)
    said = done.communicate(timeout=HANG_GUARD_S)
    assert (done.returncode, said) == (0, ("", ""))
    assert ("exchange blocks=1" in trail.read_text()) == is_fast
    return log.read_text().splitlines() if log.exists() else []  # the file is created with the first queued work


def test_calls_of_one_stream_are_launched_and_nothing_else(tmp_path: Path) -> None:
    calls = "assert [all_reduce(0, 11), all_reduce(1, 21), all_reduce(0, 11), all_reduce(1, 21)] == [0] * 4"
    assert queued(tmp_path, calls) == ["launch stream 11", "launch stream 21"] * 2


def test_a_call_on_another_stream_waits_for_the_one_before(tmp_path: Path) -> None:
    calls = "assert [all_reduce(0, 11), all_reduce(1, 21), all_reduce(0, 12)] == [0] * 3"
    waiting, operation = ["launch stream 12"] * 2
    assert queued(tmp_path, calls) == ["launch stream 11", "launch stream 21", waiting, operation]


def test_gpus_that_start_no_kernel_early_are_not_asked_to(tmp_path: Path) -> None:
    calls = "assert [all_reduce(0, 11), all_reduce(1, 21)] == [0] * 2"
    launched = ["launch stream 11", "launch stream 21"]
    assert queued(tmp_path, calls, BUSBW_PRETENDED_CAPABILITY="80") == launched


def test_an_old_error_of_cuda_stops_no_new_call(tmp_path: Path) -> None:
    """Its peers have queued their calls and would hang."""
    calls = "assert [all_reduce(0, 11), all_reduce(1, 21), all_reduce(0, 12)] == [0] * 3"
    assert len(queued(tmp_path, calls, BUSBW_PRETENDED_OLD_ERROR="1")) == 4


def test_streams_of_a_group_are_joined_before_and_behind_it(tmp_path: Path) -> None:
    """As with NCCL, later work on each stream waits for all calls, and the calls wait for all earlier work."""
    calls = """
library.ncclGroupStart()
assert [all_reduce(0, 11), all_reduce(1, 21), all_reduce(0, 12)] == [0] * 3
assert library.ncclGroupEnd() == 0
"""
    found = queued(tmp_path, calls)
    launches = [line for line in found if line.startswith("launch")]
    # The second call of rank 0 waits for its first; rank 1 has one stream, and nothing to join.
    assert launches == ["launch stream 11", "launch stream 21", "launch stream 12", "launch stream 12"]
    first, last = found.index(launches[0]), len(found) - found[::-1].index(launches[-1])
    for joined in (found[:first], found[last:]):
        recorded = {line.split()[2]: line.split()[4] for line in joined if line.startswith("record")}
        assert set(recorded) == {"11", "12"}
        waits = {tuple(line.split()[2::2]) for line in joined if line.startswith("wait")}
        assert {("11", recorded["12"]), ("12", recorded["11"])} <= waits
    assert not any("21" in line.split() for line in found if not line.startswith("launch"))


def test_a_group_of_one_stream_has_nothing_to_join(tmp_path: Path) -> None:
    calls = """
library.ncclGroupStart()
assert [all_reduce(0, 11), all_reduce(1, 21), all_reduce(0, 11), all_reduce(1, 21)] == [0] * 4
assert library.ncclGroupEnd() == 0
"""
    assert queued(tmp_path, calls) == ["launch stream 11", "launch stream 21"] * 2


def all_before(lines: list[str]) -> dict[str, set[str]]:
    """Returns the operations that have run before each operation, and before later work on a stream ("behind 11").

    The fast path's operations are called "launch stream 11" or "capture stream 1001", NCCL's "nccl stream 11"; the
    second of a stream is called "launch stream 11'".
    """
    before: dict[str, set[str]] = {}
    seen: dict[str, set[str]] = {}
    events: dict[str, set[str]] = {}
    for line in lines:
        if found := re.match(r"((?:launch|capture|nccl) stream (\d+))", line):
            name = found[1] + "'" * sum(each.rstrip("'") == found[1] for each in before)
            before[name] = set(seen.setdefault(found[2], set()))
            seen[found[2]].add(name)
        elif found := re.fullmatch(r"record stream (\d+) event (\d+)", line):
            events[found[2]] = set(seen.setdefault(found[1], set()))
        elif found := re.fullmatch(r"wait stream (\d+) event (\d+)", line):
            seen.setdefault(found[1], set()).update(events[found[2]])
    return before | {f"behind {stream}": names for stream, names in seen.items()}


DELEGATED = {
    "all-reduce": "AllReduce(at, at, count, 8, 0, {})",  # of double
    "own-operator": "AllReduce(at, at, count, 6, 9, {})",
    "reduce": "Reduce(at, at, count, 6, 0, 0, {})",
    "gather": "Gather(at, at, count, 6, 0, {})",
    "scatter": "Scatter(at, at, count, 6, 0, {})",
    "send": "Send(at, count, 6, 1, {})",
    "receive": "Recv(at, count, 6, 1, {})",
}


@pytest.mark.parametrize("operation", DELEGATED)
@pytest.mark.parametrize("first", ["here", "by-nccl"])
@pytest.mark.parametrize("streams", [(11, 12), (1001, 1002)], ids=["eager", "captured"])
def test_a_group_s_work_is_behind_all_its_streams_and_before_them(
    tmp_path: Path, operation: str, first: str, streams: tuple[int, int]
) -> None:
    """Also if some calls are delegated: NCCL documents that a group acts as if posted on every stream."""
    here, by_nccl = streams
    communicator_and_stream = f"pointer(communicators[0]), pointer({by_nccl})"
    delegated = f"assert library.nccl{DELEGATED[operation].format(communicator_and_stream)} == 0\n"
    done_here = f"assert all_reduce(0, {here}) == 0\n"
    both = done_here + delegated if first == "here" else delegated + done_here
    earlier = f"assert all_reduce(1, {here}) == 0\n" + delegated
    calls = f"""
at, count = pointer(ctypes.addressof(buffers[0])), ctypes.c_size_t(64)
{earlier}library.ncclGroupStart()
library.ncclGroupStart()
{both}assert library.ncclGroupEnd() == 0
assert library.ncclGroupEnd() == 0
"""
    found = queued(tmp_path, calls, BUSBW_PRETENDED_NCCL_LOG=str(tmp_path / "queued"))
    done = all_before(found)
    kernel = f"{'launch' if here < 1000 else 'capture'} stream {here}"
    nccl = f"nccl stream {by_nccl}"
    assert done[kernel + "'"] >= {kernel, nccl}
    assert done[nccl + "'"] >= {kernel, nccl}, "NCCL's part of the group comes behind what was on the other stream"
    group = {kernel + "'", nccl + "'"}
    assert done[f"behind {here}"] >= group
    assert done[f"behind {by_nccl}"] >= group
    assert nccl + "'" in done[kernel + "'"], "there may be no room for both at a time"


@pytest.mark.parametrize("mode", ["on", "verify"])
def test_communicators_of_a_group_come_in_an_order_that_all_ranks_share(tmp_path: Path, mode: str) -> None:
    """As with NCCL since 2.26, there is no deadlock if rank 0 calls X, Y and rank 1 calls Y, X in a group."""
    calls = """
others = (pointer * 2)()
assert library.ncclCommInitAll(others, 2, None) == 0
first = communicators
for _ in range(4):
    library.ncclGroupStart()
    for rank, both in (0, (first, others)), (1, (others, first)):
        for communicators in both:
            assert all_reduce(rank, 10 * (rank + 1) + (communicators is others)) == 0
    assert library.ncclGroupEnd() == 0
"""
    found = queued(tmp_path, calls, BUSBW_FASTPATH=mode, BUSBW_FASTPATH_MIB="1024")
    launches = [line.split()[-1] for line in found if line.startswith("launch")]
    order = ["X" if stream in ("10", "20") else "Y" for stream in launches]
    per_rank = [[each for each, stream in zip(order, launches, strict=True) if stream[0] == rank] for rank in "12"]
    assert per_rank[0] == per_rank[1]
    assert len(per_rank[0]) == (8 if mode == "on" else 16)


def test_a_delegated_group_is_joined_by_nccl_alone(tmp_path: Path) -> None:
    calls = """
at, count = pointer(ctypes.addressof(buffers[0])), ctypes.c_size_t(64)
assert [all_reduce(0, 11), all_reduce(1, 21)] == [0] * 2
library.ncclGroupStart()
for stream in (31, 32):
    assert library.ncclSend(at, count, 6, 1, pointer(communicators[0]), pointer(stream)) == 0
    assert library.ncclAllReduce(at, at, count, 8, 0, pointer(communicators[0]), pointer(stream)) == 0
assert library.ncclGroupEnd() == 0
"""
    assert queued(tmp_path, calls) == ["launch stream 11", "launch stream 21"]


def test_a_group_joins_no_streams_of_other_communicators(tmp_path: Path) -> None:
    calls = """
at, count = pointer(ctypes.addressof(buffers[0])), ctypes.c_size_t(64)
library.ncclGroupStart()
assert all_reduce(0, 11) == 0
assert library.ncclSend(at, count, 6, 1, pointer(communicators[0]), pointer(11)) == 0
assert library.ncclSend(at, count, 6, 0, pointer(communicators[1]), pointer(21)) == 0
assert library.ncclSend(at, count, 6, 0, pointer(communicators[1]), pointer(22)) == 0
assert library.ncclGroupEnd() == 0
assert all_reduce(1, 21) == 0
"""
    assert queued(tmp_path, calls) == ["launch stream 11", "launch stream 21"]


NOT_WAITING = """
class Config(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("magic", ctypes.c_uint), ("version", ctypes.c_uint)]
    _fields_ += [("blocking", ctypes.c_int), ("rest", ctypes.c_int * 15)]
config = Config(80, 0xCAFEBEEF, 22809, 0)
identity = (ctypes.c_char * 128)()
other = pointer()
class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]
in_progress = 7
assert library.ncclCommInitRankConfig(ctypes.byref(other), 2, Id(), 0, ctypes.byref(config)) in (0, in_progress)
"""


@pytest.mark.parametrize("first", [True, False], ids=["before-it", "behind-it"])
def test_a_group_with_a_communicator_that_does_not_wait(tmp_path: Path, *, first: bool) -> None:
    """NCCL's group end returns ncclInProgress, which is no failure: the pending calls are queued."""
    fast = "assert [all_reduce(0, 11), all_reduce(1, 21)] == [0] * 2\n"
    not_waiting = (
        "at = pointer(ctypes.addressof(buffers[0]))\n"
        "assert library.ncclAllReduce(at, at, ctypes.c_size_t(64), 6, 0, other, pointer(31)) == 0\n"
    )
    both = fast + not_waiting if first else not_waiting + fast
    group = f"library.ncclGroupStart()\n{both}assert library.ncclGroupEnd() == in_progress\n"
    assert queued(tmp_path, NOT_WAITING + group) == ["launch stream 11", "launch stream 21"]


@pytest.mark.parametrize(
    "variable", ["NCCL_LAUNCH_ORDER_IMPLICIT=1", "NCCL_CHECK_POINTERS=1", "NCCL_CHECK_MODE=DEBUG_GLOBAL"]
)
def test_features_of_nccl_alone_are_delegated(tmp_path: Path, variable: str) -> None:
    calls = "assert [all_reduce(0, 11), all_reduce(1, 21)] == [0] * 2"
    name, value = variable.split("=")
    assert queued(tmp_path, calls, is_fast=False, **{name: value}) == []
    assert f"{name}" in (tmp_path / "fastpath.log").read_text()


def test_a_communicator_with_a_reused_handle_is_separate(tmp_path: Path) -> None:
    """A thread's cache entry of a communicator becomes invalid when the communicator is destroyed."""
    calls = """
for _ in range(6):
    assert [all_reduce(0, 11), all_reduce(1, 21)] == [0, 0]
    assert [library.ncclCommDestroy(pointer(each)) for each in communicators] == [0, 0]
    assert library.ncclCommInitAll(communicators, 2, None) == 0
"""
    found = queued(tmp_path, calls)
    assert [found.count(f"launch stream {stream}") for stream in (11, 21)] == [6, 6]


def test_more_communicators_than_the_thread_cache_holds(tmp_path: Path) -> None:
    calls = """
several = [communicators] + [(pointer * 2)() for _ in range(5)]
assert [library.ncclCommInitAll(each, 2, None) for each in several[1:]] == [0] * 5
for _ in range(3):
    for communicators in several:
        assert [all_reduce(0, 11), all_reduce(1, 21)] == [0, 0]
"""
    found = queued(tmp_path, calls, BUSBW_FASTPATH_MIB="1024")
    assert found == ["launch stream 11", "launch stream 21"] * 18


def capture(*streams: int) -> str:
    """Calls of rank 0 in sequence. Streams from 1000 are captured, those from 1000 to 1999 into graph 1."""
    return f"assert [all_reduce(0, stream) for stream in {streams}] == [0] * {len(streams)}\n"


def test_a_graph_waits_for_those_launched_before_and_records_its_end(tmp_path: Path) -> None:
    """One wait before its first operation and one record after its last, for any number of streams."""
    found = queued(tmp_path, capture(1001, 1001, 1002))
    made, turn, joins, first, record, second, *moved = found
    assert re.fullmatch(r"record stream \d+ event 1", made), "an event that was never recorded holds nothing up"
    assert (turn, joins) == ("graph 1 waits for event 1: node 1", "stream 1001 follows node 1")
    assert (first, second) == ("capture stream 1001: node 2", "capture stream 1001: node 4")
    assert record == "graph 1 records event 1 behind node 2: node 3"
    assert moved == [
        "node 3 no longer follows node 2",
        "node 3 follows node 4",
        "stream 1002 follows node 4",  # the order of the calls
        "capture stream 1002: node 5",
        "node 3 no longer follows node 4",
        "node 3 follows node 5",
    ]


def test_operations_stay_in_order_where_the_program_sets_what_a_stream_follows(tmp_path: Path) -> None:
    """cudaStreamUpdateCaptureDependencies between calls on a stream may remove all earlier dependencies."""
    found = queued(tmp_path, capture(1001, 1001), BUSBW_PRETENDED_SETTING="1")
    first, second = (i for i, line in enumerate(found) if line.startswith("capture stream 1001"))
    assert any(line.startswith("stream 1001 is set to follow node") for line in found[first:second])
    assert f"stream 1001 follows node {found[first].split()[-1]}" in found[first:second]


def test_graphs_of_a_communicator_wait_for_each_other_and_for_no_other_s(tmp_path: Path) -> None:
    calls = capture(1001) + capture(2001) + "assert all_reduce(1, 3001) == 0"
    found = queued(tmp_path, calls)
    events = {
        graph: set(re.findall(rf"graph {graph} \w+ (?:for )?event (\d+)", "\n".join(found))) for graph in (1, 2, 3)
    }
    assert events[1] == events[2]
    assert len(events[1]) == len(events[3]) == 1
    assert events[1] != events[3]


def test_captures_that_go_on_side_by_side_keep_their_own_order(tmp_path: Path) -> None:
    found = queued(tmp_path, capture(1001, 2001, 1002, 2001))
    assert [sum(f"graph {graph} waits" in line for line in found) for graph in (1, 2)] == [1, 1]
    assert [sum(f"graph {graph} records" in line for line in found) for graph in (1, 2)] == [1, 1]
    nodes = [line.split()[-1] for line in found if line.startswith("capture stream")]
    assert f"stream 1002 follows node {nodes[0]}" in found
    last = {line.split()[-1] for line in found if re.match(r"node \d+ follows", line)}
    assert last == {nodes[2], nodes[3]}, "where the records are moved to"


def test_calls_and_graphs_come_in_the_order_in_which_they_are_launched(tmp_path: Path) -> None:
    """On unordered streams, as with NCCL: by the event of the graphs, once something is captured."""
    after = "assert [all_reduce(0, 11), all_reduce(1, 21)] == [0, 0]"
    found = queued(tmp_path, "assert all_reduce(0, 11) == 0\n" + capture(1001) + after)
    # The first graph waits for what the event is recorded behind: the calls before it.
    assert found[:3] == ["launch stream 11", "launch stream 0", "record stream 0 event 1"]
    assert found[-4:] == ["wait stream 11 event 1", "launch stream 11", "record stream 11 event 1", "launch stream 21"]


def test_verification_takes_part_in_that_order(tmp_path: Path) -> None:
    """Inputs are gathered and results are compared before other operations overwrite them."""
    found = queued(tmp_path, capture(1001) + "assert all_reduce(0, 11) == 0", BUSBW_FASTPATH="verify")
    operation, check = [line.split()[-1] for line in found if line.startswith("capture stream 1001")]
    moved = [f"node 3 no longer follows node {operation}", f"node 3 follows node {check}"]
    assert found[found.index(moved[0]) :][:2] == moved
    (turn,) = re.findall(r"graph 1 waits for event (\d+)", "\n".join(found))
    call = found[found.index(moved[1]) + 1 :]
    assert (call[0], call[-1]) == (f"wait stream 11 event {turn}", f"record stream 11 event {turn}")
    assert [line for line in call if line.startswith("launch")] == ["launch stream 11"] * 2
    assert call[-3] == "launch stream 11"
    assert call[-2].startswith("record stream 11 event ")


def test_the_first_graph_waits_for_checks_of_calls_before_it(tmp_path: Path) -> None:
    found = queued(tmp_path, "assert all_reduce(0, 11) == 0\n" + capture(1001), BUSBW_FASTPATH="verify")
    (turn,) = re.findall(r"graph 1 waits for event (\d+)", "\n".join(found))
    assert found.count(f"record stream 0 event {turn}") == 1
    graph = next(i for i, line in enumerate(found) if line.startswith("graph 1 waits"))
    launches = [i for i, line in enumerate(found) if line == "launch stream 11"]  # the call and its check
    assert launches[1] < found.index(f"record stream 11 event {turn}", launches[1]) < graph


@pytest.mark.parametrize("no", ["0", "00", "0x0", "off"])
def test_where_the_program_keeps_graphs_in_order_they_neither_wait_nor_record(tmp_path: Path, no: str) -> None:
    """Parsed as NCCL does. Some graphs cannot contain events, such as bodies of conditional nodes."""
    end = "assert library.ncclCommDestroy(pointer(communicators[0])) == 0"
    found = queued(tmp_path, capture(1001, 1002) + end, NCCL_GRAPH_MIXING_SUPPORT=no)
    assert not any("event" in line for line in found)
    assert found[-1] == "wait for the device"


@pytest.mark.parametrize("yes", ["1", "", "0x1"])
def test_a_variable_that_says_otherwise_leaves_them_in_turns(tmp_path: Path, yes: str) -> None:
    assert any("waits" in line for line in queued(tmp_path, capture(1001), NCCL_GRAPH_MIXING_SUPPORT=yes))


def test_a_communicator_that_ends_waits_for_its_graphs(tmp_path: Path) -> None:
    end = "assert [library.ncclCommDestroy(pointer(each)) for each in communicators] == [0, 0]"
    assert queued(tmp_path, capture(1001) + end)[-1] == "wait for event 1"
    assert not any(line.startswith("wait for") for line in queued(tmp_path, "assert all_reduce(0, 11) == 0\n" + end))


@pytest.mark.parametrize("end", ["ncclCommFinalize", "ncclCommDestroy"])
def test_the_end_of_a_communicator_waits_for_its_calls(tmp_path: Path, end: str) -> None:
    """It waits with a separate kernel, which is not launched if there were no calls."""
    calls = f"assert [all_reduce(0, 11), library.{end}(pointer(communicators[0]))] == [0, 0]\n"
    assert queued(tmp_path, calls) == ["launch stream 11", "launch stream 0"]
    calls = f"assert [all_reduce(0, 11), library.{end}(pointer(communicators[1]))] == [0, 0]\n"
    assert queued(tmp_path, calls) == ["launch stream 11"]


def test_finalized_in_a_group_it_waits_when_the_group_ends(tmp_path: Path) -> None:
    """As with NCCL, which finalizes at the end of the group."""
    calls = """
assert all_reduce(0, 11) == 0
library.ncclGroupStart()
assert [library.ncclCommFinalize(pointer(communicators[0])), all_reduce(1, 21)] == [0, 0]
assert library.ncclGroupEnd() == 0
"""
    assert queued(tmp_path, calls) == ["launch stream 11", "launch stream 21", "launch stream 0"]


def test_finalizing_waits_for_graphs_that_take_turns_and_for_no_others(tmp_path: Path) -> None:
    """The number of launches of other graphs is unknown, and waiting for the whole GPU would include other work."""
    end = "assert library.ncclCommFinalize(pointer(communicators[0])) == 0\n"
    assert queued(tmp_path, capture(1001) + end)[-1] == "wait for event 1"
    found = queued(tmp_path, capture(1001) + end, NCCL_GRAPH_MIXING_SUPPORT="0")
    assert not any(line.startswith("wait for") for line in found)


@pytest.mark.parametrize("end", ["ncclCommFinalize", "ncclCommDestroy"])
def test_the_end_of_a_communicator_waits_for_checks_behind_its_calls(tmp_path: Path, end: str) -> None:
    calls = f"assert [all_reduce(0, 11), library.{end}(pointer(communicators[0]))] == [0, 0]\n"
    found = queued(tmp_path, calls, BUSBW_FASTPATH="verify")
    launches = [line for line in found if line.startswith("launch")]
    assert launches == ["launch stream 11"] * 2 + ["launch stream 0"]  # the call, its check, the wait for calls
    recorded = {
        line.split()[-1] for line in found[found.index(launches[0]) :] if line.startswith("record stream 11 event")
    }
    waited = {line.split()[-1] for line in found if line.startswith("wait for event")}
    assert (recorded, len(waited)) == (waited, 2)  # the order's, and that of checks
    assert found[-1].startswith("wait for event")


def test_a_handle_that_was_destroyed_without_the_library_is_not_fast_again(tmp_path: Path) -> None:
    calls = (
        NOT_WAITING
        + """
import os
ended = list(communicators)
for one in ended:
    ctypes.CDLL(os.environ["BUSBW_FASTPATH_NCCL"]).ncclCommDestroy(pointer(one))
made = [pointer() for _ in range(64)]
for one in made:
    assert library.ncclCommInitRankConfig(ctypes.byref(one), 2, Id(), 0, ctypes.byref(config)) == in_progress
again = [one for one in made if one.value in ended]
assert again
communicators[0] = again[0].value
assert all_reduce(0, 11) == 0
"""
    )
    assert queued(tmp_path, calls, is_fast=False) == []
