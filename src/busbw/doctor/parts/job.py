"""Where a process runs: in a job of Slurm, in a container, in a pod of Kubernetes."""

import re

from busbw.doctor.facts.process import Environment
from busbw.doctor.model import Machine, NotApplicable, require

_CONTAINER_FILES = (".dockerenv", "run/.containerenv")
_GPU_NODE = re.compile(r"nvidia\d+|kfd")
"""Names of device nodes of GPUs of NVIDIA, and of all GPUs of AMD."""


def variables_of_slurm_job(machine: Machine) -> dict[str, str]:
    """Returns the environment variables of a process in a job of Slurm.

    Raises:
        NotApplicable: It is in none.
        Unreadable: They cannot be read.
    """
    variables = machine.fact(Environment).variables
    require("SLURM_JOB_ID" in variables, "this process is in no job of Slurm")
    return variables


_SIZES = (
    ("SLURM_NNODES", ""),
    ("BUSBW_SIZE", "BUSBW_LOCAL_SIZE"),
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
)
"""Variables with the size of a job, and with the part of it that is on one node."""


def node_count(machine: Machine) -> int | None:
    """Returns the number of nodes of this process's job. None without a launcher that states it."""
    variables = machine.fact(Environment).variables
    for total, local in _SIZES:
        counts = variables.get(total, ""), variables.get(local, "1")
        if all(re.fullmatch(r"[1-9]\d{0,6}", count) for count in counts):
            return max(1, int(counts[0]) // int(counts[1]))
    return None


def tasks_on_node(variables: dict[str, str]) -> int:
    """Returns the number of tasks of a Slurm step on its first node. 1 if unknown."""
    tasks = variables.get("SLURM_STEP_TASKS_PER_NODE", variables.get("SLURM_TASKS_PER_NODE", ""))  # such as 8(x4),4
    match = re.match(r"\d{1,9}", tasks)
    return int(match[0]) if match else 1


def variables_of_container(machine: Machine) -> dict[str, str]:
    """Returns the environment variables of a process in a container that is not in a job of Slurm.

    Containers of Slurm share the devices of the host, and Slurm decides on the access to them.

    Raises:
        NotApplicable: It is in none.
        Unreadable: They cannot be read.
    """
    variables = machine.fact(Environment).variables
    is_container = "KUBERNETES_SERVICE_HOST" in variables or any(machine.has(path) for path in _CONTAINER_FILES)
    require(is_container and "SLURM_JOB_ID" not in variables, "no container of Docker, Podman or Kubernetes")
    return variables


def is_container_without_gpu(machine: Machine) -> bool:
    """True in a container without device nodes of GPUs, although it sees the host's GPUs in /sys and /proc.

    Raises:
        Unreadable: The environment variables or the names of device nodes cannot be read.
    """
    names = machine.names_or_empty("dev")  # absent from old captures
    if not names or any(map(_GPU_NODE.fullmatch, names)):
        return False
    try:
        variables_of_container(machine)
    except NotApplicable:
        return False
    return True
