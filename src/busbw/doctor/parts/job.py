"""Surroundings of this process: the kind of machine, a job of Slurm, a container, or a pod of Kubernetes."""

import re
from collections.abc import Iterable

from busbw.doctor.facts.process import Environment
from busbw.doctor.model import Machine, NotApplicable, Unreadable, require

_CLOCKSOURCE = "sys/devices/system/clocksource/clocksource0"

_BOOT_S = 120
"""Time after boot in which services start, GPUs register at the fabric, and ports get their addresses."""
_SIZES = (
    ("SLURM_NNODES", ""),
    ("BUSBW_SIZE", "BUSBW_LOCAL_SIZE"),
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
)
"""Variables with the number of processes of a job, and of its processes on this node.

SLURM_NNODES already counts nodes, so it needs no second variable.
"""
_COUNT = re.compile(r"[1-9]\d{0,6}")
_CONTAINER_FILES = (".dockerenv", "run/.containerenv")
_NVIDIA_GPU_NODE = re.compile(r"nvidia\d+")
_AMD_GPU_NODE = "kfd"
"""Name of the one device node for all GPUs of AMD."""


def variables_of_slurm_job(machine: Machine) -> dict[str, str]:
    """Returns the environment variables of a process in a job of Slurm. Raises NotApplicable if it is in none."""
    require(is_in_slurm_job(machine), "this process is in no job of Slurm")
    return machine.fact(Environment).variables


def is_in_slurm_job(machine: Machine) -> bool:
    """True if this process is in a job of Slurm."""
    return "SLURM_JOB_ID" in machine.fact(Environment).variables


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
    """
    require(is_in_container(machine), "no container of Docker, Podman or Kubernetes")
    require(not is_in_slurm_job(machine), "Slurm decides which devices this job may open, not the container")
    return machine.fact(Environment).variables


def is_in_container(machine: Machine) -> bool:
    """True if this process is in a container of Docker, Podman or Kubernetes, also within a job of Slurm."""
    is_in_pod = "KUBERNETES_SERVICE_HOST" in machine.fact(Environment).variables
    return is_in_pod or any(machine.has(path) for path in _CONTAINER_FILES)


def nvidia_gpu_nodes(names: Iterable[str]) -> list[str]:
    """Returns the device nodes of NVIDIA GPUs among names below /dev: nvidia0, but not nvidiactl."""
    return [name for name in names if _NVIDIA_GPU_NODE.fullmatch(name)]


def is_container_without_gpu(machine: Machine) -> bool:
    """True in a container without device nodes of GPUs. /sys and /proc show the host's GPUs also there."""
    names = machine.names_or_empty("dev")
    if not names or nvidia_gpu_nodes(names) or _AMD_GPU_NODE in names:
        return False
    try:
        variables_of_container(machine)
    except NotApplicable:
        return False
    return True


def uptime_s(machine: Machine) -> float:
    """Returns the time since boot in seconds."""
    return float(machine.word("proc/uptime").split()[0])


def has_just_booted(machine: Machine) -> bool:
    """True if the fabric manager or the subnet manager may not have had the time to configure this machine."""
    return uptime_s(machine) < _BOOT_S


def is_virtual(machine: Machine) -> bool:
    """True in a virtual machine, which offers the clock of its hypervisor."""
    return bool(re.search("kvm-clock|hyperv|xen", machine.text(f"{_CLOCKSOURCE}/available_clocksource")))


def is_arm(machine: Machine) -> bool:
    """True for processors of ARM, such as Grace."""
    return machine.has("sys/devices/system/cpu/cpu0/regs/identification/midr_el1")


def allowed_cpus(machine: Machine) -> str:
    """Returns the CPUs that this process may use, as ranges.

    Raises:
        Unreadable: The kernel does not state them.
    """
    match = re.search(r"^Cpus_allowed_list:\s*(\d\S*)$", machine.text("proc/self/status"), re.MULTILINE)
    if match is None:
        raise Unreadable("Cpus_allowed_list in /proc/self/status")
    return match[1]
