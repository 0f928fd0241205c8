"""Runs `busbw launch` as a user does, and looks at the processes that it started."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polling import HANG_GUARD_S

BUSBW = [sys.executable, "-c", "import sys; from busbw.cli.entry_point import main; sys.exit(main())"]


@dataclass(frozen=True)
class Launched:
    """Exit code and output of a finished launch."""

    code: int
    stdout: str
    stderr: str
    folder: Path

    @property
    def rows(self) -> list[list[str]]:
        """The words of each row of the table."""
        return [line.split() for line in self.stdout.splitlines() if line.strip() and not line.startswith("#")]

    @property
    def records(self) -> list[dict[str, Any]]:
        """The lines of the one record that was kept."""
        (path,) = (self.folder / "busbw-records").glob("*/records.jsonl")
        return [json.loads(line) for line in path.read_text().splitlines()]


def _heeds_signals() -> None:
    """A shell in the background would leave interrupts ignored to us."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Launching:
    """A launch that goes on."""

    def __init__(
        self, words: list[str], folder: Path, environment: dict[str, str] | None = None, command: str = "launch"
    ) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [*BUSBW, command, *map(str, words)],
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=_heeds_signals,
        )

    def __enter__(self) -> "Launching":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def finish(self) -> Launched:
        out, errors = self.process.communicate(timeout=HANG_GUARD_S)
        return Launched(self.process.returncode, out, errors, self.folder)

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def wait_for_rows(self) -> None:
        """Until records of rows have come."""
        self.wait(lambda: any('"kind":"row"' in path.read_text() for path in self.folder.rglob("records.jsonl")))

    def wait(self, condition: Callable[[], bool]) -> None:
        end_s = time.monotonic() + HANG_GUARD_S
        while not condition():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < end_s, "waited in vain"
            time.sleep(0.02)


def launch(words: list[str], folder: Path, environment: dict[str, str] | None = None) -> Launched:
    """Runs it to its end."""
    with Launching(words, folder, environment) as launching:
        return launching.finish()


def processes_with(text: str) -> list[int]:
    """The processes with a text in their environment that only ours can have."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if text.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def with_program(words: list[str], here: Path) -> list[str]:
    """Adds the folder with the engine and the `busbw` that the fixture `install` makes."""
    return [words[0], "--program-path", str(here.parent / "bin"), *words[1:]]
