"""Tests that a search over NCCL continues with the other GPUs after processes are lost.

A lost process leaves its peers waiting on their GPUs. They leave the communicator after 0.3 of -T, and join a new one.
"""

import json
import os
import signal
import statistics
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from .machine import Machine, free_port

LIMIT_S = 20
"""-T of every run."""
RECOVERY_LIMIT_S = 60
"""More than the limits of flows, silence and joining together."""
NODE = os.uname().nodename.split(".")[0]
MIB = 1 << 20


class FlowJob:
    """A job of `busbw-engine flows` with a process for each rank. Requests go to process 0."""

    def __init__(self, machine: Machine) -> None:
        self.count = machine.count
        common = {
            "BUSBW_SIZE": str(self.count),
            "BUSBW_LOCAL_SIZE": str(self.count),
            "BUSBW_RENDEZVOUS": f"tcp://127.0.0.1:{free_port()}",
            "BUSBW_TOKEN": "of-these-tests",
        }
        words = [machine.programs / "busbw-engine", "flows", "-T", LIMIT_S, "--backend", machine.backend]
        self.processes = [
            subprocess.Popen(
                list(map(str, words)),
                cwd=machine.folder,
                env={**machine.environment(), **common, "BUSBW_RANK": str(rank), "BUSBW_LOCAL_RANK": str(rank)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            for rank in range(self.count)
        ]

    def request(self, *flows: tuple[int, int], size_bytes: int = 16 * MIB, iterations: int = 10) -> None:
        ends = [{"from": {"node": NODE, "gpu": a}, "to": {"node": NODE, "gpu": b}} for a, b in flows]
        self._say({"ask": "measure", "id": 1, "size_bytes": size_bytes, "iterations": iterations, "flows": ends})

    def answer(self) -> dict[str, Any]:
        stdout = self.processes[0].stdout
        assert stdout is not None
        answer = json.loads(stdout.readline())
        assert isinstance(answer, dict)
        return answer

    def send(self, rank: int, signal_number: signal.Signals) -> None:
        self.processes[rank].send_signal(signal_number)

    def expect_end(self, ranks: list[int]) -> None:
        """Asserts that these processes end with exit code 0."""
        self._say({"ask": "end"})
        assert [self.processes[rank].wait(RECOVERY_LIMIT_S) for rank in ranks] == [0] * len(ranks)

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()

    def _say(self, request: dict[str, Any]) -> None:
        stdin = self.processes[0].stdin
        assert stdin is not None
        stdin.write(f"{json.dumps(request)}\n")
        stdin.flush()


@pytest.fixture
def job(several: Machine) -> Iterator[FlowJob]:
    started = FlowJob(several)
    yield started
    started.stop()


def ring(count: int) -> list[tuple[int, int]]:
    """Returns flows from each rank to the next one."""
    return [(rank, (rank + 1) % count) for rank in range(count)]


def expect_failures(answer: dict[str, Any], flows: list[tuple[int, int]], lost: list[int]) -> None:
    """Asserts that exactly the flows of the lost ranks have failed."""
    assert [gpu["gpu"] for gpu in answer["lost"]] == lost, answer
    for flow, result in zip(flows, answer["flows"], strict=True):
        if set(flow) & set(lost):
            assert "was lost in phase" in result["error"], (flow, result)
        else:
            assert all(time_us > 0 for time_us in result["times_us"]), (flow, result)


def test_rates_of_flows(several: Machine, job: FlowJob) -> None:
    size_bytes = 256 * MIB
    job.request((0, 1), size_bytes=size_bytes)
    times_us = job.answer()["flows"][0]["times_us"]
    several.note(f"GPU 0 to 1: {size_bytes / statistics.median(times_us) / 1e3:.0f} GB/s, times {times_us} us")
    job.expect_end(list(range(several.count)))


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGSTOP])
def test_a_process_that_is_lost_in_a_round(several: Machine, job: FlowJob, blow: signal.Signals) -> None:
    flows = ring(several.count)
    victim = several.count - 1
    job.request(*flows)
    expect_failures({"lost": [], **job.answer()}, flows, [])
    job.request(*flows, size_bytes=256 * MIB if several.on_gpus else MIB // 2, iterations=5000)
    time.sleep(1.5)
    start_s = time.monotonic()
    job.send(victim, blow)
    expect_failures(job.answer(), flows, [victim])
    took_s = time.monotonic() - start_s
    assert took_s < RECOVERY_LIMIT_S
    job.request(*flows)
    expect_failures(job.answer(), flows, [victim])
    several.note(f"answer {took_s:.1f} s after {blow.name}")
    job.send(victim, signal.SIGKILL)
    job.expect_end(list(range(victim)))


def test_processes_that_are_lost_one_after_another(several: Machine, job: FlowJob) -> None:
    """Finally, only rank 0 is left."""
    flows = ring(several.count)
    for victim in range(several.count - 1, 0, -1):
        job.request(*flows)
        lost = list(range(victim + 1, several.count))
        expect_failures({"lost": [], **job.answer()}, flows, lost)
        job.send(victim, signal.SIGKILL)
    job.request(*flows)
    expect_failures(job.answer(), flows, list(range(1, several.count)))
    job.expect_end([0])


@pytest.mark.parametrize("phase", ["warmup", "timing"])
def test_a_search_names_the_lost_gpu(several: Machine, phase: str) -> None:
    victim = several.count - 1
    words = [several.programs / "busbw", "find", "local", "--processes", several.count, "--json", "-T", LIMIT_S]
    words += ["--backend", several.backend, "--fault", f"die:rank={victim},phase={phase}"]
    start_s = time.monotonic()
    finished = subprocess.run(
        list(map(str, words)),
        cwd=several.folder,
        env=several.environment(),
        capture_output=True,
        text=True,
        timeout=4 * RECOVERY_LIMIT_S,
    )
    (several.folder / "find.err").write_text(finished.stderr)
    (several.folder / "find.json").write_text(finished.stdout)
    assert finished.returncode == 5, finished
    result = json.loads(finished.stdout)
    assert result["complete"], result
    lost = [finding for finding in result["findings"] if finding["lost"]]
    assert [(finding["kind"], finding["gpu"]) for finding in lost] == [("gpu", victim)], result
    assert several.count < 3 or result["flows"] > 0, result
    several.note(f"{result['rounds']} rounds in {time.monotonic() - start_s:.1f} s")
