"""Does a reader that pauses get everything in the end, and does nothing wait for it that must not?"""

import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import BUSBW
from fake_program import TABLE, install
from polling import HANG_GUARD_S, wait_until

from busbw.terminal.stdout_buffer import StdoutBuffer


@contextmanager
def piped() -> Iterator[int]:
    """The reading end of a pipe that is our stdout."""
    reading, writing = os.pipe()
    with pytest.MonkeyPatch.context() as patch, os.fdopen(writing, "w") as stream, os.fdopen(reading):
        patch.setattr(sys, "stdout", stream)
        yield reading


@pytest.mark.parametrize("is_blocking", [True, False])
def test_bytes_for_a_full_pipe_are_buffered(is_blocking: bool) -> None:
    got = bytearray()
    with piped() as reading:
        os.set_blocking(sys.stdout.fileno(), is_blocking)
        line = bytes(range(256)) * (fcntl.fcntl(reading, fcntl.F_GETPIPE_SZ) // 256 + 40)
        to_stdout = StdoutBuffer()
        to_stdout.write(line)
        assert to_stdout.has_pending
        assert to_stdout.finish(limit_s=0.1) > 0

        def read() -> None:
            while len(got) < len(line):
                got.extend(os.read(reading, 1000))

        reader = threading.Thread(target=read)
        reader.start()
        assert to_stdout.finish(limit_s=None) == 0
        reader.join(HANG_GUARD_S)
    assert got == line


def test_a_closed_pipe_is_reported_by_the_next_write() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with pytest.MonkeyPatch.context() as patch, os.fdopen(writing, "w") as stream:
        patch.setattr(sys, "stdout", stream)
        to_stdout = StdoutBuffer()
        with pytest.raises(BrokenPipeError):
            to_stdout.write(b"a row\n")
        to_stdout.flush()
        assert not to_stdout.has_pending
        assert to_stdout.finish(limit_s=None) == 0


def launched(tmp_path: Path, writing: int) -> "subprocess.Popen[str]":
    environment = {**os.environ, "BUSBW_PROGRAMS": str(install(tmp_path / "programs")), "STAND_IN_PAUSE_S": "0.1"}
    environment["STAND_IN_FOLDER"] = str(tmp_path)
    command = [*BUSBW, "launch", "local", "--processes", "2", "--", "all_reduce"]
    return subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=writing, stderr=subprocess.PIPE, text=True)


def full_pipe() -> tuple[int, int, int]:
    """A pipe without any room: its ends, and how much is in it."""
    reading, writing = os.pipe()
    size_bytes = fcntl.fcntl(reading, fcntl.F_GETPIPE_SZ)
    assert os.write(writing, b"-" * size_bytes) == size_bytes
    return reading, writing, size_bytes


def test_an_interrupt_ends_a_launch_with_an_unread_table(tmp_path: Path) -> None:
    reading, writing, _ = full_pipe()
    with launched(tmp_path, writing) as process:
        os.close(writing)
        for rank in range(2):
            wait_until((tmp_path / f"{rank}.json").exists, "a process of the stand-in")
        process.send_signal(signal.SIGINT)
        try:
            _, errors = process.communicate(timeout=HANG_GUARD_S)
        finally:
            process.kill()
    os.close(reading)
    assert process.returncode == 130
    assert "Traceback" not in errors


@pytest.mark.parametrize("is_blocking", [True, False])
def test_a_launch_waits_for_a_reader_that_pauses(tmp_path: Path, is_blocking: bool) -> None:
    reading, writing, size_bytes = full_pipe()
    os.set_blocking(writing, is_blocking)
    with launched(tmp_path, writing) as process, os.fdopen(reading, "rb") as out:
        os.close(writing)
        for rank in range(2):
            wait_until((tmp_path / f"{rank}.json").exists, "a process of the stand-in")
        assert out.read(size_bytes) == b"-" * size_bytes
        assert out.read().decode().splitlines() == TABLE
        _, errors = process.communicate(timeout=HANG_GUARD_S)
    assert process.returncode == 0, errors
