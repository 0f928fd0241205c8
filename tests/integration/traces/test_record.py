"""`busbw record` with the real plugin: a program that calls it as NCCL does, and what is left of its run."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from installed import plain_environment
from polling import HANG_GUARD_S, wait_until

from busbw.traces.format import Algorithm, Function
from busbw.traces.read import read_trace

from ..programs import Programs

BUSBW = [sys.executable, "-c", "import sys; from busbw.cli.main import main; sys.exit(main())"]

# Calls the plugin with version 4 of the interface: the first that has ranks and the last without events of calls.
JOB = """
import ctypes as c, os, pathlib, signal, sys, time
class Collective(c.Structure):
    _fields_ = [("type", c.c_uint8), ("parent", c.c_void_p), ("rank", c.c_int), ("sequence", c.c_uint64),
                ("function", c.c_char_p), ("send", c.c_void_p), ("receive", c.c_void_p), ("count", c.c_size_t),
                ("root", c.c_int), ("datatype", c.c_char_p), ("channels", c.c_uint8), ("warps", c.c_uint8),
                ("algorithm", c.c_char_p), ("protocol", c.c_char_p)]
handle = c.POINTER(c.c_void_p)
init_type = c.CFUNCTYPE(c.c_int, handle, c.POINTER(c.c_int), c.c_char_p, c.c_uint64, c.c_int, c.c_int, c.c_int,
                        c.c_void_p)
class Table(c.Structure):
    _fields_ = [("name", c.c_char_p), ("init", init_type),
                ("start", c.CFUNCTYPE(c.c_int, c.c_void_p, handle, c.POINTER(Collective))),
                ("stop", c.CFUNCTYPE(c.c_int, c.c_void_p))]
def run(rank):
    table = Table.in_dll(c.CDLL(os.environ["NCCL_PROFILER_PLUGIN"]), "ncclProfiler_v4")
    context, event, mask = c.c_void_p(), c.c_void_p(), c.c_int()
    assert table.init(context, mask, b"world", 4711, 1, 2, rank, None) == 0
    for index in range(int(sys.argv[1])):
        collective = Collective(type=2, rank=rank, function=b"AllReduce", count=1000 + index, datatype=b"ncclFloat32",
                                channels=4, algorithm=b"RING", protocol=b"LL128")
        table.start(context, event, collective)
        table.stop(event)
first = os.fork() == 0
run(0 if first else 1)
if first:
    os._exit(0)
os.wait()
pathlib.Path("ready").touch()
exec(sys.argv[2])
"""


def record_environment() -> dict[str, str]:
    """Returns the environment of `busbw record`. A build tree has the plugin next to its programs."""
    named = os.environ.get("BUSBW_PROGRAMS")
    return plain_environment() | ({"BUSBW_PROGRAMS": named} if named else {})


def run_job(programs: Programs, options: list[str], *arguments: str, **variables: str) -> "subprocess.Popen[str]":
    environment = record_environment() | variables
    return subprocess.Popen(
        [*BUSBW, "record", *options, "--", sys.executable, "-c", JOB, *arguments],
        env=environment | {"PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=programs.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_job_of_two_ranks_is_recorded_and_read(programs: Programs) -> None:
    process = run_job(programs, ["-o", "trace"], "50", "print('ended'); sys.exit(7)")
    stdout, stderr = process.communicate(timeout=HANG_GUARD_S)
    assert (process.returncode, stdout) == (7, "ended\n")
    assert stderr == "Recorded 100 operations of 2 processes.\nbusbw show trace\n"
    trace = read_trace(programs.folder / "trace")
    assert [rank.rank for rank in trace.ranks] == [0, 1]
    assert [(one.name, one.size, one.members) for one in trace.communicators] == [("world", 2, (0, 1))]
    for rank in trace.ranks:
        assert rank.operations["count"].tolist() == list(range(1000, 1050))
        assert set(rank.operations["function"]) == {Function.ALL_REDUCE}
        assert set(rank.operations["algorithm"]) == {Algorithm.RING}
        assert set(rank.operations["channels"]) == {4}
        assert rank.producer.startswith("busbw-profiler ")
        assert rank.lost_count == 0


def test_losses_and_the_size_limit_are_shown(programs: Programs) -> None:
    process = run_job(programs, ["-o", "trace", "--max-size", "1M"], "17000", "pass")
    _, stderr = process.communicate(timeout=HANG_GUARD_S)
    assert process.returncode == 0
    stored = (2**20 - 4096) // 64 - 1  # one record describes the communicator
    lost = 2 * (17000 - stored)
    assert stderr.startswith(f"Recorded {2 * stored:,} operations of 2 processes, {lost:,} lost (")


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_reaches_the_job_and_the_summary_follows(programs: Programs, name: str, code: int) -> None:
    process = run_job(programs, ["-o", "trace"], "3", "time.sleep(600)")
    wait_until(lambda: (programs.folder / "ready").exists(), "the job waits")
    process.send_signal(signal.Signals[name])
    _, stderr = process.communicate(timeout=HANG_GUARD_S)
    assert process.returncode == code
    assert "Recorded 6 operations of 2 processes" in stderr


def test_ctrl_c_ends_the_job_not_the_recorder(programs: Programs) -> None:
    process = run_job(programs, ["-o", "trace"], "3", "time.sleep(600)")
    wait_until(lambda: (programs.folder / "ready").exists(), "the job waits")
    process.send_signal(signal.SIGINT)  # ignored: a terminal sends it to the job as well
    (job,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(job), signal.SIGINT)
    _, stderr = process.communicate(timeout=HANG_GUARD_S)
    assert process.returncode == 130
    assert "Recorded 6 operations" in stderr


def test_the_variables_record_a_job_of_any_launcher(programs: Programs) -> None:
    environment = record_environment()
    printed = subprocess.run(
        [*BUSBW, "record", "--env", "-o", "a b", "--max-size", "2M", "--device-times", "off"],
        env=environment | {"PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=programs.folder,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [shlex.split(line) for line in printed.stdout.splitlines()]
    assert all(words[0] == "export" for words in lines)
    variables = dict(words[1].split("=", 1) for words in lines)
    assert variables["BUSBW_TRACE_DIRECTORY"] == str(programs.folder / "a b")
    assert Path(variables["NCCL_PROFILER_PLUGIN"]).is_file()
    assert not (programs.folder / "a b").exists()
    subprocess.run(
        [sys.executable, "-c", JOB, "5", "pass"], env=environment | variables, cwd=programs.folder, check=True
    )
    assert [len(rank.operations) for rank in read_trace(programs.folder / "a b").ranks] == [5, 5]
