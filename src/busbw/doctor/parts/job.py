"""Surroundings of this process: a job of Slurm, a container, or a pod of Kubernetes."""

import re
from collections.abc import Iterable

from busbw.doctor.facts.process import Environment
from busbw.doctor.model import Machine, NotApplicable, require

_CONTAINER_FILES = (".dockerenv", "run/.containerenv")
_NVIDIA_GPU_NODE = re.compile(r"nvidia\d+")
_AMD_GPU_NODE = "kfd"
"""Name of the one device node for all GPUs of AMD."""


def variables_of_slurm_job(machine: Machine) -> dict[str, str]:
    """Returns the environment variables of a process in a job of Slurm.

    Raises:
        NotApplicable: This process is in no job of Slurm.
        Unreadable: The variables cannot be read.
    """
    require(is_in_slurm_job(machine), "this process is in no job of Slurm")
    return machine.fact(Environment).variables


def is_in_slurm_job(machine: Machine) -> bool:
    """True if this process is in a job of Slurm.

    Raises:
        Unreadable: The environment variables cannot be read.
    """
    return "SLURM_JOB_ID" in machine.fact(Environment).variables


_SIZES = (
    ("SLURM_NNODES", ""),
    ("BUSBW_SIZE", "BUSBW_LOCAL_SIZE"),
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
)
"""Variables with the number of processes of a job, and of its processes on this node.

SLURM_NNODES already counts nodes, so it needs no second variable.
"""
_COUNT = re.compile(r"[1-9]\d{0,6}")


def node_count(machine: Machine) -> int | None:
    """Returns the number of nodes of this job. None if no launcher states its size."""
    variables = machine.fact(Environment).variables
    for total, local in _SIZES:
        total_text, local_text = variables.get(total, ""), variables.get(local, "1")
        if _COUNT.fullmatch(total_text) and _COUNT.fullmatch(local_text):
            return max(1, int(total_text) // int(local_text))
    return None


def tasks_on_node(variables: dict[str, str]) -> int:
    """Returns the number of tasks of a Slurm step on its first node. 1 if unknown."""
    tasks = variables.get("SLURM_STEP_TASKS_PER_NODE", variables.get("SLURM_TASKS_PER_NODE", ""))  # such as 8(x4),4
    match = re.match(r"\d{1,9}", tasks)
    return int(match[0]) if match else 1


def variables_of_container(machine: Machine) -> dict[str, str]:
    """Returns the environment variables of a process in a container that is not in a job of Slurm.

    Containers of Slurm share the devices of the host, and Slurm decides which devices a job may open.

    Raises:
        NotApplicable: This process is in no such container.
        Unreadable: The variables cannot be read.
    """
    require(is_in_container(machine), "no container of Docker, Podman or Kubernetes")
    require(not is_in_slurm_job(machine), "Slurm decides which devices this job may open, not the container")
    return machine.fact(Environment).variables


def is_in_container(machine: Machine) -> bool:
    """True if this process is in a container of Docker, Podman or Kubernetes, also within a job of Slurm.

    Raises:
        Unreadable: The environment variables cannot be read.
    """
    is_in_pod = "KUBERNETES_SERVICE_HOST" in machine.fact(Environment).variables
    return is_in_pod or any(machine.has(path) for path in _CONTAINER_FILES)


def nvidia_gpu_nodes(names: Iterable[str]) -> list[str]:
    """Returns the device nodes of NVIDIA GPUs among names below /dev: nvidia0, but not nvidiactl."""
    return [name for name in names if _NVIDIA_GPU_NODE.fullmatch(name)]


def is_container_without_gpu(machine: Machine) -> bool:
    """True in a container without device nodes of GPUs. /sys and /proc show the host's GPUs also in such a container.

    Raises:
        Unreadable: The environment variables or the names of device nodes cannot be read.
    """
    names = machine.names_or_empty("dev")  # absent from old captures
    if not names or nvidia_gpu_nodes(names) or _AMD_GPU_NODE in names:
        return False
    try:
        variables_of_container(machine)
    except NotApplicable:
        return False
    return True
