"""`busbw find` on this machine and in a job: a fake engine measures a simulated cluster."""

import json
import os
import sys
from pathlib import Path

import click
import pytest
from find_clusters import SIMULATOR
from launch_jobs import DRY_RUNS, TOKEN, expect_golden

from busbw.cli.find import find
from busbw.cli.launch import launch
from busbw.cli.launch.output_splitter import OutputSplitter, RecordFile
from busbw.cli.main import main
from busbw.launchers import LAUNCHERS
from busbw.launchers.slurm import load_submitted
from busbw.searches.recorded_search import read_search

ENGINE = f"""#!{sys.executable}
import os, subprocess, sys
from pathlib import Path
arguments = sys.argv[1:]
answers = {{"--version": "busbw 9.9.9", "--world": "0 1 none", "--list-devices": os.environ.get("FAKE_GPUS", "")}}
if arguments[:1] != ["flows"]:
    print(answers[arguments[0]], end="")
    sys.exit(0)
here = Path(__file__).parent
(here / "arguments").write_text("\\n".join(arguments))
simulator = [sys.executable, {str(SIMULATOR)!r}, *os.environ["FAKE_CLUSTER"].split()]
if "--search" not in arguments:
    os.execv(simulator[0], simulator)
request_end, requests = os.pipe()
answers, answer_end = os.pipe()
measuring = subprocess.Popen(simulator, stdin=request_end, stdout=answer_end)
search = arguments[arguments.index("--search") + 1]
pipes = (answers, requests)
code = subprocess.call(["sh", "-c", f"exec {{search}} --connected {{answers}},{{requests}}"], pass_fds=pipes)
for pipe in (request_end, answer_end, *pipes):
    os.close(pipe)
measuring.wait()
sys.exit(code)
"""
COMMAND = f'#!/bin/sh\nexec {sys.executable} -c "import sys; from busbw.cli.main import main; sys.exit(main())" "$@"\n'
SLOW_NIC = "6x4 --fault nic:3/1:2"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: Path) -> Path:
    """Returns a folder with the fake engine and `busbw`."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name, text in (("busbw-engine", ENGINE), ("busbw", COMMAND)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("BUSBW_PROGRAMS", str(folder))
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_CLUSTER", SLOW_NIC)
    return folder


def arguments(programs: Path) -> list[str]:
    return (programs / "arguments").read_text().split("\n")


def dry_run(launcher: str, *words: str) -> list[str]:
    return ["find", launcher, "--dry-run", *DRY_RUNS[launcher], *words]


# ---- this machine ---------------------------------------------------------------------------------------------------


def test_without_a_source_the_gpus_of_this_machine_are_measured(
    programs: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FAKE_GPUS", "0 a GPU\n1 b GPU\n2 c GPU\n")
    monkeypatch.setenv("FAKE_CLUSTER", "1x4")
    assert main(["find"]) == 0
    assert capfd.readouterr().out.startswith("HEALTHY: ")
    assert arguments(programs) == ["flows", "--backend", "auto", "-t", "3"]


def test_the_user_selects_backend_and_ranks(programs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["find", "--backend", "host", "-t", "5"]) == 5
    assert capfd.readouterr().out.startswith("SLOW: NIC mlx5_1 of n3")
    assert arguments(programs) == ["flows", "--backend", "host", "-t", "5"]


def test_a_machine_without_gpus_is_named(programs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["find"]) == 3
    assert capfd.readouterr().err == (
        "busbw: this machine has no GPU that the engine can use; try --simulate 16x8 or --backend host, or search in a "
        "job: busbw find slurm -N 16\n"
    )
    assert not (programs / "arguments").exists()


# ---- a job ----------------------------------------------------------------------------------------------------------


def test_a_search_in_a_job_names_the_part(programs: Path, here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["find", "local", "--processes", "1", "--backend", "host", "--seed", "4"]) == 5
    output = capfd.readouterr()
    assert output.out.startswith("SLOW: NIC mlx5_1 of n3")
    assert output.out.rstrip().endswith("seed 4.")
    [record] = here.glob("busbw-records/*-find/records.jsonl")
    assert output.err == f"Record: {record.relative_to(here)}\n"
    kept = read_search(record)
    assert kept.end is not None
    assert (len(kept.rounds), kept.end.exit_code) == (kept.end.result["rounds"], 5)
    expected = ["flows", "--search", "busbw find --seed 4", "--backend", "host", "--records", "-"]
    assert arguments(programs) == expected


def test_files_are_written_where_the_user_is(programs: Path, here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["find", "local", "--processes", "1", "--write-hostfile", "healthy", "--junit", "out.xml"]) == 5
    assert (here / "healthy").read_text().split() == ["n0", "n1", "n2", "n4", "n5"]
    assert "NIC mlx5_1 of n3" in (here / "out.xml").read_text()
    assert "{" not in capfd.readouterr().out


def test_json_is_the_only_output(programs: Path, here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["find", "local", "--processes", "1", "--json", "--write-hostfile", "healthy"]) == 5
    [line] = capfd.readouterr().out.splitlines()
    result = json.loads(line)
    assert [(one["kind"], one["node"], one["nic"]) for one in result["findings"]] == [("nic", "n3", "mlx5_1")]
    assert result["unsuspected_nodes"] == (here / "healthy").read_text().split()


@pytest.mark.parametrize(("cluster", "code"), [("4x2", 0), ("4x1 --fault nic:2/0:2", 6), ("1x1", 3)])
def test_the_exit_code_is_that_of_the_search(
    cluster: str, code: int, programs: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FAKE_CLUSTER", cluster)
    assert main(["find", "local", "--processes", "1"]) == code
    assert "wrote" not in capfd.readouterr().err  # a warning about an incomplete record of a run


# ---- the options of all launchers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_every_launcher_starts_the_search_in_its_job(launcher: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(dry_run(launcher, "--max-rounds", "9", "--topology", "l", "--program-path", "/opt/bin", "-e", "1G")) == 0
    )
    out = " ".join(capsys.readouterr().out.replace('"', " ").split())
    assert "/opt/bin/busbw-engine" in out
    assert f"busbw find --topology {Path.cwd()}/l --max-rounds 9 --seed 0" in out
    assert "-e 1G" in out.replace(" - ", " ")


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_search_has_the_options_of_the_launcher(launcher: str) -> None:
    context = click.Context(find)
    launching, searching = launch.get_command(context, launcher), find.get_command(context, launcher)
    assert launching is not None
    assert searching is not None
    visible = {each.name for each in launching.params if isinstance(each, click.Option) and not each.hidden}
    missing = visible - {each.name for each in searching.params}
    assert missing <= {"plot_when", "steps"}


def test_the_manifest_of_a_search(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.token_hex", {3: "1a2b3c", 32: TOKEN}.__getitem__)
    assert main(["find", "kubernetes", "--dry-run", "--nodes", "2", "--gpus", "8", "--image", "registry/busbw:1"]) == 0
    expect_golden("kubernetes/search.yaml", capsys.readouterr().out.rstrip("\n"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seed", "3", "local"], "--seed is before local; put it after, or remove it"),
        (["slrm"], '"slrm" is not a command of busbw find; did you mean slurm?'),
        (["local", "--max-round", "3"], "there is no option --max-round; did you mean --max-rounds?"),
        (["local", "--env", ""], "--env is empty"),
        (["local", "--simulate", "4x8"], "--simulate is no option of find local; remove it, or the launcher"),
        (["ssh", "--hosts", "a", "--logs=b"], "--logs=b is no option of find ssh; remove it, or the launcher"),
        (["--simulate", "4x8", "--backend", "host"], "--backend and --ranks are only for this machine"),
    ],
)
def test_a_wrong_command_line_is_an_error(
    words: list[str], message: str, programs: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["find", *words]) == 2
    assert message in capfd.readouterr().err
    assert not (programs / "arguments").exists()


def test_attach_recognizes_a_search(programs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["find", "slurm", "--print-script"]) == 0
    [line] = [each for each in capsys.readouterr().out.splitlines() if '"collective"' in each]
    (tmp_path / "job.json").write_text(line[line.index("{") : line.index("}") + 1].replace("%s", "7", 1))
    assert load_submitted(tmp_path).collective == "flows"


# ---- output ---------------------------------------------------------------------------------------------------------


def test_json_without_a_kind_is_a_result_and_no_record(tmp_path: Path) -> None:
    table: list[bytes] = []
    results: list[bytes] = []
    with RecordFile(tmp_path / "out.jsonl") as records:
        splitter = OutputSplitter(records, table.append, lambda text: pytest.fail(text), results.append)
        for line in (b"SLOW: x\n", b'{"schema":"busbw-find-1"}\n', b'{"kind":"run"}\n'):
            splitter.add_line(line)
    assert (table, results) == ([b"SLOW: x\n"], [b'{"schema":"busbw-find-1"}\n'])
    assert (tmp_path / "out.jsonl").read_bytes() == b'{"kind":"run"}\n'
