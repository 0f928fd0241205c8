"""Does `busbw-engine flows` measure flows on request, answer wrong requests, and end with its job?"""

import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from polling import HANG_GUARD_S, free_port, send_signal, wait_until

from busbw.cli.main import main

from ..programs import Programs, Running, compile_fake, expect_no_process_left

NODE = os.uname().nodename.split(".")[0]
KIB = 1 << 10
NO_CHANGES: Mapping[int, dict[str, str]] = MappingProxyType({})


class Conversation:
    """Requests to a running engine and its answers."""

    def __init__(
        self,
        programs: Programs,
        *arguments: object,
        environment: dict[str, str] | None = None,
        engine: str = "busbw-engine",
    ) -> None:
        self.running: Running = programs.start(
            engine, "flows", *arguments, environment=environment, stdin=subprocess.PIPE
        )

    def ask(self, request: dict[str, Any] | str) -> dict[str, Any]:
        self.say(request)
        return self.answer()

    def answer(self) -> dict[str, Any]:
        assert self.running.process.stdout is not None
        answer = json.loads(self.running.process.stdout.readline())
        assert isinstance(answer, dict)
        return answer

    def say(self, request: dict[str, Any] | str) -> None:
        assert self.running.process.stdin is not None
        text = request if isinstance(request, str) else json.dumps(request)
        self.running.process.stdin.write(f"{text}\n")
        self.running.process.stdin.flush()


def measurement(number: int, *pairs: tuple[int, int], size: int = 64 * KIB, iterations: int = 4) -> dict[str, Any]:
    flows = [{"from": {"node": NODE, "gpu": a}, "to": {"node": NODE, "gpu": b}} for a, b in pairs]
    return {"ask": "measure", "id": number, "size_bytes": size, "iterations": iterations, "flows": flows}


def expect_times(answer: dict[str, Any], number: int, flows: int, iterations: int = 4) -> None:
    assert answer["id"] == number
    assert answer["took_s"] > 0
    assert [len(flow["times_us"]) for flow in answer["flows"]] == [iterations] * flows
    assert all(time > 0 for flow in answer["flows"] for time in flow["times_us"])


@pytest.mark.parametrize("ranks", [["-t", 4], ["--processes", 2, "-t", 2], ["-t", 4, "--records", "-"]])
def test_rounds_of_different_flows_and_sizes(ranks: list[object], programs: Programs) -> None:
    engine = Conversation(programs, *ranks)
    cluster = engine.ask({"ask": "cluster", "protocol": 1})
    assert cluster == {"protocol": 1, "nodes": [{"name": NODE, "gpus": 4}], "environment": {}}
    expect_times(engine.ask(measurement(1, (0, 1), (1, 0), (2, 3), (3, 2))), 1, 4)
    expect_times(engine.ask(measurement(2, (3, 0), size=1, iterations=1)), 2, 1, 1)
    expect_times(engine.ask(measurement(3, (1, 2), size=3_000_001)), 3, 1)
    expect_times(engine.ask(measurement(4, (1, 0), (2, 0), (3, 0))), 4, 3)
    expect_times(engine.ask(measurement(5, (0, 1), (0, 2), (0, 3))), 5, 3)
    expect_times(engine.ask(measurement(6)), 6, 0)
    engine.say({"ask": "end"})
    finished = engine.running.finish()
    assert (finished.code, finished.stdout) == (0, "")


def test_a_search_measures_each_rank_with_all_others(programs: Programs, tmp_path: Path) -> None:
    engine = shlex.join([str(programs.path("busbw-engine")), "flows", "-t", "3", "-e", "64K"])
    words = ["find", "--measure-with", engine, "--size", "64K", "--max-rounds", "15", "--records", str(tmp_path / "r")]
    assert main(words) in (0, 5, 6)  # this machine decides
    # Rounds with hubs take at most half of the rounds that are left.
    rounds = [json.loads(line) for line in (tmp_path / "r").read_text().splitlines()][1:10]
    assert [one["load"] for one in rounds] == ["inside"] * 3 + ["one_to_all"] * 3 + ["all_to_one"] * 3
    for number, one in enumerate(rounds[3:]):
        hub, partners = ("sources", "targets") if number < 3 else ("targets", "sources")
        assert one[hub] == [number % 3] * 2
        assert sorted([*one[partners], number % 3]) == [0, 1, 2]
        assert all(time > 0 for times in one["times_us"] for time in times)


def test_a_flow_of_more_bytes_takes_longer(programs: Programs) -> None:
    engine = Conversation(programs, "-t", 2)
    small, large = (
        min(engine.ask(measurement(size, (0, 1), size=size, iterations=20))["flows"][0]["times_us"])
        for size in (64 * KIB, 64 * KIB * 64)
    )
    assert 8 * small < large


def test_wrong_requests_are_answered_and_the_next_one_is_measured(programs: Programs) -> None:
    engine = Conversation(programs, "-t", 2, "-e", "1M")
    for request, message in (
        ("garbage", "not a JSON object"),
        ({"ask": "dance"}, "use cluster, measure or end"),
        ({"ask": "measure", "id": 1}, '"size_bytes"'),
        (measurement(1, (0, 2)), f"node {NODE} has no GPU 2"),
        (measurement(1, (1, 1)), "sends to itself"),
        (measurement(1, (0, 1), (0, 1)), "sends twice"),
        (measurement(1, (0, 1), size=KIB * KIB + 1), "its buffer of 1 MiB; use a smaller size_bytes, or raise -e"),
    ):
        assert message in engine.ask(request)["error"]
    expect_times(engine.ask(measurement(9, (0, 1), size=KIB * KIB)), 9, 1)


def test_the_end_of_the_input_ends_the_job(programs: Programs) -> None:
    finished = programs.run("busbw-engine", "flows", "-t", "2")
    assert (finished.code, finished.stdout) == (0, "")


def test_ctrl_c_ends_a_waiting_job(programs: Programs) -> None:
    engine = Conversation(programs, "-t", 2)
    engine.ask({"ask": "cluster"})
    engine.running.interrupt_group()
    engine.running.process.wait(HANG_GUARD_S)
    finished = engine.running.finish()
    assert (finished.code, finished.stdout) == (130, "")
    assert "interrupted" in finished.stderr


def test_waiting_for_a_request_is_no_stall(programs: Programs) -> None:
    """The limit is shorter than the wait, which an unwatched engine would not survive."""
    engine = Conversation(programs, "-t", 2, "-T", 2)
    engine.ask({"ask": "cluster"})
    with pytest.raises(subprocess.TimeoutExpired):
        engine.running.process.wait(4)
    expect_times(engine.ask(measurement(1, (0, 1))), 1, 1)


def test_a_rank_that_hangs_is_the_answer(programs: Programs) -> None:
    engine = Conversation(programs, "-t", 2, "-T", 2, "--fault", "hang:rank=1,phase=timing")
    answer = engine.ask(measurement(1, (0, 1)))
    assert "no rank made progress for 2 s: rank 1 did not get past phase timing" in answer["error"]
    assert engine.running.finish().code == 4


def launched(
    programs: Programs,
    *arguments: object,
    size: int,
    environment: Mapping[int, dict[str, str]] = NO_CHANGES,
    engine: str = "busbw-engine",
) -> list[Conversation]:
    """Processes of one job of `size`, as a launcher starts them. Process 0 answers.

    `environment`: further variables by process; only these processes start. By default all start.
    """
    store = f"tcp://127.0.0.1:{free_port()}"
    common = {"BUSBW_SIZE": str(size), "BUSBW_RENDEZVOUS": store, "BUSBW_TOKEN": "of-these-tests"}
    further = environment or {process: {} for process in range(size)}
    return [
        Conversation(
            programs, *arguments, environment={**common, "BUSBW_RANK": str(process), **variables}, engine=engine
        )
        for process, variables in further.items()
    ]


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP])
def test_the_loss_of_a_process_ends_its_flows_only(sent: signal.Signals, programs: Programs) -> None:
    first, second, third = launched(programs, "-t", 2, "-T", 3, size=3)
    assert first.ask({"ask": "cluster"})["nodes"] == [{"name": NODE, "gpus": 6}]
    expect_times(first.ask(measurement(1, (0, 2), (2, 0), (1, 3), (4, 5))), 1, 4)
    send_signal(second.running.pid, sent)
    for number in (2, 3):
        answer = first.ask(measurement(number, (0, 2), (4, 1), (3, 5), (5, 4)))
        assert [flow.keys() for flow in answer["flows"]] == [{"error"}, {"times_us"}, {"error"}, {"times_us"}]
        assert [(gpu["node"], gpu["gpu"]) for gpu in answer["lost"]] == [(NODE, 2), (NODE, 3)]
        assert all("ranks 2 to 3 (process 1, pid" in gpu["error"] for gpu in answer["lost"])
    reason = answer["lost"][0]["error"]
    if sent == signal.SIGSTOP:
        os.kill(second.running.pid, signal.SIGCONT)
        finished = second.running.finish()
        assert (finished.code, f"{reason}; the job continues without it" in finished.stderr) == (4, True)
        assert "process 0" not in finished.stderr
    first.say({"ask": "end"})
    assert [one.running.finish().code for one in (first, third)] == [0, 0]


@pytest.mark.parametrize(
    ("fault", "reason", "code"),
    [
        ("die", "was lost in phase initialisation", -signal.SIGKILL),
        ("hang", f"was left out: no rank made progress for 2 s: rank 1 on {NODE} did not get past phase init", 4),
    ],
)
def test_a_process_that_is_lost_before_its_rank_is_connected(
    fault: str, reason: str, code: int, programs: Programs
) -> None:
    first, second, third = launched(programs, "-T", 2, "--fault", f"{fault}:rank=1,phase=initialisation", size=3)
    answer = first.ask({"ask": "cluster"})
    assert [gpu["gpu"] for gpu in answer["lost"]] == [1]
    assert "rank 1 (process 1, pid " in answer["lost"][0]["error"]
    assert reason in answer["lost"][0]["error"]
    expect_times(first.ask(measurement(1, (0, 2), (2, 0))), 1, 2)
    first.say({"ask": "end"})
    assert [one.running.finish().code for one in (first, third)] == [0, 0]
    left_out = second.running.finish()
    assert (left_out.code, "the job continues without it" in left_out.stderr) == (code, fault == "hang")


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP])
def test_ranks_of_a_ring_give_up_only_the_lost_one(sent: signal.Signals, programs: Programs) -> None:
    """Ranks that wait for the lost one also keep their other neighbors waiting."""
    job = launched(programs, "-T", 3, size=4)
    ring = [(0, 1), (1, 2), (2, 3), (3, 0)]
    expect_times(job[0].ask(measurement(1, *ring)), 1, 4)
    job[0].say(measurement(2, *ring, size=512 * KIB, iterations=5000))
    time.sleep(0.5)
    send_signal(job[2].running.pid, sent)
    for number in (2, 3):
        answer = job[0].answer()
        assert [flow.keys() for flow in answer["flows"]] == [{"times_us"}, {"error"}, {"error"}, {"times_us"}]
        assert [gpu["gpu"] for gpu in answer["lost"]] == [2]
        job[0].say(measurement(number + 1, *ring))
    job[0].answer()
    expect_times(job[0].ask(measurement(9, (0, 1), (1, 3), (3, 0))), 9, 3)
    job[2].running.process.kill()
    job[0].say({"ask": "end"})
    assert [job[rank].running.finish().code for rank in (0, 1, 3)] == [0, 0, 0]


def test_a_process_that_never_joins_is_lost_and_the_others_measure(programs: Programs) -> None:
    variables = {"BUSBW_JOIN_TIMEOUT_S": "2", "BUSBW_HOSTS": f"{NODE},other.example"}
    first, third = launched(programs, size=4, environment={0: variables, 2: variables})
    answer = first.ask({"ask": "cluster"})
    assert [(node["name"], node["gpus"]) for node in answer["nodes"]] == [(NODE, 2), ("other", 2)]
    assert [(gpu["node"], gpu["gpu"]) for gpu in answer["lost"]] == [("other", 0), ("other", 1)]
    assert "process 1 on other) did not join the job within 2 s" in answer["lost"][0]["error"]
    expect_times(first.ask(measurement(1, (0, 1), (1, 0))), 1, 2)
    first.say({"ask": "end"})
    assert [one.running.finish().code for one in (first, third)] == [0, 0]


def test_a_process_that_never_joins_is_on_an_unknown_host_if_the_list_has_addresses(programs: Programs) -> None:
    variables = {"BUSBW_JOIN_TIMEOUT_S": "2", "BUSBW_HOSTS": "10.0.0.1,10.0.0.2"}
    first, second = launched(programs, size=4, environment={0: variables, 1: variables})
    answer = first.ask({"ask": "cluster"})
    unknown = ["unknown (process 2)", "unknown (process 3)"]
    assert [(node["name"], node["gpus"]) for node in answer["nodes"]] == [(NODE, 2), *((name, 1) for name in unknown)]
    assert [(gpu["node"], gpu["gpu"]) for gpu in answer["lost"]] == [(name, 0) for name in unknown]
    first.say({"ask": "end"})
    assert [one.running.finish().code for one in (first, second)] == [0, 0]


def test_a_process_in_a_pod_has_the_name_of_its_node(programs: Programs) -> None:
    """The host name of a pod is that of the pod, so a launcher passes on the name of the node."""
    nodes = {process: {"BUSBW_NODENAME": f"gpu-node-{process}"} for process in (0, 1)}
    first, second = launched(programs, size=2, environment=nodes)
    answer = first.ask({"ask": "cluster"})
    assert [node["name"] for node in answer["nodes"]] == ["gpu-node-0", "gpu-node-1"]
    first.say({"ask": "end"})
    assert [one.running.finish().code for one in (first, second)] == [0, 0]


def test_a_process_that_joins_after_the_limit_is_told_so(programs: Programs) -> None:
    port = {"BUSBW_RENDEZVOUS": f"tcp://127.0.0.1:{free_port()}"}
    (first,) = launched(programs, size=2, environment={0: {**port, "BUSBW_JOIN_TIMEOUT_S": "1"}})
    assert len(first.ask({"ask": "cluster"})["lost"]) == 1
    (late,) = launched(programs, size=2, environment={1: port})
    finished = late.running.finish()
    assert finished.code == 4
    assert f"process 1 on {NODE} joined after the time limit, and the job continues without it" in finished.stderr
    first.say({"ask": "end"})
    assert first.running.finish().code == 0


def test_a_rank_that_hangs_is_lost_after_the_loss_of_another_process(programs: Programs) -> None:
    variables = {"BUSBW_JOIN_TIMEOUT_S": "2"}
    hangs = ["-T", 2, "--fault", "hang:rank=2,phase=timing"]
    first, third, fourth = launched(programs, *hangs, size=4, environment=dict.fromkeys((0, 2, 3), variables))
    answer = first.ask(measurement(1, (0, 1), (0, 2)))
    assert (
        f"no rank made progress for 2 s: rank 2 on {NODE} did not get past phase timing" in answer["flows"][0]["error"]
    )
    assert [gpu["node"] for gpu in answer["lost"]] == [NODE, "unknown (process 1)"]
    expect_times(first.ask(measurement(2, (0, 2), (2, 0))), 2, 2)
    first.say({"ask": "end"})
    assert [one.running.finish().code for one in (first, third, fourth)] == [0, 4, 0]


def test_a_process_that_cannot_start_is_lost_with_its_reason(programs: Programs) -> None:
    no_gpu = {"CUDA_VISIBLE_DEVICES": ""}
    needs_gpus = {**no_gpu, "BUSBW_REQUESTED_GPUS": "8"}
    first, second, third = launched(programs, size=3, environment={0: no_gpu, 1: needs_gpus, 2: no_gpu})
    answer = first.ask({"ask": "cluster"})
    assert [(gpu["node"], gpu["gpu"]) for gpu in answer["lost"]] == [(NODE, 1)]
    assert "(process 1, pid " in answer["lost"][0]["error"]
    assert "cannot start: " in answer["lost"][0]["error"]
    expect_times(first.ask(measurement(1, (0, 2), (2, 0))), 1, 2)
    first.say({"ask": "end"})
    assert [one.running.finish().code for one in (first, second, third)] == [0, 0, 0]


def test_pairs_that_cannot_connect_are_left_out_without_connecting_all_ranks_again(programs: Programs) -> None:
    """Rank 0 reaches no other rank. A rank listens once for each connection of all ranks."""
    compile_fake("find/refused_connections.c", programs.folder / "refused.so")
    preload = {"LD_PRELOAD": str(programs.folder / "refused.so"), "LISTEN_LOG": str(programs.folder / "listens")}
    no_changes: dict[str, str] = {}
    environment = {0: {**preload, "REFUSES": "1"}, 1: no_changes, 2: no_changes, 3: preload}
    (programs.folder / "listens").write_text("")
    job = launched(programs, size=4, environment=environment)
    assert job[0].ask({"ask": "cluster"}).get("lost", []) == []
    for number, peer in ((1, 1), (2, 2), (3, 3)):
        first, second, third = job[0].ask(measurement(number, (0, peer), (peer, 0), (1, 2)))["flows"]
        assert (second["error"], third.keys()) == (first["error"], {"times_us"})
        assert f"cannot reach rank {peer} on host {NODE} over TCP: 127.0.0.1:" in first["error"]
    job[0].say({"ask": "end"})
    assert [one.running.finish().code for one in job] == [0] * 4
    assert (programs.folder / "listens").read_text() == "rank 3\n"


def test_ctrl_c_in_a_process_that_opens_the_backend_ends_the_job(programs: Programs) -> None:
    compile_fake("find/hanging_interfaces.c", programs.folder / "hanging.so")
    hangs = {"LD_PRELOAD": str(programs.folder / "hanging.so")}
    first, second = launched(programs, size=2, environment={0: {}, 1: hangs})
    wait_until((programs.folder / "asked").exists, "the interfaces were asked for")
    os.kill(second.running.pid, signal.SIGINT)
    for finished in (one.running.finish() for one in (second, first)):
        assert finished.code == 130
        assert "interrupted while opening the host backend" in finished.stderr


def test_the_loss_of_process_0_ends_the_job(programs: Programs) -> None:
    first, second = launched(programs, size=2)
    first.ask({"ask": "cluster"})
    os.kill(first.running.pid, signal.SIGKILL)
    finished = second.running.finish()
    assert finished.code == 4
    assert "rank 0 (process 0 on " in finished.stderr


def test_a_rank_lost_in_a_round_is_the_answer(programs: Programs) -> None:
    engine = Conversation(programs, "--processes", 2, "--fault", "die:rank=1,phase=timing")
    assert "rank 1 (process 1, pid" in engine.ask(measurement(1, (0, 1)))["error"]
    finished = engine.running.finish()
    assert finished.code == 4
    expect_no_process_left(engine.running)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-b", "4K"], "-b (--minbytes) 4K: flows has no such flag; drop it"),
        (["-c", "0"], "-c (--check) 0: flows has no such flag"),
        (["--records", "file"], "--records file: allowed: -,"),
        (["--fault", "delay:rank=0,us=5"], "flows runs no other fault"),
    ],
)
def test_flags_without_a_meaning_are_errors(arguments: list[str], message: str, programs: Programs) -> None:
    finished = programs.run("busbw-engine", "flows", *arguments)
    assert (finished.code, finished.stdout) == (2, "")
    assert message in finished.sentence()


def test_the_help_names_its_flags_only(programs: Programs) -> None:
    finished = programs.run("busbw-engine", "flows", "--help")
    assert finished.code == 0
    assert finished.stdout.startswith("Usage: busbw-engine flows [options]\n")
    assert "--maxbytes" in finished.stdout
    assert "--stepfactor" not in finished.stdout
    assert "NCCL_TESTS_SPLIT" not in finished.stdout


def test_a_search_measures_with_the_engine(programs: Programs, capsys: pytest.CaptureFixture[str]) -> None:
    command = f"{shlex.quote(str(programs.path('busbw-engine')))} flows -t 4"
    code = main(["find", "--json", "--size", "1M", "--measure-with", command])
    output = capsys.readouterr()
    result = json.loads(output.out)
    assert code in {0, 5, 6}, output.err  # ranks of a busy machine may differ
    assert result["complete"]
    assert (result["rounds"] > 2, result["flows"] > 8) == (True, True)
