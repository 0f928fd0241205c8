"""Exit codes and messages for errors outside of a command."""

import os
import subprocess
from pathlib import Path

import pytest
from conftest import BUSBW, ROOT, one_sentence

from busbw.cli.main import main

SEED = ROOT / "tests" / "golden" / "seeds" / "003_e7e147d892a8e7dd.txt"
ONE_TABLE = ROOT / "tests" / "golden" / "logs" / "h200_x4_nccl_single_process.txt"
TOO_LONG = "a" * 300


@pytest.mark.parametrize("command", ["check", "import", "show", "report", "compare"])
def test_a_too_long_file_name_is_one_sentence(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, TOO_LONG]) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert "too long for a file name" in said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is full")
def test_a_full_disk_under_stdout_is_reported_on_stderr() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*BUSBW, "import", SEED, "--rows"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 3
    assert "No space left on device" in done.stderr


@pytest.mark.parametrize(
    "words", [["check", SEED], ["import", SEED], ["show", SEED], ["refs"], ["expect", "--list-systems"]]
)
def test_a_closed_stdout_is_not_wrong_data(words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*BUSBW, *words], stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(
    "words",
    [
        ["show", SEED],
        ["check", SEED, "--json"],
        ["import", SEED],
        ["compare", ONE_TABLE, ONE_TABLE],
        ["export", "csv", SEED],
        ["refs"],
        ["expect", "--list-systems"],
        ["launch", "machine-types"],
    ],
    ids=lambda words: words[0],
)
def test_output_to_a_missing_stdout_is_an_error(words: list[str]) -> None:
    shell = ["/bin/sh", "-c", 'exec "$@" >&-', "sh"]
    done = subprocess.run([*shell, *BUSBW, *words], stderr=subprocess.PIPE, text=True)
    assert done.returncode == 3
    assert one_sentence(done.stderr).startswith("busbw: cannot continue: Bad file descriptor")


@pytest.mark.usefixtures("fake_engine")
def test_a_closed_stderr_is_not_wrong_data(here: Path) -> None:
    """As under `2>&1 | head`: what is said behind the table finds nobody."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*BUSBW, "run", "all_reduce"], cwd=here, stdout=subprocess.DEVNULL, stderr=writing)
    os.close(writing)
    assert done.returncode == 141


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["chek", "x"], 'busbw: "chek" is not a command of busbw; did you mean check? busbw --help lists them'),
        (["zzz"], 'busbw: "zzz" is not a command of busbw; busbw --help lists them'),
        (
            ["launch", "slrm"],
            'busbw: "slrm" is not a command of busbw launch; did you mean slurm? busbw launch --help lists them',
        ),
    ],
)
def test_an_unknown_command(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err == f"{sentence}\n"


@pytest.mark.parametrize("wanted", ["bash_source", "bash_complete"])
def test_a_shell_that_completes_words_is_not_disturbed(wanted: str) -> None:
    asked = {"_BUSBW_COMPLETE": wanted, "COMP_WORDS": "busbw chek ", "COMP_CWORD": "2"}
    done = subprocess.run([*BUSBW], env={**os.environ, **asked}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "words",
    [
        ["launch", "local", "--dry-run", "--", b"\xff"],
        ["launch", "local", "--dry-run", "--env", b"A=\xff", "--", "all_reduce"],
        ["launch", "local", "--store", b"/tmp/\xff", "--", "all_reduce"],
        ["show", b"\xff"],
    ],
)
def test_a_word_that_is_not_utf_8_is_refused(words: list[str | bytes]) -> None:
    done = subprocess.run([*BUSBW, *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert "is not UTF-8 text" in one_sentence(done.stderr)


@pytest.mark.parametrize(
    "words",
    [
        ["show", "x" * 20_000],
        ["show", "x/" * 10_000],
        ["x" * 20_000],
        ["check", "--nics", "y" * 20_000, "log"],
        ["expect", "z" * 20_000],
        ["expect", "all_reduce", "--system", "y " * 10_000],
        ["export", "csv", "--" + "x" * 20_000],
        ["launch", "kubernetes", "--namespace", "x" * 20_000, "--image", "i", "--nodes", "2", "--", "all_reduce"],
        ["import", "x" * 20_000, "y" * 20_000],
    ],
)
def test_a_long_word_does_not_flood_the_terminal(words: list[str]) -> None:
    done = subprocess.run([*BUSBW, *words], capture_output=True, text=True)
    assert done.returncode == 2
    for line in done.stderr.splitlines():
        assert line.startswith("busbw: ")
        assert len(line) <= 2010
