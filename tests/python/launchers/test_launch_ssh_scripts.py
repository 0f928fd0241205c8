"""Scripts that a host runs over ssh: their interrupts, and their end after a lost connection."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from polling import HANG_GUARD_S, wait_until

from busbw.launchers.ssh import scripts

PROGRAM = """#!/usr/bin/env python3
import os, signal
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _frame: os._exit(128 + number))
print("up", flush=True)
while True:
    signal.pause()
"""


@contextmanager
def running(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """Runs the script of a host with one process, which is up, and which lies in the folder to remove."""
    copy = folder / "copy"
    copy.mkdir()
    program = copy / "program"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    script = scripts.start([str(program)], [], {}, [{"BUSBW_RANK": "0"}], remove=str(copy))
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(["/bin/sh", "-c", scripts.READ_SCRIPT], text=True, **pipes) as process:  # type: ignore[call-overload]
        process.stdin.write(f"{script}token\n")
        process.stdin.flush()
        while process.stdout.readline() != "up\n":
            pass
        yield process


@pytest.mark.parametrize(("name", "code"), [("INT", 130), ("TERM", 143)])
def test_the_processes_get_the_named_signal(name: str, code: int, tmp_path: Path) -> None:
    with running(tmp_path) as process:
        assert process.stdin
        process.stdin.write(scripts.INTERRUPT.format(signal=name))
        process.stdin.flush()
        assert process.wait(HANG_GUARD_S) == code


def test_the_copy_is_removed_after_a_lost_connection(tmp_path: Path) -> None:
    with running(tmp_path) as process:
        for pipe in (process.stdout, process.stderr, process.stdin):
            assert pipe
            pipe.close()
        process.wait(HANG_GUARD_S)
        wait_until(lambda: not (tmp_path / "copy").exists())
