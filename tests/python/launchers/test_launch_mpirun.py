"""Detection of mpirun's family, errors if it does not start a job, and the wrapper script around the programs."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from polling import HANG_GUARD_S, wait_until

from busbw.errors import BusbwError
from busbw.launchers import Command, LaunchCallbacks, mpirun
from busbw.launchers.job import processes

HYDRA = """HYDRA build details:
    Version:                                 5.0.2
    Release Date:                            Fri Sep 25 20:45:26 UTC 2026
    Process Manager:                         pmi
"""


@pytest.mark.parametrize(
    ("said", "family"),
    [
        ("mpirun (Open MPI) 5.0.11\n\nReport bugs to https://www.open-mpi.org/community/help/\n", "openmpi"),
        ("mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n", "openmpi"),
        ("mpirun.openmpi (OpenRTE) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n", "openmpi"),
        ("prterun (PRRTE) 3.0.13\n", "openmpi"),
        (HYDRA, "mpich"),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.11 Build 20231005 (id: 74c4a23)\n", "mpich"),
        ("mpirun: unknown option\n", None),
        ("", None),
    ],
)
def test_the_family_of_an_mpirun(said: str, family: str | None) -> None:
    assert mpirun.family_of(said) == family


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("prterun has detected an attempt to run as root.", "--allow-run-as-root"),
        ("There are not enough slots available in the system to satisfy the 6\nslots", "--oversubscribe"),
        ("something else", "see its message above"),
    ],
)
def test_remedies(said: str, remedy: str) -> None:
    assert remedy in mpirun.find_remedy(said)


def listen(lines: list[bytes], *, mpirun_code: int, has_begun: bool = True) -> tuple[int, list[bytes]]:
    heard: list[bytes] = []
    listener = mpirun.MpirunOutput(
        LaunchCallbacks(lambda _line: None, lambda: None, on_error=lambda line, _who: heard.append(line)), 2
    )
    if has_begun:
        listener.forward_line(b"# table\n")
    for line in lines:
        listener.forward_error_line(line, None)
    return listener.exit_code(mpirun_code), heard


def ended(process: int, code: int) -> bytes:
    return f"<busbw process {process} ended with {code}>\n".encode()


@pytest.mark.parametrize(
    ("lines", "mpirun_code", "code"),
    [
        ([ended(1, 0), ended(0, 0)], 0, 0),
        ([ended(1, 4), ended(0, 4)], 0, 4),
        ([ended(0, 0), ended(1, 3)], 0, 3),
        ([ended(0, 137), ended(1, 4)], 0, 4),
        ([ended(1, 137)], 1, 4),
        ([ended(1, 137), ended(0, 130)], 1, 4),
        ([ended(1, 130), ended(0, 130)], 1, 130),
        ([ended(1, 0)], 0, 4),
        ([], 0, 4),
        ([], 1, 4),
        ([], 143, 143),
        ([], 138, 130),
    ],
)
def test_the_exit_code(lines: list[bytes], mpirun_code: int, code: int) -> None:
    assert listen(lines, mpirun_code=mpirun_code)[0] == code


def test_an_interrupt_before_mpirun_handles_it() -> None:
    assert listen([], mpirun_code=128 + signal.SIGUSR1, has_begun=False)[0] == 130


def test_a_job_that_did_not_start_is_an_error_with_a_remedy() -> None:
    with pytest.raises(BusbwError, match=r"exit code 1 before any process started; .*--oversubscribe"):
        listen([b"There are not enough slots available\n"], mpirun_code=1, has_begun=False)


def test_a_job_that_started_and_ended_without_output_is_not_called_unstarted() -> None:
    with pytest.raises(BusbwError, match="exit code 1 before the job had output"):
        listen([b"<busbw process 0 started>\n"], mpirun_code=1, has_begun=False)


def test_exit_code_lines_are_removed_from_split_lines() -> None:
    lines = [b"NCCL INFO a" + ended(1, 0), b"\n", b"text\n", ended(0, 0)]
    assert listen(lines, mpirun_code=0) == (0, [b"NCCL INFO a", b"\n", b"text\n"])


def test_after_a_failure_the_others_have_a_grace_period() -> None:
    listener = mpirun.MpirunOutput(LaunchCallbacks(lambda _line: None, lambda: None), 2, now_s=lambda: clock[0])
    clock = [0.0]
    assert not listener.should_end()
    listener.forward_error_line(ended(1, 3), None)
    assert not listener.should_end()
    clock[0] = processes.GRACE_S + 0.1
    assert listener.should_end()
    assert listener.exit_code(143) == 3


def test_a_process_that_hangs_after_the_others_is_lost() -> None:
    errors: list[bytes] = []
    backlog = [True]
    callbacks = LaunchCallbacks(
        lambda _line: None,
        lambda: None,
        on_error=lambda line, _source: errors.append(line),
        is_backlogged=lambda: backlog[0],
    )
    listener = mpirun.MpirunOutput(callbacks, 2, now_s=lambda: clock[0])
    clock = [0.0]
    listener.forward_error_line(ended(0, 0), None)
    clock[0] = processes.GRACE_S + 0.1
    assert not listener.should_end()  # process 1 may wait for the reader of the output
    backlog[0] = False
    clock[0] += processes.GRACE_S + 0.1
    assert listener.should_end()
    assert errors == [b"busbw: still running more than 15 s after another process ended; terminated as lost\n"]
    listener.forward_error_line(ended(1, 143), None)
    assert listener.exit_code(143) == 4


def test_mpirun_may_end_long_after_its_processes() -> None:
    listener = mpirun.MpirunOutput(LaunchCallbacks(lambda _line: None, lambda: None), 2, now_s=lambda: clock[0])
    clock = [0.0]
    for process in (0, 1):
        listener.forward_error_line(ended(process, 0), None)
    clock[0] = 10 * processes.GRACE_S
    assert not listener.should_end()
    assert listener.exit_code(0) == 0


def test_the_start_of_the_processes_has_a_limit() -> None:
    """mpirun waits without limit for a host that does not answer."""
    clock = [0.0]
    listener = mpirun.MpirunOutput(LaunchCallbacks(lambda _line: None, lambda: None), 3, now_s=lambda: clock[0])
    assert not listener.should_end()
    listener.forward_error_line(b"<busbw process 1 started>\n", None)
    clock[0] = mpirun.START_LIMIT_S - 0.1
    assert not listener.should_end()
    clock[0] = mpirun.START_LIMIT_S + 0.1
    assert listener.should_end()
    with pytest.raises(BusbwError, match=r"mpirun has not started 2 of 3 processes in 300 s; start `hostname`"):
        listener.exit_code(143)


@pytest.mark.parametrize("lines", [[b"<busbw process 0 started>\n", b"<busbw process 1 started>\n"], None])
def test_started_processes_have_no_further_limit(lines: list[bytes] | None) -> None:
    clock = [0.0]
    listener = mpirun.MpirunOutput(LaunchCallbacks(lambda _line: None, lambda: None), 2, now_s=lambda: clock[0])
    assert not listener.should_end()
    for line in lines or []:
        listener.forward_error_line(line, None)
    if lines is None:
        listener.forward_line(b"# table\n")
    clock[0] = 100 * mpirun.START_LIMIT_S
    assert not listener.should_end()


def test_an_mpirun_that_starts_nothing_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpirun, "START_LIMIT_S", 0.2)
    hanging = mpirun.MpirunPlan((Command(("/bin/sh", "-c", "exec sleep 600")),), process_count=2)
    with pytest.raises(BusbwError, match=r"has not started 2 of 2 processes in 0\.2 s"):
        mpirun.submit(hanging, LaunchCallbacks(lambda _line: None, lambda: None))


# ---- the shell around each program ----------------------------------------------------------------------------------


def wrap(program: str, *arguments: str, rank: str = "3") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["/bin/sh", "-c", mpirun.wrapper_script([program, "no-such-program"]), "sh", *arguments],
        env={"PATH": "/usr/bin:/bin", "PMI_RANK": rank},
        capture_output=True,
        text=True,
        timeout=HANG_GUARD_S,
    )


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 4", 4), ("kill -KILL $$", 137), ("kill -SEGV $$", 139)]
)
def test_the_wrapper_succeeds_and_prints_the_exit_code(script: str, code: int) -> None:
    done = wrap("sh", "-c", f"echo out; {script}")
    assert (done.returncode, done.stdout) == (0, "out\n")
    assert f"<busbw process 3 ended with {code}>\n" in done.stderr


def test_arguments_stay_words() -> None:
    assert wrap("printf", "%s|", "a b", "$HOME", "'", "").stdout == "a b|$HOME|'||"


def test_a_missing_program(tmp_path: Path) -> None:
    done = wrap(str(tmp_path / "none"))
    assert "has no such program; install busbw there, or set --program-path" in done.stderr
    assert "<busbw process 3 ended with 3>" in done.stderr


PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
print("up", flush=True)
sys.exit(128 + signal.sigwait({signal.SIGINT}))
"""
"""Ends at an interrupt. It waits for the blocked signal, because a handler could run just before an endless sleep."""


def handles(pid: int, number: int) -> bool:
    """True if a process has a handler for a signal."""
    (caught,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigCgt:")]
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


SLOW_KILL = 'kill() { command kill "$@"; killed=$?; sleep 0.3; return $killed; }'
"""Waits within the trap, so the shell collects the program's exit code there, before it waits for it again."""


@pytest.mark.parametrize("interpreter", ["sh", "bash"])
@pytest.mark.parametrize("before", ["", SLOW_KILL], ids=["", "that-ends-within-the-trap"])
def test_a_sigusr1_to_all_of_them_is_an_interrupt_to_the_program(interpreter: str, before: str) -> None:
    """As every mpirun hands it on: to the whole process group."""
    with subprocess.Popen(
        [interpreter, "-c", f"{before}\n{mpirun.wrapper_script([sys.executable])}", "sh", "-c", PROGRAM],
        env={"PATH": "/usr/bin:/bin", "OMPI_COMM_WORLD_RANK": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "up\n"
        # The shell sets its traps while the program starts.
        wait_until(lambda: handles(process.pid, signal.SIGUSR1), "the traps")
        os.killpg(process.pid, signal.SIGUSR1)
        _, said = process.communicate(timeout=HANG_GUARD_S)
    assert (process.returncode, said) == (0, "<busbw process 0 started>\n<busbw process 0 ended with 130>\n")
