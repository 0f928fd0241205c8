"""Access to the GPUs of this machine for tests: starts programs on them and keeps their tables and records."""

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

LIMIT_S = 25
"""-T of every run: the program's own watchdog ends a hang before HANG_GUARD_S."""
HANG_GUARD_S = 60.0
"""Longer than any run takes. It guards against hangs and asserts nothing about speed."""

UNCHECKED_IN_PLACE = {"alltoall", "alltoallv", "sendrecv"}
ONLY_ROOT_HAS_A_RESULT = {"reduce", "gather"}


@dataclass(frozen=True)
class Finished:
    """Result of a finished program."""

    code: int
    stdout: str
    stderr: str
    records: list[dict[str, Any]]

    def sentence(self) -> str:
        """Returns the only line on stderr."""
        lines = self.stderr.splitlines()
        assert len(lines) == 1, self
        return lines[0]

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [record for record in self.records if record["kind"] == kind]

    def rows(self) -> list[dict[str, Any]]:
        return self.of_kind("row")

    def facts(self) -> dict[str, Any]:
        (run,) = self.of_kind("run")
        return dict(run["machine"])


class Running:
    """A running program, in a separate process group."""

    def __init__(self, process: "subprocess.Popen[str]", record: Path) -> None:
        self.process = process
        self.record = record

    def finish(self, within_s: float = HANG_GUARD_S) -> Finished:
        try:
            stdout, stderr = self.process.communicate(timeout=within_s)
        except subprocess.TimeoutExpired as late:
            self.kill()
            said = [text.decode() if isinstance(text, bytes) else text or "" for text in (late.stdout, late.stderr)]
            command = " ".join(map(str, self.process.args)) if isinstance(self.process.args, list) else ""
            raise AssertionError(f"{command} hung for {within_s} s; it had printed:\n{''.join(said)}") from None
        self.record.with_suffix(".out").write_text(stdout)
        self.record.with_suffix(".err").write_text(stderr)
        lines = self.record.read_text().splitlines() if self.record.exists() else []
        return Finished(self.process.returncode, stdout, stderr, [json.loads(line) for line in lines])

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def wait_for_rows(self, count: int) -> list[dict[str, Any]]:
        """Waits for `count` rows and returns the records."""
        deadline = time.monotonic() + HANG_GUARD_S
        while time.monotonic() < deadline:
            text = self.record.read_text() if self.record.exists() else ""
            if text.count('"kind":"row"') >= count:
                return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.02)
        raise AssertionError(f"there were never {count} rows in {self.record}")


def free_port() -> int:
    """Returns a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Machine:
    """A machine with `count` GPUs. With the backend "host", host ranks replace them, to try out the tests."""

    def __init__(self, programs: Path, folder: Path, count: int, backend: str) -> None:
        self.programs = programs
        self.folder = folder
        self.count = count
        self.on_gpus = backend == "nccl"
        self.shares_gpu = False
        self.backend = backend
        self._started: list[Running] = []

    def ranks(self, way: str) -> list[object]:
        """Returns flags for one rank on each GPU: grouped ("g"), threads ("t"), processes, or both ("tg").

        Only processes can share a GPU.
        """
        if self.shares_gpu and way != "processes":
            pytest.skip("this test needs two GPUs")
        if not self.on_gpus and "g" in way:
            return ["-t", self.count]
        if way == "tg":
            return ["-t", 2, "-g", self.count // 2]
        return [{"g": "-g", "t": "-t", "processes": "--processes"}[way], self.count]

    def start(
        self,
        collective: str,
        *arguments: object,
        environment: dict[str, str] | None = None,
        joins: Running | None = None,
    ) -> Running:
        """Starts a program. `joins`: start it as another process of that job, with the same command line."""
        record = joins.record if joins else self.folder / f"{len(self._started):03d}-{collective}.jsonl"
        limit = [] if "-T" in arguments else ["-T", LIMIT_S]
        process = subprocess.Popen(
            [
                str(self.programs / f"{collective}_perf"),
                *map(str, [*arguments, *limit]),
                *["--backend", self.backend, "--records", str(record)],
            ],
            cwd=self.folder,
            env={**self.environment(), **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        running = Running(process, record)
        self._started.append(running)
        return running

    def run(self, collective: str, *arguments: object, environment: dict[str, str] | None = None) -> Finished:
        return self.start(collective, *arguments, environment=environment).finish()

    def share_gpu(self, ranks: int) -> None:
        """Replaces the ranks of several GPUs by processes that share the only GPU."""
        self.count = ranks
        self.shares_gpu = True

    def note(self, outcome: str) -> None:
        """Records next to the test's other files which of several correct outcomes occurred."""
        (self.folder / "outcome.txt").write_text(f"{outcome}\n")

    def stop_all(self) -> None:
        for running in self._started:
            running.kill()

    @staticmethod
    def environment() -> dict[str, str]:
        """NVLink multicast is off by default, because a fault in it can disable all GPUs of a host."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("NCCL_TESTS_", "BUSBW_")) or name == "BUSBW_NCCL_LIBRARY"
        }
        return {"NCCL_NVLS_ENABLE": "0", **kept}


def real_library(machine: Machine) -> Path:
    """Returns the path of the NCCL library that the programs load."""
    (run,) = machine.run("all_reduce", "-t", 1, "-b", 8, "-e", 8, "-n", 1).of_kind("run")
    return Path(run["ranks"][0]["library"]["path"])


def built_file(machine: Machine, name: str) -> Path:
    """Returns a file that is built with the tests into the folder of the programs. No wheel contains it."""
    found = machine.programs / name
    if not found.exists():
        pytest.skip(f"this test needs {name} in the folder of the programs")
    return found


def device_lines(programs: Path) -> Iterator[str]:
    """Yields one line for each GPU."""
    listed = subprocess.run(
        [str(programs / "busbw-engine"), "--list-devices"], capture_output=True, text=True, timeout=HANG_GUARD_S
    )
    assert listed.returncode == 0, listed
    yield from (line for line in listed.stdout.splitlines() if re.match(r"\d+ ", line) and "[cpu]" not in line)


def expect_nothing_wrong(finished: Finished, collective: str) -> None:
    """Asserts exit code 0 and that every placement with a defined result was checked."""
    assert (finished.code, finished.stderr) == (0, ""), finished
    assert re.search(r"^# Out of bounds values : 0 OK$", finished.stdout, flags=re.MULTILINE), finished.stdout
    assert finished.rows()
    for row in finished.rows():
        if row["placement"] == "in_place" and collective in UNCHECKED_IN_PLACE:
            assert row["check"]["state"] == "not_applicable", row
        else:
            assert (row["check"]["state"], row["check"]["wrong_elements"]) == ("checked", 0), row
