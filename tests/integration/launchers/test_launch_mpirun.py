"""`busbw launch mpirun` with the real Open MPI and MPICH, on this machine and over a real sshd."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from command_lines import command_lines
from polling import HANG_GUARD_S, wait_for_end

from busbw.launchers.mpirun import family_of

from .. import mpi
from . import private_sshd
from .launching import BUSBW, Launching, launch, processes_with

SMALL = ["-b", "8", "-e", "4K", "-n", "2"]
ENDLESS = [*SMALL, "-N", "0"]


@pytest.fixture(params=mpi.FAMILIES)
def mpirun(request: pytest.FixtureRequest) -> list[str]:
    """The options that name one of the MPIs."""
    family: str = request.param
    if reason := mpi.skip_reason(family):
        pytest.skip(reason)
    return ["mpirun", "--mpirun", str(mpi.mpirun(family))]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    return folder


@pytest.fixture
def endless(mpirun: list[str], here: Path) -> Iterator[Launching]:
    """Three processes without end, past their first rows, which can be told by the folder."""
    words = [*mpirun, "--processes-per-node", "3", "--env", f"MARK={here}", "--", "all_reduce", *ENDLESS]
    with Launching(words, here) as running:
        running.wait_for_rows()
        yield running
    wait_for_end(processes_with(f"MARK={here}\0"))


def engines(here: Path) -> list[int]:
    """The engines of a job, and neither the shells around them nor mpirun."""
    found = []
    for pid in processes_with(f"MARK={here}\0"):
        with suppress(OSError):  # it has ended meanwhile
            if Path(f"/proc/{pid}/exe").readlink().name == "busbw-engine":
                found.append(pid)
    return found


def test_each_line_has_its_process(mpirun: list[str]) -> None:
    said = subprocess.run([mpirun[-1], "--version"], capture_output=True, text=True, check=True).stdout
    assert f"/{family_of(said)}/" in mpirun[-1]


def test_one_table(mpirun: list[str], here: Path) -> None:
    launched = launch([*mpirun, "--processes-per-node", "3", "--", "all_reduce", *SMALL, "-t", "2"], here)
    assert launched.code == 0, launched.stderr
    assert [row[0] for row in launched.rows] == [str(2**power) for power in range(3, 13)]
    assert [rank["process"] for rank in launched.records[0]["ranks"]] == [0, 0, 1, 1, 2, 2]
    assert "Data: correct: all 10 rows right" in launched.stderr
    assert "ended with" not in launched.stderr


def test_rendezvous_in_a_folder(mpirun: list[str], here: Path, tmp_path: Path) -> None:
    words = [*mpirun, "--processes-per-node", "2", "--rendezvous-folder", str(tmp_path), "--", "all_reduce", *SMALL]
    launched = launch(words, here)
    assert launched.code == 0, launched.stderr
    assert len(launched.rows) == 10
    assert [path.name for path in tmp_path.iterdir()] == ["here"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--fault", "flip:rank=1,index=1,bit=3"], 1),
        (["-n", "0"], 2),
        (["--fault", "die:rank=1,phase=timing"], 4),
        (["--fault", "die:rank=0,phase=warmup"], 4),
    ],
)
def test_the_exit_code_is_the_programs(mpirun: list[str], here: Path, words: list[str], code: int) -> None:
    launched = launch([*mpirun, "--processes-per-node", "3", "--", "all_reduce", *SMALL, *words], here)
    assert launched.code == code, launched.stderr
    assert "Traceback" not in launched.stderr


def test_a_killed_process_ends_all_with_its_name(endless: Launching, here: Path) -> None:
    victim = next(
        pid
        for pid in engines(here)
        if any(name in Path(f"/proc/{pid}/environ").read_bytes() for name in (b"COMM_WORLD_RANK=2\0", b"PMI_RANK=2\0"))
    )
    os.kill(victim, signal.SIGKILL)
    launched = endless.finish()
    assert launched.code == 4, launched.stderr
    assert "rank 2" in launched.stderr
    assert launched.records[-1]["exit_code"] == 4


def test_control_c_keeps_and_reports_the_rows(endless: Launching) -> None:
    endless.interrupt()
    launched = endless.finish()
    assert launched.code == 130, launched.stderr
    assert launched.rows
    assert launched.records[-1]["kind"] == "end"
    assert launched.records[-1]["exit_code"] == 130


def test_a_killed_launcher_leaves_nothing_behind(endless: Launching, here: Path) -> None:
    ranks = engines(here)
    assert len(ranks) == 3
    endless.process.kill()
    wait_for_end(ranks)


def test_busbw_run_under_mpirun_points_to_launch(mpirun: list[str], here: Path) -> None:
    more = ["--allow-run-as-root", "--oversubscribe"] if "/openmpi/" in mpirun[-1] else []
    words = [mpirun[-1], *more, "-np", "2", *BUSBW, "run", "all_reduce", "-e", "64"]
    done = subprocess.run(words, cwd=here, capture_output=True, text=True, timeout=HANG_GUARD_S)
    assert done.returncode == 2
    # mpirun ends both processes when the first one fails, so either of them may be the only one with a message.
    assert re.search("process [01] of 2; use busbw launch, or start all_reduce_perf instead", done.stderr)
    assert list(here.iterdir()) == []


def test_a_program_that_is_not_there(mpirun: list[str], here: Path) -> None:
    words = [*mpirun, "--processes-per-node", "2", "--program-path", "/nowhere", "--", "all_reduce", *SMALL]
    launched = launch(words, here)
    assert launched.code == 3
    assert launched.stderr.count("has no such program; install busbw there, or set --program-path") == 1
    assert list(here.iterdir()) == []


def test_an_mpirun_that_does_not_start_the_job(mpirun: list[str], here: Path) -> None:
    words = [*mpirun, "--bind-to", "nonsense", "--processes-per-node", "2", "--", "all_reduce", *SMALL]
    launched = launch(words, here)
    assert launched.code == 3, launched.stderr
    *said, sentence = launched.stderr.splitlines()
    assert any("nonsense" in line for line in said)
    assert "before any process started; see its message above" in sentence
    assert list(here.iterdir()) == []


@pytest.mark.skipif(bool(private_sshd.skip_reason()), reason=private_sshd.skip_reason())
def test_two_hosts_and_no_token_on_any_command_line(mpirun: list[str], here: Path, tmp_path: Path) -> None:
    (tmp_path / "sshd").mkdir()
    with private_sshd.PrivateSshd(tmp_path / "sshd") as sshd:
        agent = tmp_path / "agent"
        agent.write_text(f'#!/bin/sh\nexec {sshd.ssh} "$@"\n')
        agent.chmod(0o755)
        of_openmpi = ["--mpirun-arg=--prtemca", "--mpirun-arg=plm_ssh_agent"]
        more = [
            *(of_openmpi if "/openmpi/" in mpirun[-1] else ["--mpirun-arg=-launcher-exec"]),
            f"--mpirun-arg={agent}",
        ]
        where = ["--hosts", "node1,node2:2", "--root-address", "127.0.0.1", "--env", f"MARK={here}", *more]
        with Launching([*mpirun, *where, "--", "all_reduce", *ENDLESS], here) as running:
            running.wait_for_rows()
            ranks = engines(here)
            variables = Path(f"/proc/{ranks[0]}/environ").read_bytes().split(b"\0")
            token = next(word for word in variables if word.startswith(b"BUSBW_TOKEN=")).partition(b"=")[2]
            lines = command_lines()
            running.interrupt()
            launched = running.finish()
        wait_for_end(ranks)
    assert len(token) >= 32
    assert not any(token in line for line in lines)
    assert launched.code == 130, launched.stderr
    assert [rank["process"] for rank in launched.records[0]["ranks"]] == [0, 1, 2]
