"""`busbw launch`: the common behavior of all launchers on this machine, with a fake engine."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_lines import command_lines
from conftest import BUSBW, GOLDEN_RECORD, Busbw, one_sentence
from fake_program import TABLE, install
from launch_jobs import DRY_RUNS
from polling import HANG_GUARD_S, is_running, wait_until

from busbw.cli.main import main
from busbw.cli.outcome.summary import print_outcome
from busbw.launchers import LAUNCHERS
from busbw.launchers.machine_types.machine_type import load

SHOWN = "".join(f"{line}\n" for line in TABLE)

PATIENT = [
    sys.executable,
    "-c",
    "import sys; from busbw.cli.launch import error_lines; from busbw.cli.main import main; "
    f"error_lines._MERGE_WINDOW_S = {HANG_GUARD_S}; sys.exit(main())",
]
"""The command with a long merge window, so that a busy machine does not separate equal lines."""


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: Path) -> Path:
    """Returns the folder where each process of the fake engine records its arguments and environment."""
    folder = tmp_path / "told"
    folder.mkdir()
    monkeypatch.setenv("BUSBW_PROGRAMS", str(install(tmp_path / "programs")))
    monkeypatch.setenv("STAND_IN_FOLDER", str(folder))
    return folder


def got(told: Path, rank: int) -> dict[str, object]:
    found: dict[str, object] = json.loads((told / f"{rank}.json").read_text())
    return found


def environment(told: Path, rank: int) -> dict[str, str]:
    found = got(told, rank)["environment"]
    assert isinstance(found, dict)
    return found


# ---- a run ----------------------------------------------------------------------------------------------------------


def test_the_table_is_on_stdout_and_the_records_are_kept(told: Path, here: Path) -> None:
    words = ["launch", "local", "--processes", "3", "--", "all_reduce", "-e", "1K"]
    done = subprocess.run(
        [*PATIENT, *words], cwd=here, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=HANG_GUARD_S
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == SHOWN
    (folder,) = (here / "busbw-records").iterdir()
    assert (folder / "records.jsonl").read_bytes() == GOLDEN_RECORD.read_bytes()
    run = json.loads((folder / "run.json").read_text())
    assert run["command"] == words
    assert run["exit_code"] == 0
    # On a busy machine the status appears after two seconds.
    lines = [line for line in done.stderr.splitlines() if not line.startswith("busbw: starting")]
    here_line, verdict, speed, place = lines
    assert here_line == "[0-2] stand-in: here"
    assert verdict.startswith("Data: WRONG DATA in 1 of ")
    assert speed == "Speed: not judged: the data are wrong."
    assert place == f"Record: {folder.relative_to(here)}/records.jsonl"


def test_each_process_has_its_rank_and_the_same_token(told: Path, busbw: Busbw) -> None:
    busbw("launch", "local", "--processes", "2", "--join-timeout", "7", "--", "all_reduce")
    both = [environment(told, rank) for rank in range(2)]
    for name, values in {
        "BUSBW_RANK": ["0", "1"],
        "BUSBW_SIZE": ["2", "2"],
        "BUSBW_LOCAL_RANK": ["0", "1"],
        "BUSBW_LOCAL_SIZE": ["2", "2"],
        "BUSBW_NODE": ["0", "0"],
        "BUSBW_LAUNCHER": ["busbw", "busbw"],
        "BUSBW_JOIN_TIMEOUT_S": ["7", "7"],
    }.items():
        assert [each[name] for each in both] == values
    assert both[0]["BUSBW_RENDEZVOUS"] == both[1]["BUSBW_RENDEZVOUS"]
    assert both[0]["BUSBW_TOKEN"] == both[1]["BUSBW_TOKEN"]
    assert len(both[0]["BUSBW_TOKEN"]) >= 32


def test_the_engine_gets_the_sweep_that_was_left_open(told: Path, busbw: Busbw) -> None:
    busbw("launch", "local", "--processes", "2", "--", "all_reduce_perf", "-e", "1K", "-t", "2")
    argv = got(told, 1)["argv"]
    assert isinstance(argv, list)
    assert argv[1:] == ["-b", "8", "-f", "2", "-e", "1K", "-t", "2", "--records", "-"]


def test_variables_go_to_every_process(told: Path, busbw: Busbw) -> None:
    busbw("launch", "local", "--processes", "2", "--env", "NCCL_DEBUG=INFO", "--env", "NOTE=a b='c'", "all_reduce")
    assert [environment(told, rank)["NCCL_DEBUG"] for rank in range(2)] == ["INFO", "INFO"]
    assert environment(told, 1)["NOTE"] == "a b='c'"


def test_the_command_line_is_recorded_without_secrets(told: Path, busbw: Busbw, here: Path) -> None:
    given = ["HF_TOKEN=hush", "AWS_SECRET_ACCESS_KEY=hush", "my_password=hush", "api_key=a=hush", "NOTE=TOKEN"]
    words = [word for each in given for word in ("--env", each)]
    done = busbw("launch", "local", "--processes", "1", *words, "--env=KEY=hush", "--", "all_reduce")
    assert done.returncode == 0, done.stderr
    assert environment(told, 0)["HF_TOKEN"] == "hush"
    (file,) = (here / "busbw-records").glob("*/run.json")
    assert "hush" not in file.read_text()
    command = json.loads(file.read_text())["command"]
    assert command[:6] == ["launch", "local", "--processes", "1", "--env", "HF_TOKEN=(redacted)"]
    assert "NOTE=TOKEN" in command
    assert "--env=KEY=(redacted)" in command


def test_every_job_has_its_own_token(told: Path, busbw: Busbw) -> None:
    tokens = set()
    for _ in range(2):
        busbw("launch", "local", "--processes", "2", "--", "all_reduce")
        tokens.add(environment(told, 0)["BUSBW_TOKEN"])
    assert len(tokens) == 2


def test_the_token_is_seen_nowhere(told: Path, here: Path) -> None:
    """Neither `ps`, nor the output, nor the stored files show it."""
    command = [*BUSBW, "launch", "local", "--processes", "2", "--", "all_reduce"]
    shown = {**os.environ, "STAND_IN_PAUSE_S": "0.2"}
    with subprocess.Popen(command, cwd=here, env=shown, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_until(lambda: (told / "1.json").exists())
        token = environment(told, 1)["BUSBW_TOKEN"].encode()
        shown_lines = command_lines()
        out, errors = process.communicate(timeout=HANG_GUARD_S)
    assert any(b"all_reduce_perf" in line for line in shown_lines)
    kept = [path.read_bytes() for path in here.rglob("*") if path.is_file()]
    assert len(kept) == 2
    assert not any(token in text for text in [*shown_lines, out, errors, *kept])


@pytest.mark.parametrize(
    ("codes", "code"), [({0: 4, 1: 4}, 4), ({0: 1}, 1), ({1: 3}, 3), ({0: 5, 1: 0}, 5), ({0: 2, 1: 2}, 2)]
)
def test_the_exit_code_is_the_programs(told: Path, busbw: Busbw, codes: dict[int, int], code: int) -> None:
    told_codes = {f"STAND_IN_CODE_{rank}": str(value) for rank, value in codes.items()}
    done = busbw("launch", "local", "--processes", "2", "--", "all_reduce", environment=told_codes)
    assert done.returncode == code
    assert done.stdout == SHOWN


def test_the_record_may_go_to_a_file(told: Path, busbw: Busbw, here: Path) -> None:
    done = busbw("launch", "local", "--processes", "2", "--records", "out.jsonl", "--", "all_reduce")
    assert done.returncode == 0
    assert [path.name for path in here.iterdir()] == ["out.jsonl"]
    assert (here / "out.jsonl").read_bytes() == GOLDEN_RECORD.read_bytes()
    again = busbw("launch", "local", "--processes", "2", "--records", "out.jsonl", "--", "all_reduce")
    assert again.returncode == 2
    assert "out.jsonl exists already" in one_sentence(again.stderr)


def test_one_process_is_the_program_itself(told: Path, busbw: Busbw) -> None:
    done = busbw("launch", "local", "--processes", "1", "--", "all_reduce", "-t", "2")
    assert done.stdout == SHOWN
    assert done.stderr.splitlines()[0] == "stand-in: here"
    assert "BUSBW_RANK" not in environment(told, 0)


# ---- the dry run ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", DRY_RUNS)
def test_a_dry_run_touches_nothing(kind: str, busbw: Busbw, here: Path) -> None:
    here.chmod(0o500)
    before = here.stat()
    done = busbw("launch", kind, *DRY_RUNS[kind], "--dry-run", "all_reduce", environment={"BUSBW_PROGRAMS": "/nowhere"})
    assert done.returncode == 0, done.stderr
    assert list(here.iterdir()) == []
    assert here.stat().st_mtime_ns == before.st_mtime_ns
    assert "all_reduce_perf" in done.stdout
    assert "64M" in done.stdout
    assert not re.search("[0-9a-f]{32}", done.stdout)  # a token
    assert done.stderr == ""


def test_every_launcher_has_a_dry_run() -> None:
    assert DRY_RUNS.keys() == LAUNCHERS.keys()


def test_a_dry_run_of_the_local_kind_is_a_script_that_runs_the_job(told: Path, busbw: Busbw, here: Path) -> None:
    script = busbw("launch", "local", "--processes", "1", "--env", "A=b c", "--dry-run", "--", "all_reduce").stdout
    done = subprocess.run(["sh", "-c", script], cwd=here, capture_output=True, text=True, timeout=HANG_GUARD_S)
    assert done.stdout.startswith(TABLE[0])
    assert environment(told, 0)["A"] == "b c"


def test_a_system_fills_in_what_its_nodes_need(busbw: Busbw) -> None:
    system = load("p5.48xlarge")
    name, value = next(iter(system.variables.items()))
    words = ["launch", "ssh", "--hosts", "a,b:2", "--machine-type", "p5.48xlarge", "--dry-run"]
    shown = busbw(*words, "--", "all_reduce").stdout
    assert f"export {name}={value}" in shown
    assert "BUSBW_SIZE=10" in shown  # a has a process for each of its 8 GPUs, b has the 2 that it was given
    shown = busbw(*words, "--env", f"{name}=mine", "--", "all_reduce", "-t", "8").stdout
    assert f"export {name}=mine" in shown
    assert "BUSBW_SIZE=3" in shown


# ---- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "pieces"),
    [
        (["local"], ["no collective"]),
        (["local", "--", "al_reduce"], ["did you mean all_reduce?"]),
        (["local", "--processes", "0", "--", "all_reduce"], ["--processes", "0"]),
        (["local", "--proceses", "2", "--", "all_reduce"], ["--proceses", "--processes"]),
        (["local", "all_reduce", "--processes", "2"], ["--processes", "before the collective"]),
        (["local", "all_reduce", "--dry-run"], ["--dry-run", "before the collective"]),
        (["local", "--env", "A", "--", "all_reduce"], ["--env", '"A"', "NCCL_DEBUG=INFO"]),
        (["local", "--env", "MY-TOKEN=hush", "--", "all_reduce"], ['--env "MY-TOKEN=(redacted)"', "NCCL_DEBUG=INFO"]),
        (["local", "--env", "1=2", "--", "all_reduce"], ["--env"]),
        (["local", "--env", "BUSBW_RANK=1", "--", "all_reduce"], ["BUSBW_RANK", "set by the launcher"]),
        (["local", "--machine-type", "no-such", "--", "all_reduce"], ["no-such", "p5.48xlarge"]),
        (["ssh", "--", "all_reduce"], ["no host", "--hosts"]),
        (["ssh", "--hosts", "a", "--hostfile", "b", "--", "all_reduce"], ["--hosts", "--hostfile"]),
        (["ssh", "--hostfile", "none", "--", "all_reduce"], ["--hostfile none", "No such file"]),
        (["local", "--join-timeout", "inf", "--", "all_reduce"], ["--join-timeout inf"]),
        (["local", "--join-timeout", "nan", "--", "all_reduce"], ["--join-timeout nan"]),
        (["local", "--join-timeout", "0", "--", "all_reduce"], ["--join-timeout 0"]),
        (["local", "--processes", "65537", "--dry-run", "--", "all_reduce"], ["65537 processes", "65536"]),
        (["local", "--processes", "40000", "--dry-run", "--", "all_reduce", "-t", "2"], ["80000 ranks", "65536"]),
        (["ssh", "--hosts", "a:40000,b:40000", "--dry-run", "--", "all_reduce"], ["80000 processes"]),
        (["ssh", "--hosts", "a", "--dry-run", "--root-address", "", "--", "all_reduce"], ["--root-address"]),
        (["ssh", "--hosts", "a", "--dry-run", "--root-address", "x y", "--", "all_reduce"], ["--root-address"]),
        (["ssh", "--hosts", "[]:3", "--", "all_reduce"], ["[]:3", "is not a host"]),
        (["ssh", "--hostfile", "/dev/zero", "--", "all_reduce"], ["--hostfile /dev/zero", "not a regular file"]),
        (["ssh", "--hosts", "localhost,b", "--", "all_reduce"], ["localhost", "--root-address"]),
        (["ssh", "--hosts", "a,b", "--ssh", "'", "--", "all_reduce"], ["--ssh", "quot"]),
        (["ssh", "--hosts", "a", "--ssh", "", "--", "all_reduce"], ["--ssh is empty"]),
        (["mpirun", "--hosts", "ada@a,b", "--", "all_reduce"], ["ada@a", "~/.ssh/config"]),
        (["mpirun", "--hosts", "a,b", "--mpirun", "false", "--", "all_reduce"], ["false", "--mpi-family openmpi"]),
        (
            [
                "mpirun",
                "--mpi-family",
                "openmpi",
                "--rendezvous-folder",
                "/x",
                "--port",
                "7",
                "--hosts",
                "a",
                "all_reduce",
            ],
            ["--rendezvous-folder"],
        ),
        (["mpirun", "--hosts", "a", "--rendezvous-folder", "", "--", "all_reduce"], ["--rendezvous-folder is empty"]),
        (["mpirun", "--hosts", "a", "--root-address", "", "--", "all_reduce"], ["--root-address is empty"]),
        (["mpirun", "--hosts", "a", "--root-address", "x y", "--", "all_reduce"], ["--root-address", "x y"]),
        (["slurm", "--output-folder", "", "--", "all_reduce"], ["--output-folder is empty"]),
        (["slurm", "--partition", "", "--", "all_reduce"], ["--partition is empty"]),
        (["slurm", "--slurm-arg", "", "--", "all_reduce"], ["--slurm-arg is empty"]),
        (["slurm", "--srun-arg", "--mem=0", "--srun-arg", "", "--", "all_reduce"], ["--srun-arg is empty"]),
        (["mpirun", "--hosts", "a", "--mpirun-arg", "", "--", "all_reduce"], ["--mpirun-arg is empty"]),
        (["local", "--env", "", "--", "all_reduce"], ["--env is empty"]),
        (["local", "--records", "", "--", "all_reduce"], ["--records is empty"]),
        (["local", "--program-path", "", "--", "all_reduce"], ["--program-path is empty"]),
    ],
)
def test_a_usage_error_is_refused_before_anything_runs(
    told: Path, busbw: Busbw, here: Path, words: list[str], pieces: list[str]
) -> None:
    done = busbw("launch", *words)
    assert done.returncode == 2, done.stderr
    sentence = one_sentence(done.stderr)
    assert all(piece in sentence for piece in pieces), sentence
    assert list(here.iterdir()) == []
    assert list(told.iterdir()) == []


def test_a_dry_run_without_an_mpirun_is_for_open_mpi_and_says_so(busbw: Busbw) -> None:
    words = ["launch", "mpirun", "--mpirun", "/nowhere/mpirun", "--hosts", "a:2"]
    shown = busbw(*words, "--dry-run", "all_reduce").stdout
    assert "/nowhere/mpirun --host a:2 -np 2 --map-by slot" in shown
    assert "# cannot detect the MPI of /nowhere/mpirun (No such file or directory)" in shown
    assert "set another with --mpi-family" in shown
    named = busbw(*words, "--mpi-family", "mpich", "--dry-run", "all_reduce").stdout
    assert "/nowhere/mpirun -hosts a:2 -np 2" in named
    assert "cannot detect" not in named


def test_a_missing_mpirun(told: Path, busbw: Busbw) -> None:
    done = busbw("launch", "mpirun", "--mpirun", "/nowhere/mpirun", "--hosts", "a", "--", "all_reduce")
    assert done.returncode == 3
    assert "/nowhere/mpirun" in one_sentence(done.stderr)


def test_missing_programs(busbw: Busbw, here: Path) -> None:
    nowhere = {"BUSBW_PROGRAMS": "/nowhere"}
    done = busbw("launch", "local", "--processes", "2", "--", "all_reduce", environment=nowhere)
    assert done.returncode == 3
    assert "all_reduce_perf is not in /nowhere" in one_sentence(done.stderr)
    assert list(here.iterdir()) == []


def test_a_folder_of_programs_may_be_named(told: Path, busbw: Busbw, tmp_path: Path) -> None:
    words = ["launch", "local", "--processes", "2", "--program-path", str(tmp_path / "programs"), "--", "all_reduce"]
    assert busbw(*words, environment={"BUSBW_PROGRAMS": "/nowhere"}).stdout == SHOWN


def test_every_launcher_has_a_command_with_help(busbw: Busbw) -> None:
    listed = busbw("launch", "--help").stdout
    assert all(f"  {kind} " in listed for kind in LAUNCHERS)
    for kind in LAUNCHERS:
        assert "--dry-run" in busbw("launch", kind, "--help").stdout


# ---- interrupts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_ends_all_processes_and_keeps_the_records(
    told: Path, here: Path, number: signal.Signals, code: int
) -> None:
    command = [*PATIENT, "launch", "local", "--processes", "2", "--", "all_reduce"]
    slow = {**os.environ, "STAND_IN_PAUSE_S": "600"}
    with subprocess.Popen(
        command, cwd=here, env=slow, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        wait_until(lambda: (told / "1.json").exists())
        wait_until(lambda: any(path.stat().st_size for path in here.rglob("records.jsonl")))
        process.send_signal(number)
        out, errors = process.communicate(timeout=HANG_GUARD_S)
    assert process.returncode == code
    assert out == f"{TABLE[0]}\n"
    assert f"[0-1] stand-in: signal {number:d}" in errors
    assert "Traceback" not in errors
    (record,) = here.rglob("records.jsonl")
    assert record.read_bytes() == GOLDEN_RECORD.read_bytes().splitlines(keepends=True)[0]
    assert json.loads((record.parent / "run.json").read_text())["exit_code"] == code


def test_no_process_outlives_a_launcher_that_was_killed(told: Path, here: Path) -> None:
    command = [*BUSBW, "launch", "local", "--processes", "3", "--", "all_reduce"]
    slow = {**os.environ, "STAND_IN_PAUSE_S": "600"}
    with subprocess.Popen(command, cwd=here, env=slow, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_until(lambda: all((told / f"{rank}.json").exists() for rank in range(3)))
        pids = [int(str(got(told, rank)["pid"])) for rank in range(3)]
        assert all(map(is_running, pids))
        process.kill()
        wait_until(lambda: not any(map(is_running, pids)))


def test_a_reader_that_goes_away_is_no_traceback(told: Path, here: Path) -> None:
    command = [*BUSBW, "launch", "local", "--processes", "2", "--", "all_reduce"]
    slow = {**os.environ, "STAND_IN_PAUSE_S": "0.2"}
    with subprocess.Popen(
        command, cwd=here, env=slow, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline() == f"{TABLE[0]}\n"
        process.stdout.close()
        errors = process.stderr.read()
        process.wait(HANG_GUARD_S)
    assert "busbw: " not in errors.replace("busbw: busbw-records", "")


@pytest.mark.parametrize(
    ("code", "what"),
    [
        (141, "the run ended because its output was closed"),
        (4, "the run lost a process"),
        (130, "the run was interrupted"),
        (137, "the run was killed"),
    ],
)
def test_the_verdict_names_the_cause_of_an_early_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], code: int, what: str
) -> None:
    record = tmp_path / "records.jsonl"
    record.write_bytes(b"".join(GOLDEN_RECORD.read_bytes().splitlines(keepends=True)[:-1]))
    print_outcome(code, record, plot_when="never")
    assert f"Data: {what}; until then " in capsys.readouterr().err


def test_the_table_and_the_status_share_a_terminal(told: Path, here: Path) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm", COLUMNS="100", LINES="40", STAND_IN_PAUSE_S="0.1")
        os.execv(sys.executable, [*PATIENT, "launch", "local", "--processes", "2", "--", "all_reduce"])
    shown = b""
    while True:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:
            break
        shown += chunk
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, shown
    text = shown.decode()
    assert all(line in text for line in TABLE)
    assert "[0-1] stand-in: here" in text
    assert "starting" in text
    assert '{"kind"' not in text


def test_a_launch_in_this_process(told: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "local", "--processes", "2", "--", "all_reduce"]) == 0
    assert capfd.readouterr().out == SHOWN


def program(told: Path, text: str) -> None:
    path = told.parent / "programs" / "all_reduce_perf"
    path.write_text(f"#!/bin/sh\n{text}\n")


RUN, *ROWS, END = GOLDEN_RECORD.read_text().splitlines()


@pytest.mark.parametrize(
    ("lines", "came"),
    [
        ([], "no record"),
        ([RUN, *ROWS], "1 beginning and 0 ends of a record"),
        ([*ROWS, END], "0 beginnings and 1 end of a record"),
        ([RUN, *ROWS, RUN, *ROWS, END], "2 beginnings and 1 end of a record"),
    ],
)
@pytest.mark.parametrize("command", [["launch", "local", "--processes", "1", "--"], ["run"]])
def test_a_run_without_a_complete_record_fails(
    told: Path, busbw: Busbw, here: Path, command: list[str], lines: list[str], came: str
) -> None:
    (told / "said").write_text("".join(f"{line}\n" for line in lines))
    to = '[ ! -s "$STAND_IN_FOLDER/said" ] || for path; do :; done\n[ "$path" = - ] && path=/dev/stdout'
    program(told, f'{to}\n[ ! "$path" ] || cat "$STAND_IN_FOLDER/said" >"$path"')
    done = busbw(*command, "all_reduce")
    assert done.returncode == 3, done.stderr
    assert f"busbw: the program reported success but wrote {came}; check" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_with_an_incomplete_row_fails(told: Path, busbw: Busbw, here: Path) -> None:
    cut = [RUN, ROWS[0], ROWS[1][:50], *ROWS[2:], END]
    (told / "said").write_text("".join(f"{line}\n" for line in cut))
    program(told, 'cat "$STAND_IN_FOLDER/said"')
    done = busbw("launch", "local", "--processes", "1", "--", "all_reduce")
    assert done.returncode == 3, done.stderr
    assert "an incomplete record of process 0" in done.stderr


@pytest.mark.parametrize(
    "command",
    [["launch", "local", "--processes", "1", "--"], ["launch", "local", "--processes", "2", "--"], ["run"]],
)
def test_a_crash_is_a_lost_rank(told: Path, busbw: Busbw, here: Path, command: list[str]) -> None:
    program(told, "kill -SEGV $$")
    done = busbw(*command, "all_reduce")
    assert done.returncode == 4, done.stderr
    assert "SIGSEGV" in done.stderr


@pytest.mark.parametrize("flag", ["--help", "-h", "--version", "--list-devices"])
@pytest.mark.parametrize("command", [["launch", "local", "--processes", "1", "--"], ["run"]])
def test_information_flags_leave_no_record(told: Path, busbw: Busbw, command: list[str], flag: str) -> None:
    program(told, "echo about")
    words = [*command, "all_reduce", flag] if command != ["run"] else ["run", "--", "all_reduce", flag]
    done = busbw(*words)
    assert (done.returncode, done.stdout) == (0, "about\n"), done.stderr
