"""`busbw run`: the engine's command line, output, signals and exit codes."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import BUSBW, Busbw, FakeEngine, one_sentence
from polling import HANG_GUARD_S, is_running, wait_until

from busbw import engine, records
from busbw.cli.main import main
from busbw.collectives import COLLECTIVES

HOST_RANKS = str(sorted((2, len(os.sched_getaffinity(0)), 4))[1])
"""Ranks by default without GPUs: one per processor, from 2 to 4."""
DEFAULT_SWEEP = ["-b", "8", "-e", "64M", "-f", "2"]
SMALL = ["-b", "8", "-e", "4K", "-f", "2", "-n", "2"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], ["-t", HOST_RANKS, *DEFAULT_SWEEP]),
        (["-n", "50", "-c0"], ["-t", HOST_RANKS, *DEFAULT_SWEEP, "-n", "50", "-c0"]),
        (["-t2"], [*DEFAULT_SWEEP, "-t2"]),
        (["--nthreads=2"], [*DEFAULT_SWEEP, "--nthreads=2"]),
        (["--processes", "2"], [*DEFAULT_SWEEP, "--processes", "2"]),
        (["--backend", "host"], [*DEFAULT_SWEEP, "--backend", "host"]),
        (["--ranks", "3"], ["-t", "3", *DEFAULT_SWEEP]),
        (["-e", "1K"], ["-t", HOST_RANKS, "-b", "8", "-f", "2", "-e", "1K"]),
        (["--minbytes", "1K"], ["-t", HOST_RANKS, "-e", "64M", "-f", "2", "--minbytes", "1K"]),
        (["-i", "1M"], ["-t", HOST_RANKS, "-b", "8", "-e", "64M", "-i", "1M"]),
        (["--sizes", "1K,2K"], ["-t", HOST_RANKS, "--sizes", "1K,2K"]),
        (["-b", "-1"], ["-t", HOST_RANKS, "-e", "64M", "-f", "2", "-b", "-1"]),
        (["--frobnicate", "x"], ["-t", HOST_RANKS, *DEFAULT_SWEEP, "--frobnicate", "x"]),
    ],
)
def test_the_arguments_of_the_engine(
    fake_engine: FakeEngine, here: Path, words: list[str], expected: list[str]
) -> None:
    assert main(["run", "all_reduce", *words, "--records", "out.jsonl"]) == 0
    assert fake_engine.arguments == ["all_reduce_perf", *expected, "--records", "out.jsonl"]


def test_every_gpu_is_a_rank(fake_engine: FakeEngine, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_DEVICES", "0 0000:00:06 NVIDIA H200\n1 0000:00:07 NVIDIA H200\n")
    assert main(["run", "all_reduce", "--records", "out.jsonl"]) == 0
    assert fake_engine.arguments[:3] == ["all_reduce_perf", "-t", "2"]


def test_a_library_is_preloaded_into_the_engine_and_nowhere_else(
    fake_engine: FakeEngine, here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    (fake_engine.folder / "libx.so").write_text("nothing that could be loaded")
    assert main(["run", "all_reduce", "--preload", "libx.so", "--records", "out.jsonl"]) == 0
    assert fake_engine.arguments == ["all_reduce_perf", "-t", HOST_RANKS, *DEFAULT_SWEEP, "--records", "out.jsonl"]
    # The dynamic linker prints this for each started program, because the fake engine is a script.
    said = capfd.readouterr().err
    assert said.count(f"'{fake_engine.folder}/libx.so' from LD_PRELOAD") == 1


def test_own_options_may_stand_anywhere(fake_engine: FakeEngine, here: Path) -> None:
    assert main(["run", "--plot", "never", "--records", "a.jsonl", "sendrecv_perf", "-t", "2", "--ping-pong", "1"]) == 0
    assert fake_engine.arguments[0] == "sendrecv_perf"
    assert fake_engine.arguments[-6:] == ["-t", "2", "--ping-pong", "1", "--records", "a.jsonl"]


@pytest.mark.parametrize(
    ("words", "pieces"),
    [
        ([], ["no collective", "all_reduce"]),
        (["al_reduce"], ['"al_reduce"', "did you mean all_reduce?", "hypercube"]),
        (["-t", "2", "all_reduce"], ['"-t"', "put the collective first"]),
        (["all_reduce", "--ranks", "2", "-t", "2"], ["--ranks 2", "-t"]),
        (["all_reduce", "--ranks", "0"], ["--ranks", "0"]),
        (["all_reduce", "--rank", "2"], ["there is no option --rank; did you mean --ranks?"]),
        (["--rank", "2", "all_reduce"], ["there is no option --rank; did you mean --ranks?"]),
        (["all_reduce", "--preload", "libnone.so"], ["--preload: there is no library libnone.so"]),
        (["all_reduce", "--plot", "maybe"], ["--plot", "maybe", "always"]),
        (["all_reduce", "--records", "a", "--store", "b"], ["--records", "--store"]),
        (["all_reduce", "--records", "-"], ["--records - is not a file", "--records run.jsonl"]),
    ],
)
def test_a_usage_error_is_refused_before_anything_runs(
    fake_engine: FakeEngine, busbw: Busbw, here: Path, words: list[str], pieces: list[str]
) -> None:
    done = busbw("run", *words)
    assert done.returncode == 2
    sentence = one_sentence(done.stderr)
    assert all(piece in sentence for piece in pieces), sentence
    assert not fake_engine.was_started
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(("fake_exit", "code"), [(0, 0), (1, 1), (4, 4), (5, 5), (-9, 4), (-11, 4)])
def test_the_exit_code_is_the_engines(fake_engine: FakeEngine, busbw: Busbw, fake_exit: int, code: int) -> None:
    assert busbw("run", "all_reduce", environment={"FAKE_EXIT": str(fake_exit)}).returncode == code


@pytest.mark.parametrize("rank", ["0", "1"])
def test_one_of_several_launched_processes_is_refused(busbw: Busbw, here: Path, rank: str) -> None:
    launched = {"RANK": rank, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    done = busbw("run", "all_reduce", environment=launched)
    assert done.returncode == 2
    assert one_sentence(done.stderr) == (
        f"busbw: busbw run starts its ranks itself, but torchrun started it as process {rank} of 2; use busbw launch, "
        "or start all_reduce_perf instead"
    )
    assert list(here.iterdir()) == []


def test_contradicting_launchers_are_named(busbw: Busbw) -> None:
    done = busbw("run", "all_reduce", environment={"WORLD_SIZE": "8"})
    assert done.returncode == 2
    assert "WORLD_SIZE=8" in one_sentence(done.stderr)


def test_an_empty_record_of_a_killed_run_does_not_block_the_next(busbw: Busbw, here: Path) -> None:
    (here / "out.jsonl").touch()
    done = busbw("run", "all_reduce", "--ranks", "2", *SMALL, "--records", "out.jsonl")
    assert done.returncode == 0, done.stderr
    assert records.read(here / "out.jsonl").end
    assert busbw("run", "all_reduce", "--ranks", "2", *SMALL, "--records", "out.jsonl").returncode == 2


def test_stdout_is_the_engines_byte_for_byte(fake_engine: FakeEngine, busbw: Busbw) -> None:
    done = busbw("run", "all_reduce")
    assert done.stdout == "# a table \n  8  1.00 \udcff\n"


def test_stderr_has_the_verdict_and_the_record_but_no_picture(
    fake_engine: FakeEngine, busbw: Busbw, here: Path
) -> None:
    done = busbw("run", "all_reduce")
    verdict, speed, place = done.stderr.splitlines()
    assert verdict.startswith("Data: WRONG DATA in 1 of ")
    assert speed == "Speed: not judged: the data are wrong."
    path = here / place.removeprefix("Record: ")
    assert path.name == "records.jsonl"
    assert re.fullmatch(r"\d{8}T\d{6}Z-all_reduce", path.parent.name)
    assert path.parent.parent == here / "busbw-records"
    assert records.read(path).rows


def test_the_run_file_has_command_line_and_exit_code(fake_engine: FakeEngine, busbw: Busbw, here: Path) -> None:
    busbw("run", "all_reduce", "-n", "7", environment={"FAKE_EXIT": "5"})
    (folder,) = (here / "busbw-records").iterdir()
    run = json.loads((folder / "run.json").read_text())
    assert run["command"] == ["run", "all_reduce", "-n", "7"]
    assert run["exit_code"] == 5
    assert run["started"] <= run["ended"]
    assert sorted(path.name for path in folder.iterdir()) == ["records.jsonl", "run.json"]


def test_the_store_may_be_elsewhere(fake_engine: FakeEngine, busbw: Busbw, here: Path) -> None:
    assert busbw("run", "all_reduce", "--store", "kept").returncode == 0
    assert busbw("run", "all_reduce", environment={"BUSBW_STORE": "kept"}).returncode == 0
    assert len(list((here / "kept").glob("*/records.jsonl"))) == 2
    assert [path.name for path in here.iterdir()] == ["kept"]


@pytest.mark.parametrize(
    ("fake_exit", "pieces"),
    [
        (-9, ["killed (SIGKILL)", "memory", "smaller -e"]),
        (-11, ["crashed (SIGSEGV); run it again with NCCL_DEBUG=INFO"]),
        (-7, ["crashed (SIGBUS)", "df", "/dev/shm", "NCCL_DEBUG=INFO"]),
        (-6, ["crashed (SIGABRT)"]),
        (-3, ["ended by SIGQUIT; ", "Ctrl-\\"]),
        (-24, ["ended by SIGXCPU; ", "ulimit"]),
    ],
)
def test_a_killed_engine_is_reported(fake_engine: FakeEngine, busbw: Busbw, fake_exit: int, pieces: list[str]) -> None:
    done = busbw("run", "all_reduce", environment={"FAKE_EXIT": str(fake_exit)})
    assert done.returncode == 4
    assert all(piece in done.stderr.splitlines()[0] for piece in pieces), done.stderr


def test_a_normal_exit_is_not_reported_as_killed(fake_engine: FakeEngine, busbw: Busbw) -> None:
    assert "killed" not in busbw("run", "all_reduce", environment={"FAKE_EXIT": "4"}).stderr


def test_two_runs_in_one_second_get_two_records(fake_engine: FakeEngine, here: Path) -> None:
    for _ in range(3):
        assert main(["run", "all_reduce"]) == 0
    assert len(list((here / "busbw-records").iterdir())) == 3


def test_a_refusal_leaves_no_folder_and_shows_the_command_line(
    fake_engine: FakeEngine, busbw: Busbw, here: Path
) -> None:
    done = busbw("run", "all_reduce", "-n", "0", environment={"FAKE_EXIT": "2"})
    assert done.returncode == 2
    assert one_sentence(done.stderr) == (
        f"busbw: the command line was: all_reduce_perf -t {HOST_RANKS} -b 8 -e 64M -f 2 -n 0"
    )
    assert list(here.iterdir()) == []


def test_an_existing_record_is_not_reported(fake_engine: FakeEngine, busbw: Busbw, here: Path) -> None:
    (here / "old.jsonl").write_text("old")
    done = busbw("run", "all_reduce", "--records", "old.jsonl", environment={"FAKE_EXIT": "2"})
    assert "Verdict" not in done.stderr
    assert (here / "old.jsonl").read_text() == "old"


def test_programs_that_are_not_there_are_named(busbw: Busbw, here: Path) -> None:
    done = busbw("run", "all_reduce", environment={"BUSBW_PROGRAMS": "/nowhere"})
    assert done.returncode == 3
    sentence = one_sentence(done.stderr)
    assert "all_reduce_perf is not in /nowhere" in sentence
    assert "correct BUSBW_PROGRAMS" in sentence


def test_version_shows_all_versions(fake_engine: FakeEngine, busbw: Busbw) -> None:
    lines = busbw("--version").stdout.splitlines()
    assert lines[0].startswith("busbw ")
    assert lines[1:] == ["busbw 9.9.9", "backend host 9.9.9", "record schema 1.0"]


def test_help_names_the_options(busbw: Busbw) -> None:
    done = busbw("run", "--help")
    assert done.returncode == 0
    assert all(text in done.stdout for text in ("--ranks", "--records", "--plot", "all_reduce_perf --help"))


def test_a_command_that_does_not_exist(busbw: Busbw) -> None:
    done = busbw("rum")
    assert done.returncode == 2
    assert "rum" in one_sentence(done.stderr)


# ---- with the real engine --------------------------------------------------------------------------------------------


def test_a_real_run_is_right_and_drawn_within_80_columns(busbw: Busbw, here: Path) -> None:
    done = busbw("run", "all_reduce", "--ranks", "2", *SMALL, "--plot", "always")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("# nccl-tests version 2.19.6 ")
    lines = done.stderr.splitlines()
    assert max(map(len, lines)) <= 80
    assert "busbw (GB/s) over size" in done.stderr
    assert "8B" in done.stderr
    assert "4KiB" in done.stderr
    assert lines[-3] == "Data: correct: all 10 rows right, every bit."
    assert lines[-2] == "Speed: not judged: the host backend has no expectation."
    record = records.read(here / lines[-1].removeprefix("Record: "))
    assert len(record.rows) == 20
    assert record.end is not None
    assert record.end.exit_code == 0


def test_a_flag_that_the_engine_does_not_know(busbw: Busbw, here: Path) -> None:
    done = busbw("run", "all_reduce", "--frobnicate", "1")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "--frobnicate" in done.stderr
    assert list(here.iterdir()) == []


def test_unchecked_data_are_not_called_correct(busbw: Busbw) -> None:
    done = busbw("run", "all_reduce", "--ranks", "2", *SMALL, "-c", "0")
    assert done.returncode == 0
    assert "Data: not checked: 10 rows" in done.stderr


def test_wrong_data_are_named(busbw: Busbw) -> None:
    done = busbw("run", "all_reduce", "--ranks", "2", *SMALL, "--fault", "flip:rank=1,index=1,bit=3")
    assert done.returncode == 1
    assert "Data: WRONG DATA in " in done.stderr
    assert "rank 1" in done.stderr


@pytest.fixture
def endless(here: Path) -> "Iterator[subprocess.Popen[str]]":
    """`busbw run` without end, past its first rows."""
    arguments = ["run", "all_reduce", "--ranks", "2", *SMALL, "-N", "0", "--records", "out.jsonl"]
    with subprocess.Popen(
        [*BUSBW, *arguments], cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            wait_until(lambda: (here / "out.jsonl").exists() and '"kind":"row"' in (here / "out.jsonl").read_text())
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_ends_all_and_keeps_the_rows(
    endless: "subprocess.Popen[str]", here: Path, number: signal.Signals, code: int
) -> None:
    endless.send_signal(number)
    assert endless.stdout is not None
    assert endless.stderr is not None
    endless.stdout.read()
    stderr = endless.stderr.read()
    assert endless.wait(timeout=HANG_GUARD_S) == code
    assert "Traceback" not in stderr
    assert "Data: the run ended early (" in stderr
    record = records.read(here / "out.jsonl")
    assert record.rows
    assert record.end is not None
    assert record.end.exit_code == code
    assert not any(is_running(rank.pid) for rank in record.header.ranks)


def test_a_closed_pipe_is_no_traceback(endless: "subprocess.Popen[str]") -> None:
    assert endless.stdout is not None
    assert endless.stderr is not None
    endless.stdout.readline()
    endless.stdout.close()
    stderr = endless.stderr.read()
    assert endless.wait(timeout=HANG_GUARD_S) == 141
    assert "Traceback" not in stderr


def on_a_terminal(arguments: list[str], *, interrupt_at: str = "") -> tuple[int, str]:
    """Runs the command with a terminal of its own; returns its exit code and all that was shown."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm", COLUMNS="100", LINES="40")
        os.execv(sys.executable, [*BUSBW, *arguments])
    shown = ""
    while True:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # how Linux says that the other side has closed
            break
        if not chunk:
            break
        shown += chunk.decode(errors="replace")
        if interrupt_at and interrupt_at in shown:
            os.write(terminal, b"\x03")
            interrupt_at = ""
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown


def test_on_a_terminal_there_is_progress_a_picture_and_the_whole_table(here: Path) -> None:
    code, shown = on_a_terminal(["run", "all_reduce", "--ranks", "2", *SMALL])
    assert code == 0, shown
    assert "row 10 of 10" in shown
    assert "# Collective test concluded: all_reduce_perf" in shown
    assert shown.count(" float     sum ") == 10
    assert "busbw (GB/s) over size" in shown
    assert "Data: correct: all 10 rows right" in shown


def test_control_c_on_a_terminal(here: Path) -> None:
    code, shown = on_a_terminal(["run", "all_reduce", "--ranks", "2", *SMALL, "-N", "0"], interrupt_at="done: 4 KiB")
    assert code == 130, shown
    assert "Traceback" not in shown
    assert "Data: the run ended early (" in shown


def test_every_collective_has_its_program() -> None:
    assert all(engine.program(f"{name}_perf").is_file() for name in COLLECTIVES)
