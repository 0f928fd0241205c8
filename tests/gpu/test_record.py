"""A job of PyTorch is recorded, shown and replayed. With NCCL 2.30 or later, its two processes can share one GPU."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .machine import Machine, real_library

JOB = Path(__file__).parent / "jobs" / "train.py"
STEPS = 30
LATE_US = 50_000
"""Longer than the turns of processes that share a GPU."""


class Job:
    """The job with two processes, in a folder."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder = folder
        self._environment = environment

    def busbw(self, *words: object) -> Any:
        """Runs the command, and returns its JSON object if it prints one."""
        finished = subprocess.run(
            [sys.executable, "-m", "busbw", *map(str, words)],
            cwd=self._folder,
            env={"NCCL_NVLS_ENABLE": "0", **os.environ, **self._environment},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert finished.returncode == 0, finished.stderr
        return json.loads(finished.stdout) if "--json" in words else None

    def record(self, late_us: int) -> dict[str, Any]:
        """Returns the result of `busbw show`."""
        launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", 2]
        self.busbw("record", "-o", "job", "--device-times", "on", "--", *launcher, JOB, STEPS, late_us)
        shown: dict[str, Any] = self.busbw("show", "job", "--json")
        return shown


@pytest.fixture
def job(gpus: Machine, tmp_path: Path) -> Job:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("needs PyTorch")
    if gpus.count > 1:
        return Job(tmp_path, {})
    library = real_library(gpus)
    version = gpus.run("all_reduce", "-t", 1, "-b", 8, "-e", 8, "-n", 1).facts()["nccl_version"]
    if tuple(map(int, version.split(".")))[:2] < (2, 30):
        pytest.skip(f"needs two GPUs, because NCCL {version} has no two ranks on one")
    # PyTorch brings an NCCL of its own, which this one precedes.
    return Job(tmp_path, {"NCCL_MULTI_RANK_GPU_ENABLE": "1", "NCCL_TESTS_DEVICE": "0", "LD_PRELOAD": str(library)})


@pytest.mark.alone
def test_a_recorded_job_is_replayed(job: Job, gpus: Machine) -> None:
    shown = job.record(0)
    assert shown["recorded_ranks"] == 2
    assert STEPS - 2 <= shown["steps"]["count"] <= STEPS
    calls = {(row["function"], row["max_size_bytes"]): row for row in shown["rows"]}
    assert calls["all_gather", 4 << 20]["calls_per_step"] == calls["reduce_scatter", 4 << 20]["calls_per_step"] == 4
    assert calls["all_reduce", 4]["calls_per_step"] == 1
    assert sum(row["share"] or 0 for row in shown["rows"]) <= 1
    replayed = job.busbw("replay", "job", "--processes", 2, "-c", 1, "--json")
    assert replayed["wrong_elements"] == 0
    # Processes that share a GPU use it in turns, so that their times mean nothing.
    if gpus.count > 1:
        assert replayed["replayed_us"] == pytest.approx(replayed["recorded_us"], rel=0.05)


@pytest.mark.alone
def test_a_late_rank_of_a_recorded_job_is_named(job: Job) -> None:
    shown = job.record(LATE_US)
    (late,) = (finding for finding in shown["findings"] if finding["kind"] == "late rank")
    assert late["text"].startswith("rank 1 ")
    assert late["cost_us"] > 0.8 * LATE_US
