"""Output files are written completely or left unchanged."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BUSBW, GOLDEN_RECORD

from busbw.cli.main import main
from busbw.cli.options.output_file import write_whole
from busbw.errors import BusbwError


def test_a_file_is_replaced_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("old")
    path.chmod(0o640)
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o640
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.csv"]


def test_a_link_stays_a_link_and_a_device_a_device(tmp_path: Path) -> None:
    target = tmp_path / "target"
    link = tmp_path / "link"
    link.symlink_to(target)
    write_whole(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    write_whole(Path(os.devnull), b"gone")
    assert Path(os.devnull).is_char_device()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        BusbwError, match=r"cannot write .*/no/out: No such file or directory; set another path with -o"
    ):
        write_whole(tmp_path / "no" / "out", b"x")


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (["export", "csv", str(GOLDEN_RECORD)], "-o"),
        (["report", str(GOLDEN_RECORD)], "-o"),
        (["topo"], "--svg"),
    ],
)
def test_the_remedy_names_the_flag_of_the_command(
    words: list[str], flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, flag, "/nowhere/out"]) == 3
    assert capsys.readouterr().err.endswith(f"set another path with {flag}\n")


@pytest.mark.parametrize("words", [["export", "csv"], ["report"]])
def test_a_full_disk_keeps_the_existing_file(tmp_path: Path, words: list[str]) -> None:
    path = tmp_path / "good"
    path.write_text("good")

    def no_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    command = [*BUSBW, *words, str(GOLDEN_RECORD), "-o", str(path)]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=no_room, env=environment)
    assert done.returncode == 3
    assert "cannot write" in done.stderr
    assert path.read_text() == "good"
    assert [entry.name for entry in tmp_path.iterdir()] == ["good"]


def test_messages_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "no\x1b]0;such\a"]) == 2
    shown = capsys.readouterr().err
    assert shown.rstrip("\n").isprintable()
    assert "no?]0;such?" in shown


def test_a_locale_without_a_character_does_not_end_a_command() -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "COLUMNS": "80"}
    done = subprocess.run([*BUSBW, "show", str(GOLDEN_RECORD)], capture_output=True, env=environment)
    assert b"Traceback" not in done.stderr
    assert b"all_reduce" in done.stdout
    assert sys.getdefaultencoding() == "utf-8"


def test_records_nested_beyond_reason_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = GOLDEN_RECORD.read_text().splitlines()[0]
    path = tmp_path / "deep.jsonl"
    path.write_text(first + '\n{"kind":"row","x":' + "[" * 100_000 + "\n")
    assert main(["check", str(path)]) == 2
    assert "deep.jsonl:2" in capsys.readouterr().err
