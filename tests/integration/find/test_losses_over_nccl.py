"""Does `flows` continue over NCCL after ranks are lost and links die? CUDA and NCCL are fakes that move no data."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from busbw.cli.main import main

from ..programs import PRETENDED_ENGINE, PRETENDED_NCCL, Programs
from .test_flows import NODE, Conversation, expect_times, launched, measurement

SYSTEM_ERROR, REMOTE_ERROR = 2, 6
"""Values of ncclResult_t."""
LIMIT_S = 4
"""-T. A flow that does not end is left out after 0.3 of it."""


def fakes(programs: Programs, size: int) -> dict[str, str]:
    """Returns the variables of the fakes for a job of `size` ranks."""
    return {
        "BUSBW_NCCL_LIBRARY": str(programs.path(PRETENDED_NCCL)),
        "BUSBW_PRETENDED_DEVICES": str(size),
        "BUSBW_PRETENDED_JOB": str(programs.subfolder("job")),
    }


def start(
    programs: Programs,
    size: int,
    deaths: dict[int, str] | None = None,
    links: str = "",
    gpu_errors: dict[int, str] | None = None,
    states: dict[int, int] | None = None,
) -> list[Conversation]:
    """Starts a job with one rank in each process.

    Args:
        deaths: Call in which each of these processes kills itself (bench/programs/fake_peers.hpp).
        links: Links over which no operation ends.
        gpu_errors: Call in which the GPU of each of these processes fails.
        states: Asynchronous error of each communicator of these processes (ncclResult_t).
    """
    variables = {**fakes(programs, size), "BUSBW_PRETENDED_DEAD_LINKS": links}
    environment = {
        process: variables
        | {"BUSBW_LOCAL_RANK": str(process), "BUSBW_LOCAL_SIZE": str(size)}
        | ({"BUSBW_PRETENDED_DEATH": deaths[process]} if deaths and process in deaths else {})
        | ({"BUSBW_PRETENDED_GPU_ERROR": gpu_errors[process]} if gpu_errors and process in gpu_errors else {})
        | ({"BUSBW_PRETENDED_STATE": str(states[process])} if states and process in states else {})
        for process in range(size)
    }
    return launched(programs, "-T", LIMIT_S, size=size, environment=environment, engine=PRETENDED_ENGINE)


def end(first: Conversation, *others: Conversation) -> None:
    first.say({"ask": "end"})
    assert [one.running.finish().code for one in (first, *others)] == [0] * (1 + len(others))


def failed(answer: dict[str, object]) -> list[str | None]:
    """Returns the error of each flow."""
    flows = answer["flows"]
    assert isinstance(flows, list)
    assert all(flow.keys() in ({"error"}, {"times_us"}) for flow in flows)
    return [flow.get("error") for flow in flows]


def lost(answer: dict[str, object]) -> list[int]:
    gpus = answer.get("lost", [])
    assert isinstance(gpus, list)
    return [gpu["gpu"] for gpu in gpus]


def test_rounds_without_a_failure(pretended: Programs) -> None:
    job = start(pretended, 4)
    assert job[0].ask({"ask": "cluster"})["nodes"][0]["name"] == NODE
    expect_times(job[0].ask(measurement(1, (0, 1), (1, 0), (2, 3))), 1, 3)
    expect_times(job[0].ask(measurement(2, (0, 1), (0, 2), (0, 3))), 2, 3)
    end(*job)


@pytest.mark.parametrize("operation", [1, 3])
def test_a_process_that_is_lost_in_a_round(operation: int, pretended: Programs) -> None:
    """The first operation is the warm-up. Peers of the lost rank keep their other peers waiting."""
    job = start(pretended, 4, deaths={2: f"operation {operation}"})
    answer = job[0].ask(measurement(1, (0, 1), (1, 0), (1, 2), (2, 3), (3, 0)))
    errors = failed(answer)
    assert [error is None for error in errors] == [True, True, False, False, True]
    assert "rank 2 (process 2, pid " in str(errors[2])
    assert lost(answer) == [2]
    expect_times(job[0].ask(measurement(2, (0, 1), (3, 1), (0, 3))), 2, 3)
    end(job[0], job[1], job[3])


def test_a_process_that_is_lost_between_rounds(pretended: Programs) -> None:
    job = start(pretended, 3)
    expect_times(job[0].ask(measurement(1, (0, 1), (1, 2))), 1, 2)
    os.kill(job[1].running.pid, signal.SIGKILL)
    answer = job[0].ask(measurement(2, (0, 1), (0, 2), (2, 0)))
    assert [error is None for error in failed(answer)] == [False, True, True]
    assert lost(answer) == [1]
    end(job[0], job[2])


def test_processes_that_are_lost_one_after_another(pretended: Programs) -> None:
    """The second one is lost while the rest joins a new communicator."""
    job = start(pretended, 4, deaths={1: "operation 2", 3: "join 2"})
    answer = job[0].ask(measurement(1, (0, 1), (0, 2), (2, 3)))
    assert [error is None for error in failed(answer)] == [False, True, False]
    assert lost(answer) == [1, 3]
    expect_times(job[0].ask(measurement(2, (0, 2), (2, 0))), 2, 2)
    end(job[0], job[2])


@pytest.mark.parametrize("deaths", [{1: "join 1"}, {3: "join 1", 2: "join 2"}], ids=["one", "one_after_another"])
def test_processes_that_are_lost_while_the_first_communicator_is_created(
    deaths: dict[int, str], pretended: Programs
) -> None:
    job = start(pretended, 4, deaths=deaths)
    answer = job[0].ask({"ask": "cluster"})
    assert lost(answer) == sorted(deaths)
    living = [rank for rank in range(4) if rank not in deaths]
    expect_times(job[0].ask(measurement(1, (0, living[-1]), (living[-1], 0))), 1, 2)
    end(*(job[rank] for rank in living))


def test_a_rank_that_is_left_alone(pretended: Programs) -> None:
    job = start(pretended, 2, deaths={1: "operation 1"})
    answer = job[0].ask(measurement(1, (0, 1), (1, 0)))
    assert all("rank 1 (process 1, pid " in str(error) for error in failed(answer))
    assert lost(answer) == [1]
    end(job[0])


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("join 1", "failed in phase initialisation: rank 2 on GPU 0000:00:02: ncclCommInitRank"),
        ("operation 1", "failed in phase warmup: rank 2 on GPU 0000:00:02: waiting for the GPU"),
        ("operation 3", "failed in phase timing: rank 2 on GPU 0000:00:02: waiting for the GPU"),
    ],
)
def test_a_gpu_that_fails_in_a_living_process(call: str, reason: str, pretended: Programs) -> None:
    job = start(pretended, 4, gpu_errors={2: call})
    answer = job[0].ask(measurement(1, (0, 1), (1, 2), (2, 3), (3, 0)))
    assert [error is None for error in failed(answer)] == [True, False, False, True]
    assert lost(answer) == [2]
    assert reason in str(failed(answer)[1])
    expect_times(job[0].ask(measurement(2, (0, 1), (3, 1), (0, 3))), 2, 3)
    end(*job)
    assert reason in job[2].running.finish().stderr


def test_a_gpu_of_process_0_that_fails_ends_the_job(pretended: Programs) -> None:
    """Process 0 also runs the search."""
    job = start(pretended, 2, gpu_errors={0: "operation 1"})
    assert "rank 0 on GPU 0000:00:00: waiting for the GPU" in job[0].ask(measurement(1, (0, 1)))["error"]
    assert [one.running.finish().code for one in job] == [3, 3]


@pytest.mark.parametrize("others", [{0: REMOTE_ERROR, 1: REMOTE_ERROR, 3: SYSTEM_ERROR}, {}], ids=["told", "waiting"])
def test_ranks_that_cannot_join_end_with_the_cause(others: dict[int, int], pretended: Programs) -> None:
    """The others only notice that rank 2 ended the communicator, or wait for it until the limit."""
    job = start(pretended, 4, states={**others, 2: SYSTEM_ERROR})
    assert "rank 2 on GPU 0000:00:02: ncclCommInitRank failed" in job[0].answer()["error"]
    assert [one.running.finish().code for one in job] == [3] * 4


@pytest.mark.parametrize(
    "flows",
    [
        [(0, 1), (1, 0), (2, 3)],
        [(0, 1), (1, 2), (2, 3), (3, 0)],
        [(1, 0), (1, 2), (1, 3)],
        [(0, 1), (2, 1), (3, 1)],
    ],
    ids=["pairs", "ring", "one_to_all", "all_to_one"],
)
def test_only_flows_of_a_dead_link_fail(flows: list[tuple[int, int]], pretended: Programs) -> None:
    job = start(pretended, 4, links="0-1")
    answer = job[0].ask(measurement(1, *flows))
    assert [error is None for error in failed(answer)] == [{0, 1} != set(flow) for flow in flows]
    assert lost(answer) == []
    assert any("timed out: no operation of NCCL ended within 1.2 s" in str(error) for error in failed(answer))
    expect_times(job[0].ask(measurement(2, (0, 2), (2, 1), (1, 3))), 2, 3)
    assert failed(job[0].ask(measurement(3, (1, 0))))[0] is not None
    end(*job)


def test_a_search_names_the_lost_gpu(
    pretended: Programs, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (pretended.folder / "busbw-engine").symlink_to(pretended.path(PRETENDED_ENGINE))
    monkeypatch.chdir(pretended.folder)
    # Process 0 starts `busbw`, which need not be the first one of this session's PATH.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    for name, value in {**fakes(pretended, 4), "BUSBW_PROGRAMS": str(pretended.folder)}.items():
        monkeypatch.setenv(name, value)
    flags = ["-T", str(LIMIT_S), "--size", "1M", "--fault", "die:rank=3,phase=timing"]
    assert main(["find", "local", "--processes", "4", "--json", *flags]) == 5
    result = json.loads(capfd.readouterr().out)
    assert [(one["kind"], one["gpu"], one["lost"]) for one in result["findings"]] == [("gpu", 3, True)]
    assert (result["complete"], result["undecided"], result["flows"] > 6) == (True, [], True)
