"""The start of the command: an interrupt at any time ends it quietly with 130."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from polling import HANG_GUARD_S

START = "import sys; from busbw.cli.entry_point import main; sys.exit(main())"
# Stands for the slow imports: says that it has begun, then waits to be interrupted.
SLOW = """
import sys, time
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "busbw.cli.main":
            print("importing", flush=True)
            time.sleep(30)
sys.meta_path.insert(0, Slow())
"""


def started(code: str) -> "subprocess.Popen[str]":
    """The command with `--help`, within its imports."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "importing\n"
    return process


def test_the_module_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "busbw", "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: busbw [OPTIONS] COMMAND")


def test_an_interrupt_during_the_imports_is_quiet() -> None:
    with started(SLOW + START) as process:
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=HANG_GUARD_S)
    assert process.returncode == 130
    assert stderr == ""


def test_an_interrupt_that_is_ignored_stays_so() -> None:
    quick = SLOW.replace("time.sleep(30)", "time.sleep(0.5)")
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = started(quick + START)
    finally:
        signal.signal(signal.SIGINT, before)
    with process:
        process.send_signal(signal.SIGINT)
        stdout, _ = process.communicate(timeout=HANG_GUARD_S)
    assert process.returncode == 0
    assert "Commands" in stdout


AT_AN_IMPORT = """
import os, signal, sys
class Interrupted:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupted())
"""
BEFORE_THE_LAST_HANDLER = """
import os, signal
set_handler = signal.signal
def interrupted(number, handler):
    if handler is signal.SIG_IGN:
        os.kill(os.getpid(), signal.SIGINT)
    return set_handler(number, handler)
signal.signal = interrupted
"""
IN_A_DESTRUCTOR = """
import os, signal, sys
class Interrupted:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "busbw.cli.refs":
            Interrupted()
sys.meta_path.insert(0, Finder())
"""
AT_THE_END = "import atexit, os, signal; atexit.register(os.kill, os.getpid(), signal.SIGINT)\n"
RECORD = str(Path(__file__).parents[2] / "golden" / "records.jsonl")


@pytest.mark.parametrize(
    ("moment", "words", "code"),
    [
        (AT_AN_IMPORT.format(module="click"), ["refs", "--help"], 130),
        (AT_AN_IMPORT.format(module="busbw.cli.refs"), ["refs", "--help"], 130),
        (AT_AN_IMPORT.format(module="plotext"), ["show", RECORD], 130),
        (BEFORE_THE_LAST_HANDLER, ["refs", "--help"], 130),
        (IN_A_DESTRUCTOR, ["refs", "--help"], 130),
        (AT_THE_END, ["refs", "--help"], 0),
    ],
    ids=["imports", "command", "plot", "after-the-command-line", "destructor", "end"],
)
def test_an_interrupt_at_any_time_prints_no_traceback(moment: str, words: list[str], code: int) -> None:
    command = [sys.executable, "-c", moment + START, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_GUARD_S)
    assert (done.returncode, done.stderr) == (code, "")


SWALLOWED = """
import os, signal, sys
class Careless:
    def find_spec(self, name, path=None, target=None):
        if name == "busbw.cli.refs":
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except BaseException:
                pass
sys.meta_path.insert(0, Careless())
"""


def test_no_code_can_swallow_an_interrupt() -> None:
    """Libraries may catch every exception, so an interrupt must not be one."""
    command = [sys.executable, "-c", SWALLOWED + START, "refs", "--help"]
    assert subprocess.run(command, capture_output=True, timeout=HANG_GUARD_S).returncode == 130
