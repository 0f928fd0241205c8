"""Tests of the engine's decisions on GPUs: types that `-d all` skips or refuses, GPUs of a process, NCCL's config.

CUDA and NCCL are fakes (bench/programs/fake_*): no data move, so data are not checked.
"""

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import pytest
from polling import free_port

from ..launchers.test_launched import variables
from ..programs import (
    PRETENDED_ENGINE,
    PRETENDED_NCCL,
    Finished,
    Programs,
    complaints,
    of_kind,
    read_records,
)

FLOAT8 = {"f8e4m3", "f8e5m2"}
OLD_NCCL, NEW_NCCL = "21803", "22809"
OLD_GPU, NEW_GPU = "80", "90"
TYPES = 12


def run(programs: Programs, collective: str, dtype: str, *gpus: str, nccl: str) -> list[Finished]:
    """One process for each of the GPUs, which are told by their compute capability."""
    return start(programs, collective, "-d", dtype, gpus=gpus, each=[{}] * len(gpus), BUSBW_PRETENDED_NCCL=nccl)


def start(
    programs: Programs,
    collective: str,
    *flags: object,
    gpus: Sequence[str],
    each: list[dict[str, str]],
    **all_have: str,
) -> list[Finished]:
    store = f"tcp://127.0.0.1:{free_port()}"
    pretend = {"BUSBW_NCCL_LIBRARY": str(programs.path(PRETENDED_NCCL))} | all_have
    arguments = [collective, *flags, "--sizes", 64, "-n", 1, "-c", 0, "--records", "out.jsonl"]
    job = [
        programs.start(
            PRETENDED_ENGINE,
            *arguments,
            environment=pretend
            | {"BUSBW_PRETENDED_CAPABILITY": capability}
            | each[process]
            | (variables(process, len(gpus), store) if len(gpus) > 1 else {}),
        )
        for process, capability in enumerate(gpus)
    ]
    return [running.finish() for running in job]


def measured(programs: Programs, finished: list[Finished]) -> tuple[set[str], list[str]]:
    """The types that were, and what the table and the record say of those that were not."""
    assert [(process.code, complaints(process.stderr)) for process in finished] == [(0, [])] * len(finished)
    records = read_records(programs.folder / "out.jsonl")
    (described,) = of_kind(records, "run")
    notes = [note for note in described["notes"] if note.startswith("-d all")]
    assert [line[2:] for line in finished[0].stdout.splitlines() if line.startswith("# -d all")] == notes
    return {row["dtype"] for row in of_kind(records, "row")}, notes


@pytest.mark.parametrize("collective", ["all_reduce", "broadcast"])
def test_a_library_without_8_bit_floats(pretended: Programs, collective: str) -> None:
    dtypes, notes = measured(pretended, run(pretended, collective, "all", NEW_GPU, nccl=OLD_NCCL))
    assert (len(dtypes), dtypes & FLOAT8) == (TYPES - 2, set())
    (note,) = notes
    assert note.startswith("-d all skips f8e4m3 and f8e5m2: NCCL 2.18.3 (")
    assert note.endswith("has no 8-bit floats; use 2.24 or later (--library, BUSBW_NCCL_LIBRARY) to measure them")


@pytest.mark.parametrize(
    ("collective", "count"), [("all_reduce", TYPES - 2), ("reduce_scatter", TYPES - 2), ("broadcast", TYPES)]
)
def test_a_gpu_that_does_not_reduce_them(pretended: Programs, collective: str, count: int) -> None:
    dtypes, notes = measured(pretended, run(pretended, collective, "all", OLD_GPU, nccl=NEW_NCCL))
    assert (len(dtypes), len(notes)) == (count, 0 if count == TYPES else 1)
    for note in notes:
        assert "from compute capability 9.0 on, but GPU 0 (0000:00:00) has 8.0; use newer GPUs" in note


def test_nothing_is_left_out_where_all_can_be_done(pretended: Programs) -> None:
    dtypes, notes = measured(pretended, run(pretended, "all_reduce", "all", NEW_GPU, nccl=NEW_NCCL))
    assert (len(dtypes), notes) == (TYPES, [])


def test_all_processes_leave_out_what_one_of_them_cannot_do(pretended: Programs) -> None:
    dtypes, notes = measured(pretended, run(pretended, "all_reduce", "all", NEW_GPU, OLD_GPU, nccl=NEW_NCCL))
    assert (len(dtypes), dtypes & FLOAT8) == (TYPES - 2, set())
    (note,) = notes
    assert "f8e4m3 and f8e5m2: process 1 on " in note
    assert "GPU 1 (0000:00:01) has 8.0" in note


@pytest.mark.parametrize(
    ("gpus", "nccl", "said"),
    [
        ([NEW_GPU], OLD_NCCL, ["NCCL 2.18.3 (", "use 2.24 or later (--library, BUSBW_NCCL_LIBRARY)"]),
        ([OLD_GPU], NEW_NCCL, ["GPU 0 (0000:00:00) has 8.0", "use newer GPUs"]),
        ([NEW_GPU, OLD_GPU], NEW_NCCL, ["GPU 1 (0000:00:01) has 8.0", "use newer GPUs"]),
    ],
)
def test_one_that_is_named_is_refused(pretended: Programs, gpus: list[str], nccl: str, said: list[str]) -> None:
    processes = run(pretended, "all_reduce", "f8e4m3", *gpus, nccl=nccl)
    assert len(gpus) == 1 or "rank 1" in processes[0].sentence()
    for process in processes:
        assert (process.code, process.stdout) == (3, "")
        for words in ["-d f8e4m3 (--datatype)", *said, "or measure another type"]:
            assert words in process.sentence()
    assert not (pretended.folder / "out.jsonl").exists()


def devices(programs: Programs) -> list[int]:
    (described,) = of_kind(read_records(programs.folder / "out.jsonl"), "run")
    return [rank["device"] for rank in described["ranks"]]


def test_a_process_takes_the_gpu_that_nccl_tests_device_names_for_it(pretended: Programs) -> None:
    """As in nccl-tests, where the variable takes the place of what follows from the local rank."""
    each = [{"NCCL_TESTS_DEVICE": "1"}, {"NCCL_TESTS_DEVICE": "0"}]
    finished = start(pretended, "all_reduce", gpus=[NEW_GPU] * 2, each=each)
    assert [(process.code, complaints(process.stderr)) for process in finished] == [(0, [])] * 2
    assert devices(pretended) == [1, 0]


def test_without_it_by_its_local_rank(pretended: Programs) -> None:
    finished = start(pretended, "all_reduce", gpus=[NEW_GPU] * 2, each=[{}] * 2)
    assert [(process.code, complaints(process.stderr)) for process in finished] == [(0, [])] * 2
    assert devices(pretended) == [0, 1]


@pytest.mark.parametrize(
    ("collective", "nccl", "told"),
    [
        ("sendrecv", "23203", "version 23000 nvlinkCentricSched 1 maxP2pPeers 2"),
        ("all_reduce", "23203", "version 23000 nvlinkCentricSched 1 maxP2pPeers -2147483648"),
        ("sendrecv", "22809", "version 22809 nvlinkCentricSched 1 maxP2pPeers -2147483648"),
        ("sendrecv", "22703", "version 22703 nvlinkCentricSched -2147483648 maxP2pPeers -2147483648"),
    ],
)
def test_nccl_is_told_what_nccl_tests_tells_it(pretended: Programs, collective: str, nccl: str, told: str) -> None:
    config = pretended.folder / "config"
    variables = {"BUSBW_PRETENDED_NCCL": nccl, "BUSBW_PRETENDED_CONFIG": str(config)}
    (finished,) = start(pretended, collective, gpus=[NEW_GPU], each=[{}], **variables)
    assert (finished.code, finished.stderr) == (0, "")
    assert config.read_text() == f"{told}\n"


@pytest.mark.parametrize(("value", "waits"), [("1", True), ("0", False)])
def test_launches_that_wait_are_said_and_hold_nothing_back(pretended: Programs, value: str, *, waits: bool) -> None:
    (finished,) = start(pretended, "all_reduce", gpus=[NEW_GPU], each=[{}], CUDA_LAUNCH_BLOCKING=value)
    assert (finished.code, finished.stderr) == (0, "")
    assert ("CUDA_LAUNCH_BLOCKING is set" in finished.stdout) == waits


def test_calls_that_do_not_wait_are_refused(pretended: Programs) -> None:
    """Nothing of them need be in the stream yet when the time is read."""
    (finished,) = start(pretended, "all_reduce", gpus=[NEW_GPU], each=[{}], NCCL_COMM_BLOCKING="0")
    assert finished.code == 3
    for words in ["rank 0 on GPU 0000:00:00", "returned before it was done", "NCCL_COMM_BLOCKING=0", "unset it"]:
        assert words in finished.sentence()


def test_a_peer_that_nccl_lost_is_a_lost_rank(pretended: Programs) -> None:
    state = {"BUSBW_PRETENDED_BUSY": "1", "BUSBW_PRETENDED_STATE": "6"}  # ncclRemoteError
    (finished,) = start(pretended, "all_reduce", gpus=[NEW_GPU], each=[{}], **state)
    assert finished.code == 4
    assert "rank 0 on GPU 0000:00:00: a collective failed" in finished.stderr


def test_a_first_gpu_beyond_all_numbers_is_refused(pretended: Programs) -> None:
    (finished,) = start(pretended, "all_reduce", gpus=[NEW_GPU], each=[{}], NCCL_TESTS_DEVICE="2147483647")
    assert finished.code == 3
    assert "GPUs 2147483647 to 2147483647 are needed" in finished.sentence()


def observed(
    programs: Programs, algorithms: str, *flags: object, **variables: str
) -> tuple[list[dict[str, Any]], str, list[str]]:
    """Rows of two ranks in one process, the table, and "profiled" or "not profiled" for each all-reduce."""
    operations = programs.folder / "operations"
    log = {"BUSBW_PRETENDED_ALGORITHMS": algorithms, "BUSBW_PRETENDED_NCCL_LOG": str(operations)} | variables
    (finished,) = start(programs, "all_reduce", "-g", 2, "-w", 3, *flags, gpus=[NEW_GPU], each=[{}], **log)
    assert (finished.code, finished.stderr) == (0, "")
    rows = of_kind(read_records(programs.folder / "out.jsonl"), "row")
    return rows, finished.stdout, [line for line in operations.read_text().splitlines() if "profiled" in line]


def test_rows_have_the_algorithm_of_the_warm_up_and_timed_operations_are_not_profiled(pretended: Programs) -> None:
    rows, table, operations = observed(pretended, "RING,RING", "--report-algorithms", 1)
    assert [(row["algorithm"], row["protocol"], row["channels"]) for row in rows] == [("ring", "ll128", 4)] * 2
    assert re.search(r"^ +64 .* ring/ll128/4 +ring/ll128/4$", table, re.MULTILINE)
    runs = [(state, len(list(run))) for state, run in groupby(operations)]
    assert [state for state, _ in runs] == ["profiled", "not profiled"] * 2
    assert [count for _, count in runs[::2]] == [6, 6]  # three operations of the warm-up on two ranks


def test_ranks_that_disagree_have_no_algorithm_and_a_warning(pretended: Programs) -> None:
    rows, table, _ = observed(pretended, "RING,TREE", "--report-algorithms", 1)
    assert [(row["algorithm"], row["protocol"], row["channels"]) for row in rows] == [(None, None, None)] * 2
    assert "-/-/-" in table
    for row in rows:
        assert any("ring/ll128 with 4 channels, tree/ll128 with 4 channels" in one for one in row["warnings"])


@pytest.mark.parametrize(
    ("flags", "variables"),
    [([], {}), (["--report-algorithms", 1], {"NCCL_PROFILER_PLUGIN": "theirs.so"}), (["--report-algorithms", 0], {})],
)
def test_without_the_flag_or_with_another_profiler_the_algorithm_is_unknown(
    pretended: Programs, flags: list[object], variables: dict[str, str]
) -> None:
    rows, _, operations = observed(pretended, "RING,RING", *flags, **variables)
    assert [row["algorithm"] for row in rows] == [None, None]
    assert set(operations) == {"not profiled"}
