"""`busbw record` without a plugin that is called: directories, variables, exit codes, and why nothing was recorded."""

import sys
from pathlib import Path

import pytest
from conftest import one_sentence

from busbw.cli.main import main
from busbw.errors import ExitCode

ENGINE = f"#!{sys.executable}\nimport os\nprint(os.environ.get('WORLD', '0 1 none'))\n"


@pytest.fixture(autouse=True)
def _programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "busbw-engine").write_text(ENGINE)
    (programs / "busbw-engine").chmod(0o755)
    (programs / "libbusbw_profiler.so").touch()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("BUSBW_PROGRAMS", str(programs))
    monkeypatch.delenv("NCCL_PROFILER_PLUGIN", raising=False)


def test_a_job_without_nccl_gets_reasons_and_a_directory_named_after_the_time(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert main(["record", "--device-times", "on", "--", "sh", "-c", "env | grep BUSBW_TRACE | sort; exit 5"]) == 5
    (directory,) = Path().iterdir()
    assert directory.name.startswith("busbw-trace-20")
    output = capfd.readouterr()
    assert output.out == f"BUSBW_TRACE_DEVICE_TIMES=on\nBUSBW_TRACE_DIRECTORY={directory.absolute()}\n"
    assert "Nothing was recorded. Possible reasons" in output.err
    assert "older than 2.23" in output.err


def test_a_plugin_of_the_user_is_replaced_with_a_warning(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCCL_PROFILER_PLUGIN", "theirs.so")
    assert main(["record", "-o", "new", "--", "sh", "-c", "echo $NCCL_PROFILER_PLUGIN"]) == 0
    output = capfd.readouterr()
    assert output.out.endswith("programs/libbusbw_profiler.so\n")
    assert "NCCL_PROFILER_PLUGIN=theirs.so is replaced" in output.err


def test_a_signal_of_the_command_is_its_exit_code() -> None:
    assert main(["record", "-o", "new", "--", "sh", "-c", "kill -KILL $$"]) == 128 + 9


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "takes either a command or --env"),
        (["--env", "--", "true"], "takes either a command or --env"),
        (["-o", "full", "--", "true"], "the directory full is not empty; name a new one"),
        (["-o", "full/file/new", "--", "true"], "cannot make the directory full/file/new: Not a directory"),
        (["-o", "new", "--", "./missing"], "cannot start ./missing: No such file or directory"),
        (["--max-size", "4K", "--", "true"], "--max-size 4096 is below 1 MiB; set at least 1M"),
    ],
)
def test_wrong_input_is_refused_with_a_remedy(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("full").mkdir()
    Path("full/file").touch()
    assert main(["record", *words]) == ExitCode.USAGE
    assert message in capsys.readouterr().err


def test_one_of_several_processes_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD", "1 4 slurm")
    assert main(["record", "--", "true"]) == ExitCode.USAGE
    assert "busbw record --env" in one_sentence(capsys.readouterr().err)


def test_a_missing_plugin_is_an_error_of_the_installation(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "programs" / "libbusbw_profiler.so").unlink()
    assert main(["record", "--", "true"]) == ExitCode.ENVIRONMENT
    assert "libbusbw_profiler.so is missing" in one_sentence(capsys.readouterr().err)
