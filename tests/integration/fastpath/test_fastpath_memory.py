"""Tests of GPU memory that the fast path holds, pools and frees, with fake CUDA and NCCL (bench/programs/fake_*)."""

from itertools import pairwise
from pathlib import Path

import pytest
from polling import HANG_GUARD_S

from .test_fastpath_queueing import queued, started


def held(log: Path) -> dict[int, list[int]]:
    """Returns the bytes on each device after each allocation and each free."""
    bytes_on: dict[int, list[int]] = {}
    for line in log.read_text().splitlines():
        if line == "host":
            continue
        _, device, change = line.split()
        behind = bytes_on.setdefault(int(device), [])
        behind.append((behind[-1] if behind else 0) + int(change))
    return bytes_on


def freed(behind: list[int]) -> bool:
    return any(later < before for before, later in pairwise(behind))


MAKE_AND_END = """
def make(ranks):
    communicators = (pointer * ranks)()
    assert library.ncclCommInitAll(communicators, ranks, None) == 0
    return communicators
def end(communicators):
    for each in communicators:
        assert library.ncclCommDestroy(pointer(each)) == 0
"""


def test_making_a_communicator_again_frees_nothing(tmp_path: Path) -> None:
    """CUDA would wait for all work on a GPU, and that may wait for a peer that must first create the communicator."""
    memory = tmp_path / "memory"
    calls = (
        MAKE_AND_END
        + """
for _ in range(5):
    end(communicators)
    communicators = make(2)
assert all_reduce(0, 11) == 0
"""
    )
    launched = queued(tmp_path, calls, BUSBW_PRETENDED_MEMORY_LOG=str(memory))
    assert launched == ["launch stream 11"]
    assert "host" not in memory.read_text()
    assert [len(changes) for changes in held(memory).values()] == [1, 1]


def test_no_memory_is_taken_if_the_table_delegates_every_call(tmp_path: Path) -> None:
    memory, table = tmp_path / "memory", tmp_path / "table"
    table.write_text("all_reduce ranks=4 up_to=1M exchange blocks=8 threads=512\n")
    calls = "assert all_reduce(0, 11) == 0"
    variables = {"BUSBW_FASTPATH_METHOD": "", "BUSBW_FASTPATH_TABLE": str(table)}
    assert queued(tmp_path, calls, is_fast=False, BUSBW_PRETENDED_MEMORY_LOG=str(memory), **variables) == []
    assert not memory.exists()
    said = (tmp_path / "fastpath.log").read_text()
    assert "leave every call of 2 ranks on these GPUs to NCCL; create a table with busbw fastpath tune" in said


def test_no_memory_is_taken_without_nvlink(tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    calls = "assert all_reduce(0, 11) == 0"
    variables = {"BUSBW_PRETENDED_NVLINK": "0", "BUSBW_PRETENDED_MEMORY_LOG": str(memory)}
    assert queued(tmp_path, calls, is_fast=False, **variables) == []
    assert not memory.exists()
    assert "rank 0 cannot access every peer's memory over NVLink" in (tmp_path / "fastpath.log").read_text()


@pytest.mark.parametrize("mib", [8, 20, 40, 64])
def test_pooled_and_used_memory_stay_within_the_budget(tmp_path: Path, mib: int) -> None:
    memory = tmp_path / "memory"
    calls = (
        MAKE_AND_END
        + """
import random
end(communicators)
random.seed(1)
alive = []
for _ in range(200):
    if len(alive) > 3 or (alive and random.random() < 0.4):
        end(alive.pop(random.randrange(len(alive))))
    else:
        alive.append(make(random.choice([2, 3, 4])))
for each in alive:
    end(each)
communicators = make(2)
assert [all_reduce(0, 11), all_reduce(1, 21)] == [0, 0]
"""
    )
    launched = queued(
        tmp_path,
        calls,
        BUSBW_PRETENDED_DEVICES="4",
        BUSBW_PRETENDED_MEMORY_LOG=str(memory),
        BUSBW_FASTPATH_MIB=str(mib),
    )
    assert launched == ["launch stream 11", "launch stream 21"]
    behind = held(memory)
    most = max(max(changes) for changes in behind.values())
    assert mib / 2 < most / 2**20 <= mib
    assert any(freed(changes) for changes in behind.values())


def test_communicators_are_created_without_free_memory(tmp_path: Path) -> None:
    """A rank that left during the setup would make its peers hang."""
    calls = "assert [all_reduce(0, 11), all_reduce(1, 21)] == [0, 0]"
    assert queued(tmp_path, calls, is_fast=False, BUSBW_PRETENDED_MIB="0") == []
    trail = (tmp_path / "fastpath.log").read_text()
    assert "every call is delegated to NCCL" in trail
    assert "allocating scratch memory: out of memory" in trail


def test_pooled_memory_is_freed_for_another_size(tmp_path: Path) -> None:
    calls = (
        MAKE_AND_END
        + """
end(communicators)
communicators = make(3)
assert all_reduce(0, 11) == 0
"""
    )
    assert queued(tmp_path, calls, BUSBW_PRETENDED_DEVICES="4", BUSBW_PRETENDED_MIB="40") == ["launch stream 11"]


MAKE_IN_PROCESSES = """
class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]
def make():
    communicator = pointer()
    assert library.ncclCommInitRank(ctypes.byref(communicator), 2, Id(), int(sys.argv[2])) == 0
    return communicator
"""


def shared_memory(folder: Path, calls: str, **variables: str) -> list[list[str]]:
    """Runs two ranks in separate processes and returns their actions on shared memory: [action, handle]."""
    log = folder / "shared"
    variables |= {"BUSBW_PRETENDED_MEETING": str(folder), "BUSBW_PRETENDED_IPC_LOG": str(log)}
    ranks = [started(folder, MAKE_IN_PROCESSES + calls, str(rank), **variables) for rank in range(2)]
    for rank in ranks:
        said = rank.communicate(timeout=HANG_GUARD_S)
        assert (rank.returncode, said) == (0, ("", ""))
    return [line.split() for line in log.read_text().splitlines()]


@pytest.mark.parametrize("first", [0, 1])
def test_memory_of_another_size_is_freed_when_no_peer_has_it_open(tmp_path: Path, first: int) -> None:
    """CUDA does not define freeing memory that another process has open. One rank may be ahead of the other."""
    calls = f"""
import time
first, second = make(), make()
assert library.ncclCommDestroy(first) == 0
if int(sys.argv[2]) != {first}:
    time.sleep(0.3)
third = make()
"""
    done = shared_memory(tmp_path, calls)
    opened: list[str] = []
    freed = []
    for what, handle in done:
        if what == "open":
            opened.append(handle)
        elif what == "close":
            opened.remove(handle)
        else:
            assert handle not in opened, done
            freed.append(handle)
    assert len(freed) == 2
    assert len(opened) == 4


def test_opened_memory_of_other_processes_is_reused(tmp_path: Path) -> None:
    calls = """
for _ in range(3):
    assert library.ncclCommDestroy(make()) == 0
"""
    done = shared_memory(tmp_path, calls)
    assert [what for what, _ in done] == ["open"] * 2
