"""A job of PyTorch is recorded, shown and replayed."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .machine import Machine

JOB = Path(__file__).parent / "jobs" / "train.py"
STEPS = 30


def busbw(folder: Path, *words: object) -> str:
    """Runs the command in a folder and returns its standard output."""
    command = [sys.executable, "-m", "busbw", *map(str, words)]
    finished = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def record(folder: Path, late_us: int) -> dict[str, Any]:
    """Records the job with two processes, and returns the JSON of `busbw show`."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", 2]
    busbw(folder, "record", "-o", "job", "--device-times", "on", "--", *launcher, JOB, STEPS, late_us)
    shown: dict[str, Any] = json.loads(busbw(folder, "show", "job", "--json"))
    return shown


@pytest.fixture(autouse=True)
def two_gpus_and_torch(gpus: Machine, gpu_count: int) -> None:
    if gpu_count < 2 or importlib.util.find_spec("torch") is None:
        pytest.skip("needs two GPUs and PyTorch")


@pytest.mark.alone
def test_a_recorded_job_is_replayed_in_the_same_time(tmp_path: Path) -> None:
    shown = record(tmp_path, late_us=0)
    assert shown["recorded_ranks"] == 2
    assert STEPS - 2 <= shown["steps"]["count"] <= STEPS
    calls = {(row["function"], row["max_size_bytes"]): row for row in shown["rows"]}
    assert calls["all_gather", 4 << 20]["calls_per_step"] == calls["reduce_scatter", 4 << 20]["calls_per_step"] == 4
    assert calls["all_reduce", 4]["calls_per_step"] == 1
    assert sum(row["share"] or 0 for row in shown["rows"]) <= 1
    replayed = json.loads(busbw(tmp_path, "replay", "job", "-g", 2, "--json"))
    assert replayed["wrong_elements"] == 0
    assert replayed["replayed_us"] == pytest.approx(replayed["recorded_us"], rel=0.05)


@pytest.mark.alone
def test_a_late_rank_of_a_recorded_job_is_named(tmp_path: Path) -> None:
    shown = record(tmp_path, late_us=5000)
    (late,) = (finding for finding in shown["findings"] if finding["kind"] == "late rank")
    assert late["text"].startswith("rank 1 ")
    assert late["cost_us"] > 4000
