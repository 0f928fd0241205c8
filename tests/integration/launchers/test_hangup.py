"""The terminal closes during a command: it ends in order, or continues if it ignores SIGHUP."""

import fcntl
import json
import os
import signal
import subprocess
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from polling import HANG_GUARD_S, wait_until

from .launching import BUSBW

ENGINE_WORDS = ["all_reduce", "--backend", "host", "-b", "8", "-e", "64", "-f", "2", "-n", "2"]
RUN = ["run", "--ranks", "2", "--records", "r.jsonl", *ENGINE_WORDS]
LAUNCH = ["launch", "local", "--processes", "2", "--records", "r.jsonl", "--", *ENGINE_WORDS]
AB = ["ab", "--records-folder", "ab", "--max-quadruples", "12000", *ENGINE_WORDS, "-t", "2"]


@contextmanager
def on_terminal(words: list[str], folder: Path, *, ignores_hangup: bool = False) -> Iterator[Callable[[], int]]:
    """Starts a command on a terminal. Yields a function that closes the terminal and returns the exit code."""
    terminal, own_end = os.openpty()

    def take_terminal() -> None:
        os.setsid()
        fcntl.ioctl(own_end, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGHUP, signal.SIG_IGN if ignores_hangup else signal.SIG_DFL)

    process = subprocess.Popen(
        [*BUSBW, *words], cwd=folder, stdin=own_end, stdout=own_end, stderr=own_end, preexec_fn=take_terminal
    )
    os.close(own_end)
    is_closed = threading.Event()

    def drain() -> None:
        with suppress(OSError):
            while not is_closed.is_set():
                os.read(terminal, 65536)

    reader = threading.Thread(target=drain)
    reader.start()

    def hang_up() -> int:
        is_closed.set()
        reader.join()  # the next output ends its read
        os.close(terminal)
        return process.wait(HANG_GUARD_S)

    try:
        yield hang_up
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def count_rows(record: Path) -> int:
    return record.read_text().count('"kind":"row"') if record.exists() else 0


@pytest.mark.parametrize("words", [RUN, LAUNCH], ids=["run", "launch"])
def test_the_run_ends_with_a_complete_record(words: list[str], tmp_path: Path) -> None:
    with on_terminal([*words, "-N", "0"], tmp_path) as hang_up:
        wait_until(lambda: count_rows(tmp_path / "r.jsonl") > 3)
        assert hang_up() == 143
    end = json.loads((tmp_path / "r.jsonl").read_text().splitlines()[-1])
    assert (end["kind"], end["reason"], end["exit_code"]) == ("end", "terminated", 143)


@pytest.mark.parametrize("words", [RUN, LAUNCH], ids=["run", "launch"])
def test_the_run_continues_if_it_ignores_the_hangup(words: list[str], tmp_path: Path) -> None:
    with on_terminal([*words, "-N", "300"], tmp_path, ignores_hangup=True) as hang_up:
        wait_until(lambda: count_rows(tmp_path / "r.jsonl") > 3)
        assert hang_up() == 0
    assert count_rows(tmp_path / "r.jsonl") == 300 * 4 * 2
    assert json.loads((tmp_path / "r.jsonl").read_text().splitlines()[-1])["exit_code"] == 0


def test_a_comparison_keeps_its_result(tmp_path: Path) -> None:
    with on_terminal(AB, tmp_path) as hang_up:
        wait_until(lambda: any((tmp_path / "ab").glob("block-013-*")))
        assert hang_up() == 143
    assert json.loads((tmp_path / "ab" / "comparison.json").read_text())
