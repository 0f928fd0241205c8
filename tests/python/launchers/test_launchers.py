"""Launchers: what they render is pure and pinned; what they submit runs for real."""

import ast
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from launch_jobs import DRY_RUNS, TARGETS

from busbw import engine
from busbw.cli.main import main
from busbw.errors import UsageError
from busbw.launchers import LAUNCHERS, Command, Job, local
from busbw.launchers.job.processes import run_all

JOB = Job(Path("/opt/bin/all_reduce_perf"), ("-t", "2", "-b", "8", "-e", "8"), Path("a run.jsonl"))


def module(name: str) -> ModuleType:
    return import_module(f"busbw.launchers.{name}")


@pytest.mark.parametrize("name", LAUNCHERS)
def test_rendering_is_pure(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    target = TARGETS.get(name, ())
    assert module(name).render(JOB, *target) == module(name).render(JOB, *target)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", LAUNCHERS)
def test_a_launcher_is_one_place(name: str) -> None:
    """One file or one folder, of which no other launcher takes anything."""
    home = Path(str(module(name).__file__))
    files = sorted(home.parent.glob("*.py")) if home.name == "__init__.py" else [home]
    taken = {
        other
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom)
        for imported in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
        for other in LAUNCHERS
        if f"{imported}.".startswith(f"busbw.launchers.{other}.")
    }
    assert taken <= {name}


@pytest.mark.parametrize("name", LAUNCHERS)
def test_the_token_is_neither_shown_nor_on_a_command_line(name: str) -> None:
    token = "feedc0de" * 8
    job = replace(JOB, records=None, nodes=2, token=token)
    plan = module(name).render(job, *TARGETS.get(name, ()))
    assert token not in plan.text()
    assert token not in repr(plan)
    assert not any(token in word for command in plan.commands for word in command.words)


SECRETS = {
    "HF_TOKEN": "hush-1",
    "NCCL_NET_AUTH": "hush-2",
    "aws_secret_access_key": "hush 3",
    "HTTPS_PROXY": "https://me:hush-4@proxy",
}


@pytest.mark.parametrize("name", LAUNCHERS)
def test_secret_variables_are_on_no_command_line_and_in_no_file_that_stays(name: str) -> None:
    job = replace(JOB, records=None, nodes=2, token="feedc0de" * 8, environment=tuple(SECRETS.items()))
    plan = module(name).render(job, *TARGETS.get(name, ()))
    assert "hush" not in repr(plan)
    assert not any("hush" in word for command in plan.commands for word in command.words)
    assert not any("hush" in file.text for file in plan.files)


@pytest.mark.parametrize("name", LAUNCHERS)
def test_a_dry_run_names_secret_variables_without_their_values(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [word for pair in SECRETS.items() for word in ("--env", "=".join(pair))]
    options = ["launch", name, "--dry-run", *DRY_RUNS[name], *words, "--env=NOTE=plain", "--", "all_reduce"]
    assert main(options) == 0
    out = capsys.readouterr().out
    assert "hush" not in out
    assert "plain" in out
    for variable in SECRETS:
        assert variable in out


def test_local_runs_the_program_itself() -> None:
    assert local.render(JOB).text() == "/opt/bin/all_reduce_perf -t 2 -b 8 -e 8 --records 'a run.jsonl'"


def test_more_processes_than_one_machine_connects_are_refused() -> None:
    job = Job("all_reduce_perf", (), processes_per_node=513)
    with pytest.raises(UsageError, match="131,328 connections; the limit is 512 processes; start fewer processes with"):
        local.render(job)


def test_local_submits_for_real(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    record = tmp_path / "run.jsonl"
    job = Job(engine.program("all_reduce_perf"), ("-t", "2", "-b", "8", "-e", "8"), record)
    assert local.submit(local.render(job)) == 0
    assert "# Collective test concluded: all_reduce_perf" in capfd.readouterr().out
    assert record.exists()


def test_the_exit_code_is_the_programs(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    job = Job(engine.program("all_reduce_perf"), ("-n", "0"), tmp_path / "run.jsonl")
    assert local.submit(local.render(job)) == 2
    assert "-n (--iters) 0" in capfd.readouterr().err


@pytest.mark.parametrize("code", [0, 1])
def test_an_interrupt_that_comes_too_late_for_the_engine_is_not_lost(tmp_path: Path, code: int) -> None:
    program = tmp_path / "deaf"
    program.write_text(f"#!/bin/sh\ntrap '' INT\nkill -INT $PPID\nsleep 0.3\nexit {code}\n")
    program.chmod(0o755)
    with pytest.raises(KeyboardInterrupt):
        run_all([Command((str(program),))])


def test_an_interrupt_that_the_engine_handles_is_its_exit_code(tmp_path: Path) -> None:
    program = tmp_path / "polite"
    program.write_text("#!/bin/sh\ntrap 'exit 130' INT\nkill -INT $PPID\nsleep 5 &\nwait\n")
    program.chmod(0o755)
    assert run_all([Command((str(program),))])[0].code == 130
