"""Fixtures that several test files share: a fake engine, and a function that runs `busbw` as a user does."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import settings
from polling import HANG_GUARD_S
from skips import pytest_make_collect_report, pytest_runtest_makereport  # noqa: F401  # pytest finds the hooks here

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
import os, sys
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
    """Returns a function that runs `busbw` in an empty folder, without a terminal."""

    def run(*arguments: str, environment: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*BUSBW, *arguments],
            cwd=here,
            env={**os.environ, **(environment or {})},
            capture_output=True,
            text=True,
            errors="surrogateescape",
            stdin=subprocess.DEVNULL,
            timeout=HANG_GUARD_S,
        )

    return run


def one_sentence(stderr: str) -> str:
    """Returns the line of stderr. Fails if there are several lines or a traceback."""
    lines: Sequence[str] = stderr.splitlines()
    assert len(lines) == 1, stderr
    assert "Traceback" not in stderr
    return lines[0]
