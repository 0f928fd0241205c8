"""Runs measuring programs for the benchmarks on GPUs, ours and nccl-tests', and reads the table that both print."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

PLACEMENTS = ("out_of_place", "in_place")


class RunError(Exception):
    """A program that failed: how it was called, and what it said last."""


@dataclass(frozen=True)
class Finished:
    """A run that went well."""

    wall_s: float
    times_us: dict[tuple[int, str], list[float]]  # by size and placement: the column `time` of each cycle (-N)
    records: list[dict[str, Any]] = field(default_factory=list)


def environment() -> dict[str, str]:
    """Ours, with NVLink multicast off unless the caller has turned it on."""
    return {"NCCL_NVLS_ENABLE": "0", **os.environ}


def run(command: list[str], timeout_s: float, record: Path | None = None) -> Finished:
    """Runs one program to its end."""
    if record:
        record.unlink(missing_ok=True)
        command = [*command, "--records", str(record)]
    started = time.monotonic()
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, env=environment(), stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as late:
        raise RunError(f"{' '.join(command)} did not end in {timeout_s:.0f} s") from late
    wall_s = time.monotonic() - started
    if done.returncode != 0:
        raise RunError(f"{' '.join(command)}: exit code {done.returncode}: {(done.stderr or done.stdout)[-600:]}")
    lines = record.read_text().splitlines() if record else []
    return Finished(wall_s, times_us(done.stdout), [json.loads(line) for line in lines])


def times_us(table: str) -> dict[tuple[int, str], list[float]]:
    """The column `time` by size and placement. A blank redop, as hypercube's, makes a row one word shorter."""
    found: dict[tuple[int, str], list[float]] = {}
    for line in table.splitlines():
        words = line.split()
        if not words or not words[0].isdigit() or len(words) not in (12, 13):
            continue
        for placement, position in zip(PLACEMENTS, (-8, -4), strict=True):
            found.setdefault((int(words[0]), placement), []).append(float(words[position]))
    return found


@dataclass(frozen=True)
class Ours:
    """busbw's programs."""

    folder: Path
    backend: str = "nccl"

    def command(self, collective: str, ranks: list[str], flags: list[str]) -> list[str]:
        """The command line; `ranks` is one flag and its number."""
        if self.backend == "host":  # to try a benchmark out
            ranks = ["-t", ranks[1]]
        return [str(self.folder / f"{collective}_perf"), *ranks, *flags, "--backend", self.backend]

    def said(self, *flags: str) -> str:
        """What the engine prints of itself."""
        command = [str(self.folder / "busbw-engine"), *flags]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout

    def gpus(self) -> int:
        """How many there are. Ends the program where there is none."""
        if self.backend == "host":
            return 4
        listed = self.said("--list-devices")
        count = sum(line[:1].isdigit() and "[cpu]" not in line for line in listed.splitlines())
        if count == 0:
            print(f"there is no GPU here; --backend host tries this out. The engine says:\n{listed}", file=sys.stderr)
            sys.exit(3)
        return count


@dataclass(frozen=True)
class NcclTests:
    """nccl-tests' programs; `mpirun` where they are built with MPI."""

    folder: Path
    mpirun: tuple[str, ...] = ()

    def command(self, collective: str, ranks: list[str], flags: list[str]) -> list[str]:
        """The command line; `ranks` is one flag of ours and its number."""
        program = str(self.folder / f"{collective}_perf")
        if ranks[0] != "--processes":
            return [program, *ranks, *flags]
        if self.mpirun:
            return [*self.mpirun, "-np", ranks[1], program, "-g", "1", *flags]
        return [program, "-t", ranks[1], "-g", "1", *flags]


def without_paths(value: Any) -> Any:
    """A record with names of files in place of paths, which say nothing to others."""
    if isinstance(value, dict):
        return {name: without_paths(each) for name, each in value.items()}
    if isinstance(value, list):
        return [without_paths(each) for each in value]
    return re.sub(r"(?<![\w.])/(?:[^/\s]+/)+", "", value) if isinstance(value, str) else value


def version_text(header: dict[str, Any]) -> str:
    """Of the program that wrote a record, with the build where it is known: "0.1.0 (build 211e74be2afc)"."""
    build = header.get("busbw_build")
    return f"{header['busbw_version']}" + (f" (build {build[:12]})" if build else "")


def provenance(ours: Ours, gpus: int, folder: Path) -> dict[str, Any]:
    """Machine, versions and variables, as a record of ours has them."""
    command = ours.command("all_reduce", ["-t", str(gpus)], ["-b", "8", "-e", "8", "-n", "1"])
    (first, *_) = run(command, 120, folder / "provenance.jsonl").records
    device = first["ranks"][0]["device_name"]
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "machine": f"{gpus} x {device}",
        "busbw": version_text(first),
        "facts": without_paths(first["machine"]),
        "environment": {name: value for name, value in environment().items() if name.startswith("NCCL_")},
    }


def machine_line(facts: dict[str, Any]) -> str:
    """One line for a results page."""
    said = facts["facts"]
    parts = [facts["machine"], facts["date"], f"busbw {facts['busbw']}"]
    for name, words in (("nccl_version", "NCCL"), ("cuda_driver", "CUDA driver"), ("driver", "driver")):
        if name in said:
            parts.append(f"{words} {said[name]}")
    return ", ".join(parts + nccl_settings(facts.get("environment", {})))


def nccl_settings(environment: dict[str, str]) -> list[str]:
    """NCCL's variables that were set, as "NCCL_NVLS_ENABLE=0". NCCL_VERSION is an image's, which NCCL ignores."""
    return [
        f"{name}={value}"
        for name, value in sorted(environment.items())
        if name.startswith("NCCL_") and name != "NCCL_VERSION"
    ]


def size_text(size_bytes: int) -> str:
    """1024 as "1K"."""
    for shift, letter in ((30, "G"), (20, "M"), (10, "K")):
        if size_bytes >= 1 << shift and size_bytes % (1 << shift) == 0:
            return f"{size_bytes >> shift}{letter}"
    return str(size_bytes)
