"""Standard streams that are closed, full or not read: no data lands where it does not belong, and nothing hangs."""

import os
import signal
import subprocess

import pytest
from polling import HANG_GUARD_S

from .programs import Programs, of_kind, read_records

SMALL = "-t 2 -b 8 -e 64 -f 2 -n 2"


def shell(programs: Programs, line: str) -> "subprocess.CompletedProcess[str]":
    """Runs a shell line in the test's folder with the programs on the path."""
    environment = {**os.environ, "PATH": f"{programs.installed_in}:{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", "-c", line],
        cwd=programs.folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANG_GUARD_S,
        check=False,
    )


def test_a_closed_stdout_does_not_put_the_table_into_the_records(programs: Programs) -> None:
    done = shell(programs, f"all_reduce_perf {SMALL} --records r.jsonl >&-")
    assert done.returncode == 3
    assert "cannot write to standard output" in done.stderr
    records = read_records(programs.folder / "r.jsonl")
    assert records[0]["kind"] == "run"
    assert of_kind(records, "end")


@pytest.mark.parametrize("flag", ["--help", "--version", "--world"])
@pytest.mark.parametrize("where", [">&-", ">/dev/full"])
def test_information_that_cannot_be_written_is_an_error(programs: Programs, flag: str, where: str) -> None:
    done = shell(programs, f"all_reduce_perf {flag} {where}")
    assert done.returncode == 3
    assert "cannot write to standard output" in done.stderr


@pytest.mark.parametrize("where", ["2>&-", "2>/dev/full"])
def test_a_full_stderr_does_not_change_the_exit_code(programs: Programs, where: str) -> None:
    assert shell(programs, f"all_reduce_perf -b 1Q {where}").returncode == 2


def test_a_thread_that_cannot_start_is_one_sentence(programs: Programs) -> None:
    done = shell(programs, "ulimit -v 400000; all_reduce_perf -t 512 -b 8 -e 8 -n 1")
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1
    assert "terminate" not in done.stderr


def test_an_interrupt_ends_a_run_without_a_reader(programs: Programs) -> None:
    running = programs.start("all_reduce", "-t", 2, "-b", 8, "-e", 8, "-n", 1, "-N", 0, "--records", "out.jsonl")
    record = running.records_path()
    sizes = [-1, 0]
    # The pipe is full once the records stop growing.
    while sizes[-1] < 200_000 or sizes[-1] != sizes[-2]:
        signal.sigtimedwait([], 0.3)
        sizes.append(record.stat().st_size if record.exists() else 0)
    running.interrupt_group()
    assert running.process.wait(timeout=HANG_GUARD_S) == 130
    assert of_kind(read_records(record), "end")


def test_a_matrix_that_is_not_a_file_is_refused(programs: Programs) -> None:
    for path, reason in (("absent", "no such file"), ("/dev/zero", "not a regular file"), (".", "not a regular file")):
        finished = programs.run("alltoallv", "-b", 64, "-e", 64, environment={"NCCL_TESTS_ALLTOALLV_MATRIX_FILE": path})
        assert finished.code == 2
        assert reason in finished.stderr


def test_the_engine_wants_a_collective_first(programs: Programs) -> None:
    done = shell(programs, "busbw-engine -b 8 -e 8")
    assert done.returncode == 2
    assert "no collective before the options" in done.stderr


def test_timeout_zero_means_no_limit(programs: Programs) -> None:
    assert shell(programs, f"all_reduce_perf {SMALL} -T 0").returncode == 0
