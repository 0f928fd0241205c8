"""Every command of the documents works as written. Those that need a GPU or a cluster are not run."""

import re
import subprocess
from pathlib import Path

import pytest
from doc_commands import (
    MARKS,
    DocCommand,
    Output,
    Shell,
    difference,
    is_failure_shown,
    is_reproducible,
    make_page_folder,
    read_commands,
    read_fences,
    shell_environment,
)
from doc_pages import PAGES, page_name
from installed import installed_in

from busbw.collectives import COLLECTIVES

_PROGRAMS = {"busbw", "busbw-engine", *(f"{collective}_perf" for collective in COLLECTIVES)}
_LAUNCH = re.compile(r"busbw launch (slurm|kubernetes|ssh|mpirun|local)\b")
WITH_COMMANDS = [page for page in PAGES if read_commands(page)]


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=page_name)
def test_the_commands_of_a_page_work(page: Path, tmp_path: Path) -> None:
    if not (installed_in() / "busbw-engine").exists():
        pytest.fail(
            f"{installed_in()} lacks busbw-engine: install busbw, or set BUSBW_PROGRAMS to the programs' folder"
        )
    folder = tmp_path / "page"
    make_page_folder(folder)
    commands = read_commands(page)
    with Shell(folder, shell_environment()) as shell:
        for index, command in enumerate(commands):
            output = shell.run(command.command)
            place = f"{page_name(page)}:{command.line}: {command.command}"
            told = is_failure_shown(commands, index)
            assert output.code == 0 or told, f"{place}: exit code {output.code}: {output.lines}"
            if command.expected:
                different = difference(command.expected, output, is_reproducible(command.command, folder))
                assert not different, f"{place}\n{different}"


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_block_says_whether_it_is_run(page: Path) -> None:
    for fence in read_fences(page):
        place = f"{page_name(page)}:{fence.line}"
        lines = fence.text.splitlines()
        assert fence.language, f"{place}: name the language of this block"
        if fence.language == "console":
            assert fence.marks == () or (len(fence.marks) == 1 and fence.marks[0] in MARKS), f"{place}: {fence.info}"
            assert lines[0].startswith("$ "), f"{place}: begin with a command"
        else:
            typed = [line for line in lines if line.startswith("$ ") or line.split(" ")[0] in _PROGRAMS]
            assert not typed or fence.language == "text", f"{place}: make it a console block: {typed}"


def launches(page: Path) -> list[str]:
    """Returns the launches of a page that need a cluster or GPUs."""
    marked = [command.command for mark in MARKS for command in read_commands(page, (mark,))]
    return [command for command in marked if _LAUNCH.search(command)]


@pytest.mark.parametrize("page", [page for page in PAGES if launches(page)], ids=page_name)
def test_launches_on_a_cluster_have_a_dry_run(page: Path, tmp_path: Path) -> None:
    """Options and their values exist, even if the cluster does not."""
    for command in launches(page):
        dry_run = _LAUNCH.sub(r"\g<0> --dry-run", command)
        done = subprocess.run(
            ["bash", "-c", dry_run], cwd=tmp_path, env=shell_environment(), capture_output=True, text=True
        )
        assert done.returncode == 0, f"{page_name(page)}: {command}: {done.stderr}"
        assert "_perf" in done.stdout


def test_the_pages_of_a_newcomer_have_commands() -> None:
    """Guards against a change of the format that would leave nothing to run."""
    names = {page_name(page) for page in WITH_COMMANDS}
    assert {"README.md", "docs/tutorials/laptop.md", "docs/tutorials/foreign-log.md"} <= names


def run(folder: Path, *commands: str) -> list[Output]:
    make_page_folder(folder)
    with Shell(folder, shell_environment()) as shell:
        return [shell.run(command) for command in commands]


def test_a_shell_keeps_folder_variables_and_exit_code(tmp_path: Path) -> None:
    outputs = run(tmp_path / "page", "cd tests; export A='1 2'", "echo $A\nbasename $PWD", "(exit 5)", "echo $?")
    assert [output.lines for output in outputs] == [(), ("1 2", "tests"), (), ("5",)]
    assert [output.code for output in outputs] == [0, 0, 5, 0]


def test_stderr_is_part_of_the_output(tmp_path: Path) -> None:
    assert run(tmp_path / "page", "echo a; echo b >&2; cat")[0].lines == ("a", "b")


@pytest.mark.parametrize(
    ("expected", "printed", "exact", "is_equal"),
    [
        (["a", "...", "d"], ["a", "b", "c", "d"], True, True),
        (["a", "...", "d"], ["a", "b", "c"], True, False),
        (["a"], ["a", "b"], True, False),
        (["  8   1.25 us", ""], ["8 7.5 us"], False, True),
        (["8 1.25 us"], ["8 7.5 us"], True, False),
        (["8 1.25 us"], ["16 1.25 us"], False, False),
        (["Pid 12 on vm device 0 [cpu] AMD"], ["Pid  9 on gpu7 device 0 [cpu] Intel Xeon"], False, True),
        (["run 20261126T134227Z-all_reduce"], ["run 20270101T000000Z-all_reduce"], False, True),
        (["GOOD"], ["SLOW"], False, False),
    ],
)
def test_an_output_is_compared(expected: list[str], printed: list[str], exact: bool, is_equal: bool) -> None:
    assert (difference(tuple(expected), Output(tuple(printed), 0), exact) == "") == is_equal


@pytest.mark.parametrize(
    ("command", "reproducible"),
    [
        ("busbw check tests/golden/seeds", True),
        ("busbw check last", False),
        ("busbw check sweep.log", False),
        ("busbw expect all_reduce --system b200", True),
        ("busbw run all_reduce", False),
        ("all_reduce_perf -t 2", False),
    ],
)
def test_figures_are_compared_if_they_cannot_vary(tmp_path: Path, command: str, reproducible: bool) -> None:
    folder = tmp_path / "page"
    make_page_folder(folder)
    (folder / "sweep.log").touch()
    assert is_reproducible(command, folder) == reproducible


def test_a_failure_must_be_shown() -> None:
    silent, code, shown = (
        DocCommand("false", ("...",), 1),
        DocCommand("echo $?", ("1",), 2),
        DocCommand("x", ("no",), 3),
    )
    assert not is_failure_shown([silent], 0)
    assert not is_failure_shown([silent, shown], 0)
    assert is_failure_shown([silent, code], 0)
    assert is_failure_shown([shown], 0)


def test_blocks_are_read(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n```console\n$ a \\\n  b\nout\n$ c\n```\n```console needs-gpu\n$ d\n```\n```text\n$ e\n```\n")
    assert read_commands(page) == [DocCommand("a \\\n  b", ("out",), 3), DocCommand("c", (), 6)]
    assert [command.command for command in read_commands(page, ("needs-gpu",))] == ["d"]
