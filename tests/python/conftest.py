"""Fixtures that several test files share: a fake engine, and a function that runs `busbw` as a user does."""

import os
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import settings
from polling import wait_until
from skips import pytest_make_collect_report, pytest_runtest_makereport  # noqa: F401  # pytest finds the hooks here

from busbw.cli.main import main

# A shell lets a background pytest ignore SIGINT, and nohup lets it ignore SIGHUP. Started programs would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Hypothesis' limit of 200 ms per example would depend on the machine's load: tests and builds run side by side.
settings.register_profile("loaded_machine", deadline=None)
settings.load_profile("loaded_machine")

ROOT = Path(__file__).resolve().parents[2]
GOLDEN_RECORD = ROOT / "tests" / "golden" / "records.jsonl"
BUSBW = [sys.executable, "-c", "import sys; from busbw.cli.main import main; sys.exit(main())"]

FAKE_ENGINE = f"""#!{sys.executable}
import os, signal, sys
from pathlib import Path
if sys.argv[1:] == ["--version"]:
    print("busbw 9.9.9\\nbackend host 9.9.9\\nrecord schema 1.0")
    sys.exit(0)
if sys.argv[1:] == ["--world"]:
    print("0 1 none")
    sys.exit(0)
if sys.argv[1:] == ["--list-devices"]:
    print(os.environ.get("FAKE_DEVICES", ""), end="")
    sys.exit(0)
Path(os.environ["FAKE_ARGUMENTS"]).write_text("\\n".join([Path(sys.argv[0]).name, *sys.argv[1:]]))
sys.stdout.buffer.write(b"# a table \\n  8  1.00 \\xff\\n")
sys.stdout.flush()
code = int(os.environ.get("FAKE_EXIT", "0"))
if code != 2:
    record = Path(sys.argv[sys.argv.index("--records") + 1])
    record.write_bytes(Path({str(GOLDEN_RECORD)!r}).read_bytes())
if code < 0:
    if -code != signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)  # a shell's background jobs ignore SIGQUIT
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


class FakeEngine:
    """A folder of fake engine programs. Each saves its arguments, prints a table and copies the golden record.

    FAKE_EXIT sets the exit code; a negative value ends the program by that signal.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._arguments_path = folder / "arguments"
        folder.mkdir()
        for name in ("busbw-engine", "all_reduce_perf", "sendrecv_perf"):
            program = folder / name
            program.write_text(FAKE_ENGINE)
            program.chmod(0o755)

    def environment(self) -> dict[str, str]:
        return {"BUSBW_PROGRAMS": str(self.folder), "FAKE_ARGUMENTS": str(self._arguments_path)}

    @property
    def was_started(self) -> bool:
        return self._arguments_path.exists()

    @property
    def arguments(self) -> list[str]:
        return self._arguments_path.read_text().split("\n")


Busbw = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def fake_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    fake = FakeEngine(tmp_path / "programs")
    for name, value in fake.environment().items():
        monkeypatch.setenv(name, value)
    return fake


@pytest.fixture(autouse=True)
def no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes the width that parallel workers of pytest set, because output is wrapped to it."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes an empty folder the current one."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("BUSBW_STORE", raising=False)
    return folder


@pytest.fixture
def busbw(here: Path) -> Busbw:
    """Returns a function that runs `busbw` in an empty folder, without a terminal.

    The process is a fork of this one, because a new Python needs most of its time for imports. It inherits caches and
    patches of this process, and runs no exit handlers. Tests for which this matters use `BUSBW`: those of imports,
    signals, temporary folders, and the start and end of Python.
    """

    def run(*arguments: str, environment: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
        with (
            tempfile.TemporaryFile("w+", errors="surrogateescape") as out,
            tempfile.TemporaryFile("w+", errors="surrogateescape") as error,
        ):
            with warnings.catch_warnings():
                # Python 3.12 warns because of the threads of pytest-xdist; this child never needs them.
                warnings.simplefilter("ignore", DeprecationWarning)
                pid = os.fork()
            if pid == 0:
                _be_busbw(arguments, environment or {}, here, out.fileno(), error.fileno())
            code = _exit_code(pid)
            out.seek(0)
            error.seek(0)
            return subprocess.CompletedProcess(["busbw", *arguments], code, out.read(), error.read())

    return run


def _be_busbw(arguments: Sequence[str], environment: Mapping[str, str], folder: Path, out: int, error: int) -> NoReturn:
    """Runs `busbw` in this forked process as a new Python does, and ends the process."""
    code = 1
    try:
        os.chdir(folder)
        os.environ.update(environment)
        for source, number in ((os.open(os.devnull, os.O_RDONLY), 0), (out, 1), (error, 2)):
            os.dup2(source, number)
        sys.stdin, sys.stdout = open(0), open(1, "w")  # noqa: SIM115
        sys.stderr = open(2, "w", buffering=1, errors="backslashreplace")  # noqa: SIM115
        sys.argv = ["-c", *arguments]
        code = main()
    except SystemExit as raised:
        code = raised.code if isinstance(raised.code, int) else int(raised.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _exit_code(pid: int) -> int:
    """Waits for the end of a child. Kills it if it hangs."""
    status: list[int] = []

    def has_ended() -> bool:
        ended, code = os.waitpid(pid, os.WNOHANG)
        status.append(code)
        return ended == pid

    try:
        wait_until(has_ended, "the end of busbw")
    except AssertionError:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    return os.waitstatus_to_exitcode(status[-1])


def one_sentence(stderr: str) -> str:
    """Returns the line of stderr. Fails if there are several lines or a traceback."""
    lines: Sequence[str] = stderr.splitlines()
    assert len(lines) == 1, stderr
    assert "Traceback" not in stderr
    return lines[0]
