"""Runs programs with the fast-path library for the tests."""

import os
import re
import signal
import subprocess
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from busbw.fastpath.table import METHODS

from .machine import Finished, Machine, Running, expect_nothing_wrong, free_port, real_library

COLLECTIVES = tuple(METHODS)
TWO_SHOT = tuple(name for name, methods in METHODS.items() if "two_shot" in methods)
"""Collectives that `two_shot` supports."""
CASES = (
    *("crossed", "abort", "destroy_order", "finalize", "capture_after_memset"),
    *("overlapping_graphs", "calls_beside_graphs", "nonblocking", "nonblocking_in_a_group"),
)
"""Cases of fastpath_stress for any mode."""
HAS_ALLTOALL = (2, 28)
PROGRAM_LIMIT_S = 240
"""Limit for fastpath_stress. It has its own watchdog, and this limit covers a failure of the watchdog."""


class FastPath:
    """The fast-path library, and programs that run with it."""

    def __init__(self, machine: Machine, library: Path) -> None:
        self.machine = machine
        self.library = library
        self._log = machine.folder / "fastpath.log"

    def environment(self, **more: str) -> dict[str, str]:
        return {"BUSBW_FASTPATH_LOG": str(self._log), **more}

    def methods(self) -> Counter[str]:
        """Number of kinds of calls in the log by method."""
        text = self._log.read_text() if self._log.exists() else ""
        return Counter(re.findall(r" ranks=\d+: (\w+)", text))

    def check(self, collective: str, *arguments: object, **more: str) -> Counter[str]:
        """Runs one of the engine's programs with the library, checks its data and returns the methods that ran."""
        library = ["--library", self.library]
        finished = self.machine.run(collective, *library, *arguments, environment=self.environment(**more))
        return self._checked(collective, finished)

    def check_processes(
        self, collective: str, environments: list[dict[str, str]], *arguments: object, **more: str
    ) -> Counter[str]:
        """The same with one process for each environment. The processes are the ranks of one job on this node."""
        count = str(len(environments))
        place = {"WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1"}
        place |= {"MASTER_PORT": str(free_port())}
        ranks: list[Running] = []
        for rank, own in enumerate(environments):
            environment = self.environment(**place, **more, RANK=str(rank), LOCAL_RANK=str(rank), **own)
            joins = ranks[0] if ranks else None
            flags = ["--library", self.library, *arguments]
            ranks.append(self.machine.start(collective, *flags, environment=environment, joins=joins))
        first, *others = [rank.finish() for rank in ranks]
        assert [other.code for other in others] == [0] * len(others), others
        return self._checked(collective, first)

    def _checked(self, collective: str, finished: Finished) -> Counter[str]:
        expect_nothing_wrong(finished, collective)
        version = tuple(map(int, finished.facts()["nccl_version"].split(".")))
        if collective == "alltoall" and version < HAS_ALLTOALL:
            pytest.skip("data are correct, but this NCCL has no ncclAlltoAll: programs send and receive instead")
        return self.methods()

    def start(
        self, command: list[object], *, limit_s: float = PROGRAM_LIMIT_S, **more: str
    ) -> "subprocess.CompletedProcess[str]":
        """Runs any program with the library loaded before its NCCL."""
        real = real_library(self.machine)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BUSBW_")}
        environment |= {"NCCL_NVLS_ENABLE": "0", "LD_PRELOAD": str(self.library)}
        environment["LD_LIBRARY_PATH"] = f"{real.parent}:{os.environ.get('LD_LIBRARY_PATH', '')}"
        words = [str(part) for part in command]
        process = subprocess.Popen(
            words,
            env=environment | self.environment(**more),
            cwd=self.machine.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            stdout, stderr = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            stdout, stderr = self._ended(process)
            raise AssertionError(f"{words} did not end in {limit_s} s:\n{stdout}\n{stderr}") from None
        finally:
            self._ended(process)
        (self.machine.folder / f"{Path(str(command[0])).name}.out").write_text(stdout + stderr)
        return subprocess.CompletedProcess(words, process.returncode, stdout, stderr)

    def expect_right(self, name: str, done: "subprocess.CompletedProcess[str]") -> None:
        """Asserts that a case succeeded and used the fast path if expected."""
        assert done.returncode == 0, done
        was_fast = self.methods()["exchange"] + self.methods()["two_shot"] > 0
        assert was_fast == (name != "nonblocking")

    @staticmethod
    def _ended(process: "subprocess.Popen[str]") -> tuple[str, str]:
        """Kills the process with its children, which would stay on the GPUs, and returns its output."""
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()
