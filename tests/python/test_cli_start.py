"""The start of the command: an interrupt at any time ends it quietly with 130."""

import signal
import subprocess
import sys
import time

import pytest

START = "import sys; from busbw.cli.start import main; sys.exit(main())"
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
    """The command with `--help`, after it has printed its first line."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() in ("importing\n", "up\n")
    return process


def test_an_interrupt_during_the_imports_is_quiet() -> None:
    with started(SLOW + START) as process:
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=30)
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
        stdout, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Commands" in stdout


@pytest.mark.parametrize("wait_s", [0.1, 0.2, 0.4])
def test_whenever_it_comes_there_is_no_traceback(wait_s: float) -> None:
    process = started("print('up', flush=True)\n" + START)
    with process:
        time.sleep(wait_s)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=30)
    assert process.returncode in (0, 130, -signal.SIGINT)  # the last: while Python ends
    assert "Traceback" not in stderr
