"""GPUs that a launcher requests: every launcher tells the engine, and Slurm's refuses a build without GPU support."""

import os
from pathlib import Path

import pytest
from fake_slurm import FakeSlurm
from launch_jobs import DRY_RUNS

from busbw.cli.main import main
from busbw.launchers import LAUNCHERS

VARIABLE = "BUSBW_REQUESTED_GPUS"
ALL_REDUCE = ["--", "all_reduce", "-b", "8", "-e", "8"]
REASON = "this build has no GPU engine: run `make wheel` and install its wheel, or use --backend host"
ENGINE = """#!/bin/sh
case $1 in
--version) echo 'busbw 9.9.9'; echo '{backend}' ;;
--list-devices) echo 'busbw-engine: no GPU: {reason}' >&2 ;;
esac
"""


@pytest.fixture(autouse=True)
def _no_allocation(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    for name in os.environ:
        if name.startswith(("SLURM_", "BUSBW_")):
            monkeypatch.delenv(name)


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeSlurm:
    """A Slurm that rejects every job, and an engine without GPU support."""
    fake = FakeSlurm(tmp_path)
    fake.says("sbatch", error="sbatch: error: rejected by the test\n", code=1)
    monkeypatch.setenv("FAKE", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setenv("BUSBW_PROGRAMS", str(tmp_path))
    install_engine(tmp_path, backend="backend host 9.9.9", reason=REASON)
    return fake


def install_engine(folder: Path, **texts: str) -> None:
    for name in ("busbw-engine", "all_reduce_perf"):
        (folder / name).write_text(ENGINE.format(**texts))
        (folder / name).chmod(0o755)


def dry(capsys: pytest.CaptureFixture[str], launcher: str, *words: str) -> str:
    assert main(["launch", launcher, *DRY_RUNS[launcher], *words, "--dry-run", *ALL_REDUCE]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_the_gpus_of_a_machine_type_reach_every_process(capsys: pytest.CaptureFixture[str], launcher: str) -> None:
    assert VARIABLE not in dry(capsys, launcher)
    text = dry(capsys, launcher, "--machine-type", "p5.48xlarge")
    assert VARIABLE in text
    assert "8" in text.partition(VARIABLE)[2][:40]
    assert VARIABLE not in dry(capsys, launcher, "--machine-type", "host")


@pytest.mark.parametrize(("launcher", "option"), [("slurm", "--gpus-per-node"), ("kubernetes", "--gpus")])
def test_the_gpus_of_an_option_reach_every_process(
    capsys: pytest.CaptureFixture[str], launcher: str, option: str
) -> None:
    for count in ("4", "0"):
        text = dry(capsys, launcher, option, count, "--machine-type", "p5.48xlarge")
        assert count in text.partition(VARIABLE)[2][:40]


@pytest.mark.parametrize("launcher", ["local", "ssh", "mpirun", "slurm"])
def test_the_gpus_of_an_allocation_reach_every_process(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, launcher: str
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setenv("SLURM_GPUS_PER_NODE", "h100:8")
    assert "8" in dry(capsys, launcher).partition(VARIABLE)[2][:5]


@pytest.mark.parametrize("words", [["--gpus-per-node", "8"], ["--machine-type", "p5.48xlarge"]])
def test_slurm_refuses_an_engine_without_gpu_support_before_the_job_waits(
    slurm: FakeSlurm, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert main(["launch", "slurm", *words, *ALL_REDUCE]) == 3
    assert capsys.readouterr().err == f"busbw: GPUs are requested (8 per node), but {REASON}\n"
    assert slurm.asked("sbatch") == []


@pytest.mark.parametrize(
    "words",
    [
        ["--gpus-per-node", "8", *ALL_REDUCE, "--backend", "host"],
        ["--gpus-per-node", "0", "--machine-type", "p5.48xlarge", *ALL_REDUCE],
        ["--gpus-per-node", "8", "--program-path", "/opt/busbw/bin", *ALL_REDUCE],  # another build
        ALL_REDUCE,
    ],
)
def test_slurm_submits_what_needs_no_gpu_support_here(slurm: FakeSlurm, words: list[str]) -> None:
    assert main(["launch", "slurm", *words]) == 3  # of the rejection
    assert len(slurm.asked("sbatch")) == 1


def test_slurm_submits_with_a_gpu_engine_on_a_login_node_without_gpus(slurm: FakeSlurm, tmp_path: Path) -> None:
    install_engine(tmp_path, backend="backend nccl, built with the headers of 2.28.9", reason="no NVIDIA driver found")
    assert main(["launch", "slurm", "--gpus-per-node", "8", *ALL_REDUCE]) == 3
    assert len(slurm.asked("sbatch")) == 1
