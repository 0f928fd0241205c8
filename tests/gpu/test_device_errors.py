"""Tests that a lost or silent rank is reported on all ranks, and that a wrong environment gives a one-line error."""

import os
import re
import signal
import time
from pathlib import Path

import pytest

from .machine import Machine, built_file, real_library

ENDLESS = ["-b", "1M", "-e", "1M", "-n", 5, "-N", 0]
LIMIT_S = 4


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGSTOP])
def test_a_process_lost_in_the_middle(several: Machine, blow: signal.Signals) -> None:
    """A killed process is lost at once, a stopped one after the time limit."""
    running = several.start("all_reduce", *several.ranks("processes"), *ENDLESS, "-T", LIMIT_S)
    (run,) = (record for record in running.wait_for_rows(6) if record["kind"] == "run")
    bad = several.count - 1
    victim = run["ranks"][bad]["pid"]
    os.kill(victim, blow)
    finished = running.finish(within_s=40)
    assert finished.code == 4, finished
    assert f"rank {bad} " in finished.sentence()
    (end,) = finished.of_kind("end")
    assert end["exit_code"] == 4
    assert not Path(f"/proc/{victim}").exists()


@pytest.mark.parametrize("way", ["g", "t", "processes"])
def test_a_gpu_lost_in_the_middle(several: Machine, gpus: Machine, way: str) -> None:
    """Its context ends in the midst of an all-reduce, as when the driver gives up a GPU; the peers wait for it then.

    Within a process CUDA tells other GPUs the same, and any of them may be asked first.
    """
    losing = built_file(several, "liblosing_nccl.so")
    preloaded = {"LD_PRELOAD": f"{losing}:{real_library(several)}", "BUSBW_NCCL_LIBRARY": ""}
    finished = several.start("all_reduce", *several.ranks(way), *ENDLESS, environment=preloaded).finish()
    assert finished.code == 3, finished
    rank = 1 if way == "processes" else r"\d"
    said = rf"rank {rank} on GPU .* failed: .* \(cudaError\w+\), the GPU is lost"
    assert re.search(said, finished.sentence()), finished
    assert "Xid" in finished.sentence()
    assert finished.rows()
    (end,) = finished.of_kind("end")
    assert end["exit_code"] == 3


@pytest.mark.alone  # starting takes longer than the limit if other tests start at the same time
@pytest.mark.parametrize("way", ["g", "t", "processes"])
@pytest.mark.parametrize("phase", ["initialisation", "timing"])
def test_a_silent_rank(several: Machine, way: str, phase: str) -> None:
    """The program ends although NCCL's initialization or an operation never returns."""
    fault = ["--fault", f"hang:rank=1,phase={phase}"]
    finished = several.start("all_reduce", *several.ranks(way), "-b", "1M", "-e", "1M", "-T", LIMIT_S, *fault).finish(
        within_s=60
    )
    assert finished.code == 4, finished
    assert f"rank 1 did not get past phase {phase}" in finished.sentence()


GATE_EXPIRES_WITHIN_S = 100


@pytest.mark.alone  # a GPU that waits at a gate slows down all other programs on it
@pytest.mark.long
def test_a_gate_that_expires(several: Machine, gpus: Machine) -> None:
    """A rank that is stopped keeps the others' gates closed until their GPUs go on by themselves: no time is shown.

    The rank sleeps before each operation that it issues behind the gate, while the others' gates are closed: so nearly
    always they are when it is stopped. Should it be in between, it is stopped again.
    """
    slow = ["--fault", "delay:rank=1,us=20000", "-n", 1, "-w", 1, "-G", 50, "-c", 0, "-N", 0]
    running = gpus.start("all_reduce", *gpus.ranks("processes"), "-b", 8, "-e", 8, *slow, "-T", 600)
    records = running.wait_for_rows(2)
    (run,) = (record for record in records if record["kind"] == "run")
    for _ in range(3):
        os.kill(run["ranks"][1]["pid"], signal.SIGSTOP)
        time.sleep(GATE_EXPIRES_WITHIN_S)
        os.kill(run["ranks"][1]["pid"], signal.SIGCONT)
        time.sleep(5)
        if running.process.poll() is not None:
            break
    finished = running.finish()
    assert finished.code == 3, finished
    assert "were held back on the GPU for so long that its time limit passed" in finished.sentence()


def test_a_rank_that_dies(several: Machine) -> None:
    finished = several.run(
        "all_gather", *several.ranks("processes"), "-b", "1M", "-e", "1M", "--fault", "die:rank=1,phase=timing"
    )
    assert finished.code == 4
    assert "rank 1 (process 1, pid " in finished.sentence()


def test_interrupt(several: Machine) -> None:
    running = several.start("all_reduce", *several.ranks("g"), *ENDLESS)
    running.wait_for_rows(4)
    running.process.send_signal(signal.SIGINT)
    finished = running.finish(within_s=30)
    assert finished.code == 130
    assert finished.of_kind("end")


# ---- wrong environment -----------------------------------------------------------------------------------------------


def test_more_ranks_than_gpus(gpus: Machine) -> None:
    for flags in (["-t", gpus.count + 1], ["-g", gpus.count + 1], ["--processes", gpus.count + 1]):
        finished = gpus.run("all_reduce", *flags)
        assert finished.code == 3, finished
        assert f"sees {gpus.count}" in finished.sentence()


def test_a_library_that_is_none(gpus: Machine, tmp_path: Path) -> None:
    text = tmp_path / "libnccl.so.2"
    text.write_text("not a library\n")
    for library in (text, tmp_path / "absent.so"):
        finished = gpus.run("all_reduce", "-t", 1, "--library", library)
        assert finished.code == 3, finished
        assert str(library) in finished.sentence()


def test_the_library_that_is_named(gpus: Machine) -> None:
    found = gpus.run("all_reduce", "-t", 1, "-b", 8, "-e", 8)
    path = found.facts()["nccl_library"]
    for flags, environment in (
        (["--library", path], {"BUSBW_NCCL_LIBRARY": "/absent"}),
        ([], {"BUSBW_NCCL_LIBRARY": path}),
    ):
        named = gpus.run("all_reduce", "-t", 1, "-b", 8, "-e", 8, *flags, environment=environment)
        assert named.code == 0, named
        assert named.facts()["nccl_version"] == found.facts()["nccl_version"]
        assert Path(named.facts()["nccl_library"]).resolve() == Path(path).resolve()
