"""The job that tests of launchers render, and the comparison of launch plans with golden files."""

import os
from pathlib import Path

from busbw.launchers import Job

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "launch"
TOKEN = "feedc0de" * 8

JOB = Job(
    "/opt/busbw/bin/all_reduce_perf",
    ("-b", "8", "-e", "64M", "-f", "2"),
    name="busbw-all-reduce-1a2b3c",
    nodes=2,
    processes_per_node=2,
    environment=(("NCCL_DEBUG", "INFO"), ("NOTE", "it's $HOME")),
    token=TOKEN,
)


def expect_golden(name: str, text: str) -> None:
    """Compares a text with a golden file. WRITE_GOLDEN=1 in the environment writes the file first."""
    path = GOLDEN / name
    if os.environ.get("WRITE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    assert path.exists(), f"{path} is missing; write it with WRITE_GOLDEN=1 and review it"
    assert text + "\n" == path.read_text()
    assert TOKEN not in text
