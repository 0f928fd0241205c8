"""The job that tests of launchers render, and the comparison of launch plans with golden files."""

import os
from pathlib import Path
from typing import Any

from busbw.launchers import Job, kubernetes, mpirun, ssh
from busbw.launchers.job.hosts import HostSlots
from busbw.launchers.slurm.script import SlurmTarget

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

HOSTS = (HostSlots("node1", 1), HostSlots("node2", 2))

TARGETS: dict[str, tuple[Any, ...]] = {
    "kubernetes": (kubernetes.KubernetesTarget(image="busbw:test"),),
    "mpirun": (mpirun.MpirunTarget(family="openmpi", hosts=HOSTS, store="tcp://node1:20001"),),
    "slurm": (SlurmTarget(),),
    "ssh": (ssh.SshTarget(hosts=HOSTS, root_address="node1", port=20001),),
}
"""Targets of the launchers that require one."""

DRY_RUNS = {
    "local": ["--processes", "2"],
    "ssh": ["--hosts", "node1,node2:2", "--ssh", "/nowhere/ssh"],
    "mpirun": ["--hosts", "node1,node2:2", "--mpirun", "/nowhere/mpirun"],
    "slurm": ["--nodes", "2"],
    "kubernetes": ["--nodes", "2", "--image", "registry/busbw:1"],
}
"""Options of a dry run of every launcher."""


def expect_golden(name: str, text: str) -> None:
    """Compares a text with a golden file. WRITE_GOLDEN=1 in the environment writes the file first."""
    path = GOLDEN / name
    if os.environ.get("WRITE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    assert path.exists(), f"{path} is missing; write it with WRITE_GOLDEN=1 and review it"
    assert text + "\n" == path.read_text()
    assert TOKEN not in text
