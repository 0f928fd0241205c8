"""`busbw launch local` with the real engine: several processes find each other, and fail together."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from polling import HANG_GUARD_S, wait_for_end

from busbw import engine
from busbw.collectives import COLLECTIVES

from .launching import Launching, launch, processes_with

SMALL = ["-b", "8", "-e", "4K", "-n", "2"]
ENDLESS = [*SMALL, "-N", "0"]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    return folder


@pytest.fixture
def endless(here: Path) -> Iterator[Launching]:
    """Three processes without end, past their first rows, which can be told by the folder."""
    words = ["local", "--processes", "3", "--env", f"MARK={here}", "--", "all_reduce", *ENDLESS]
    with Launching(words, here) as running:
        running.wait_for_rows()
        yield running
    wait_for_end(processes_with(f"MARK={here}\0"))


def test_one_table_of_several_processes(here: Path) -> None:
    launched = launch(["local", "--processes", "3", "--", "all_reduce", *SMALL, "-t", "2"], here)
    assert launched.code == 0, launched.stderr
    assert [row[0] for row in launched.rows] == [str(2**power) for power in range(3, 13)]
    assert [rank["process"] for rank in launched.records[0]["ranks"]] == [0, 0, 1, 1, 2, 2]
    assert {record["kind"] for record in launched.records} - {"warning"} == {"run", "row", "end"}
    processors = len(os.sched_getaffinity(0))
    warnings = [record["message"] for record in launched.records if record["kind"] == "warning"]
    assert [f" share {processors} processor" in warning for warning in warnings] == [True] * (processors < 6)
    assert launched.stderr.splitlines()[-3:-1] == [
        "Data: correct: all 10 rows right, every bit.",
        "Speed: not judged: the host backend has no expectation.",
    ]


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_collective(here: Path, collective: str) -> None:
    launched = launch(["local", "--processes", "4", "--", collective, "--sizes", "64,64K", "-n", "2"], here)
    assert launched.code == 0, launched.stderr
    assert "Data: correct" in launched.stderr or "without a defined result" in launched.stderr


def test_wrong_data_are_found_and_named(here: Path) -> None:
    flip = ["--fault", "flip:rank=1,index=1,bit=3"]
    launched = launch(["local", "--processes", "2", "--", "all_reduce", *SMALL, *flip], here)
    assert launched.code == 1, launched.stderr
    assert "WRONG DATA" in launched.stderr


def test_a_wrong_flag_is_reported_once_without_files(here: Path) -> None:
    launched = launch(["local", "--processes", "4", "--", "all_reduce", "-n", "0"], here)
    assert launched.code == 2
    assert launched.stderr.count("-n (--iters) 0") == 1
    assert list(here.iterdir()) == []


def test_a_killed_process_ends_all_with_its_name(endless: Launching, here: Path) -> None:
    (victim,) = {*processes_with(f"MARK={here}\0")} & {*processes_with("BUSBW_RANK=1\0")}
    os.kill(victim, signal.SIGKILL)
    launched = endless.finish()
    assert launched.code == 4, launched.stderr
    assert "rank 1" in launched.stderr
    assert launched.rows
    assert launched.records[-1]["kind"] == "end"
    assert launched.records[-1]["exit_code"] == 4


def test_control_c_keeps_the_rows(endless: Launching) -> None:
    endless.interrupt()
    launched = endless.finish()
    assert launched.code == 130, launched.stderr
    assert launched.rows
    assert launched.records[-1]["exit_code"] == 130
    assert "Data: the run ended early" in launched.stderr


def test_a_killed_launcher_leaves_nothing_behind(endless: Launching, here: Path) -> None:
    ranks = processes_with(f"MARK={here}\0")
    assert len(ranks) == 3
    endless.process.kill()
    wait_for_end(ranks)


def test_a_reader_that_goes_away(endless: Launching) -> None:
    assert endless.process.stdout
    endless.process.stdout.close()
    assert endless.process.wait(HANG_GUARD_S) == 141


# ---- without a launcher of ours -------------------------------------------------------------------------------------


def started(environments: list[dict[str, str]], here: Path) -> list["subprocess.CompletedProcess[str]"]:
    """The program once for each environment, at once."""
    program = [str(engine.program("all_reduce_perf")), *SMALL]
    running = [
        subprocess.Popen(
            program,
            cwd=here,
            env={**{name: value for name, value in os.environ.items() if not name.startswith("SLURM")}, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for environment in environments
    ]
    done = []
    for process in running:
        out, errors = process.communicate(timeout=HANG_GUARD_S)
        done.append(subprocess.CompletedProcess(process.args, process.returncode, out, errors))
    return done


def torchrun(rank: int, size: int, port: int, **more: str) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        **more,
    }


def test_torchruns_variables_make_one_table(here: Path, free_port: int) -> None:
    first, *others = started([torchrun(rank, 3, free_port) for rank in range(3)], here)
    assert first.returncode == 0, first.stderr
    assert first.stdout.count("# Collective test concluded") == 1
    assert "3 processes" in first.stdout
    assert [(other.returncode, other.stdout) for other in others] == [(0, ""), (0, "")]


@pytest.mark.parametrize(
    ("environment", "pieces"),
    [
        ({"WORLD_SIZE": "8"}, ["WORLD_SIZE=8", "RANK", "torchrun", "BUSBW_LAUNCHER=none"]),
        ({"OMPI_COMM_WORLD_RANK": "1"}, ["OMPI_COMM_WORLD_RANK=1", "BUSBW_LAUNCHER=none"]),
        ({"SLURM_JOB_ID": "7", "SLURM_NTASKS": "8"}, ["SLURM_NTASKS=8", "srun", "BUSBW_LAUNCHER=none"]),
        ({"JOB_COMPLETION_INDEX": "3"}, ["JOB_COMPLETION_INDEX=3", "BUSBW_SIZE", "busbw launch kubernetes"]),
        ({"BUSBW_SIZE": "4"}, ["BUSBW_SIZE=4", "BUSBW_RANK"]),
    ],
)
def test_a_process_that_would_run_alone_reports_it(here: Path, environment: dict[str, str], pieces: list[str]) -> None:
    (alone,) = started([environment], here)
    assert alone.returncode == 2
    assert alone.stdout == ""
    assert all(piece in alone.stderr for piece in pieces), alone.stderr


def test_alone_on_purpose(here: Path) -> None:
    (alone,) = started([{"WORLD_SIZE": "8", "BUSBW_LAUNCHER": "none"}], here)
    assert alone.returncode == 0, alone.stderr
