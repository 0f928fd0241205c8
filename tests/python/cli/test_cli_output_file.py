"""Output files are written completely or left unchanged."""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from conftest import BUSBW, GOLDEN_RECORD

from busbw.cli.main import main
from busbw.cli.options.output_file import write_whole
from busbw.errors import BusbwError
from busbw.logs.sequences import StoredSequence


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


def without_temporary_folder(*words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    def forbid_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([*BUSBW, *words], input=stdin, capture_output=True, preexec_fn=forbid_files, env=environment)


@pytest.mark.parametrize("words", [["check"], *(["export", name] for name in ("csv", "junit", "prometheus"))])
def test_a_short_log_needs_no_temporary_folder(words: list[str]) -> None:
    done = without_temporary_folder(*words, str(GOLDEN_RECORD))
    assert b"all_reduce" in done.stdout
    assert done.stderr == b""


def test_a_copy_of_standard_input_names_the_temporary_folder() -> None:
    done = without_temporary_folder("check", "-", stdin=GOLDEN_RECORD.read_bytes())
    assert done.returncode == 3
    assert done.stderr.startswith(b"busbw: cannot write a temporary file: No usable temporary directory found in")
    assert done.stderr.endswith(b"; set TMPDIR to a folder with enough space\n")


def test_an_error_of_a_long_sequence_names_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    numbers = StoredSequence(int)
    numbers.extend(range(999))
    assert list(numbers) == [*range(999)]
    with pytest.raises(BusbwError, match="cannot write a temporary file in /nowhere: No such file or directory; set"):
        numbers.extend(range(1))


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


@pytest.mark.parametrize("command", [["report"], ["export", "csv"]])
def test_an_input_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    path = tmp_path / "log.jsonl"
    content = GOLDEN_RECORD.read_bytes()
    path.write_bytes(content)
    link = tmp_path / "link"
    link.symlink_to(path)
    assert main([*command, str(path), "-o", str(link)]) == 2
    assert capsys.readouterr().err == f"busbw: {link} is an input; set another path with -o\n"
    assert path.read_bytes() == content


@pytest.mark.parametrize("command", [["check"], ["show"], ["export", "csv"]])
def test_an_empty_name_is_not_the_current_folder(capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    assert main([*command, ""]) == 2
    assert "the name of a run or log is empty" in capsys.readouterr().err
