"""Runs the programs of busbw and nccl-tests for the GPU benchmarks, and reads the table that both print.

The gpu_*.py scripts share this module. `ours` is always busbw.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

PLACEMENTS = ("out_of_place", "in_place")


class RunError(Exception):
    """Failure of a program. The message has its exit code and the end of its output."""


def environment() -> dict[str, str]:
    """Returns the environment, with NVLink multicast off unless the caller has set it."""
    return {"NCCL_NVLS_ENABLE": "0", **os.environ}


def run(command: list[str], timeout_s: float) -> str:
    """Runs one program to its end and returns its stdout.

    Raises:
        RunError: The program fails or exceeds the timeout.
    """
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env=environment(),
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired as timeout:
        raise RunError(f"did not end in {timeout_s:.0f} s") from timeout
    if done.returncode != 0:
        raise RunError(f"exit code {done.returncode}: {(done.stderr or done.stdout)[-600:].strip()}")
    return done.stdout


def times_us(table: str) -> dict[tuple[int, str], list[float]]:
    """Returns the column `time` of all cycles by size and placement."""
    times: dict[tuple[int, str], list[float]] = {}
    for line in table.splitlines():
        words = line.split()
        is_row = bool(words) and words[0].isdigit() and len(words) in (12, 13)  # 12 with a blank redop, as hypercube
        if not is_row:
            continue
        # Each placement ends the row with four columns: time, algbw, busbw, #wrong.
        for placement, time_position in zip(PLACEMENTS, (-8, -4), strict=True):
            times.setdefault((int(words[0]), placement), []).append(float(words[time_position]))
    return times


@dataclass(frozen=True)
class BusbwPrograms:
    """Programs of busbw in a folder."""

    folder: Path
    backend: str = "nccl"

    def command(self, collective: str, rank_flags: list[str], flags: list[str]) -> list[str]:
        """Returns the command line. `rank_flags` is the flag for the number of GPUs with its value, such as -g 4."""
        if self.backend == "host":  # for a test of the benchmark
            rank_flags = ["-t", rank_flags[1]]
        return [str(self.folder / f"{collective}_perf"), *rank_flags, *flags, "--backend", self.backend]


@dataclass(frozen=True)
class NcclTests:
    """Programs of nccl-tests in a folder."""

    folder: Path
    mpirun: tuple[str, ...] = ()  # command that starts processes, if the programs are built with MPI

    def command(self, collective: str, rank_flags: list[str], flags: list[str]) -> list[str]:
        """Returns the command line. `rank_flags` is busbw's flag for the number of GPUs with its value.

        nccl-tests has no --processes. MPI starts its processes. Without MPI, threads replace the processes.
        """
        program = str(self.folder / f"{collective}_perf")
        if rank_flags[0] != "--processes":
            return [program, *rank_flags, *flags]
        if self.mpirun:
            return [*self.mpirun, "-np", rank_flags[1], program, "-g", "1", *flags]
        return [program, "-t", rank_flags[1], "-g", "1", *flags]


_FOLDER = r"(?<![\w.])/(?:[^/\s]+/)+"
"""Pattern for the folders of an absolute path."""


def without_paths(value: Any) -> Any:
    """Replaces paths in a record by file names, because paths mean nothing on other machines."""
    if isinstance(value, dict):
        return {name: without_paths(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [without_paths(entry) for entry in value]
    return re.sub(_FOLDER, "", value) if isinstance(value, str) else value


def version_text(header: dict[str, Any]) -> str:
    """Returns version and build of the program that wrote a record: "0.1.0 (build 211e74be2afc)"."""
    build = header.get("busbw_build")
    return f"{header['busbw_version']}" + (f" (build {build[:12]})" if build else "")


def provenance(ours: BusbwPrograms, gpus: int) -> dict[str, Any]:
    """Returns machine, versions and variables from a record of busbw."""
    command = ours.command("all_reduce", ["-t", str(gpus)], ["-b", "8", "-e", "8", "-n", "1"])
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "provenance.jsonl"
        run([*command, "--records", str(record)], 120)
        header = json.loads(record.read_text().splitlines()[0])
    device = header["ranks"][0]["device_name"]
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "machine": f"{gpus} x {device}",
        "busbw": version_text(header),
        "facts": without_paths(header["machine"]),
        "environment": {name: value for name, value in environment().items() if name.startswith("NCCL_")},
    }


def machine_line(facts: dict[str, Any]) -> str:
    """Returns the title line of a results page from the result of `provenance`."""
    machine_facts = facts["facts"]
    parts = [facts["machine"], facts["date"], f"busbw {facts['busbw']}"]
    for name, title in (("nccl_version", "NCCL"), ("cuda_driver", "CUDA driver"), ("driver", "driver")):
        if name in machine_facts:
            parts.append(f"{title} {machine_facts[name]}")
    return ", ".join(parts + nccl_settings(facts.get("environment", {})))


def nccl_settings(environment: dict[str, str]) -> list[str]:
    """Returns NCCL's variables as "NCCL_NVLS_ENABLE=0", without NCCL_VERSION, which only container images set."""
    return [
        f"{name}={value}"
        for name, value in sorted(environment.items())
        if name.startswith("NCCL_") and name != "NCCL_VERSION"
    ]


def size_text(size_bytes: int) -> str:
    """Formats a size: 1024 as "1K"."""
    for shift, letter in ((30, "G"), (20, "M"), (10, "K")):
        if size_bytes >= 1 << shift and size_bytes % (1 << shift) == 0:
            return f"{size_bytes >> shift}{letter}"
    return str(size_bytes)
