"""The Slurm allocation of the current shell, read from the variables that Slurm sets."""

from collections.abc import Mapping
from dataclasses import dataclass

from busbw.errors import UsageError

_JOB_ID_VARIABLES = ("SLURM_JOB_ID", "SLURM_JOBID")
_FIRST_SPECIAL_STEP = 0xFFFFFFF0
"""First ID of steps that srun did not start: batch script, extern, interactive (slurm.h: SLURM_MAX_NORMAL_STEP_ID)."""


def has_allocation(environment: Mapping[str, str]) -> bool:
    """True within an allocation."""
    return any(map(environment.get, _JOB_ID_VARIABLES))


@dataclass(frozen=True)
class Allocation:
    """Properties of the allocation. Unknown values are 0 or empty, also if there is no allocation."""

    job: str = ""
    """ID of the job that owns the allocation."""
    nodes: int = 0
    node_list: str = ""
    """Nodes in Slurm's syntax, such as n[1-2]."""
    in_step: bool = False
    """True if this process is a task of a step that srun started."""
    tasks_per_node: int = 0
    gpus_per_node: int = 0

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Allocation":
        """Reads the allocation from the environment.

        Raises:
            UsageError: The allocation is a heterogeneous job.
        """
        job = next((environment[name] for name in _JOB_ID_VARIABLES if environment.get(name)), "")
        if not job:
            return cls()
        components = _read_number(environment, "SLURM_HET_SIZE")
        if components > 1:
            raise UsageError(
                f"the allocation {job} has {components} components (SLURM_HET_SIZE={components}), "
                "but only one can be measured",
                remedy="use an allocation with one component, or --submit-with sbatch",
            )
        has_step = bool(environment.get("SLURM_STEP_ID"))
        return cls(
            job=job,
            nodes=_node_count(environment),
            node_list=environment.get("SLURM_JOB_NODELIST", ""),
            in_step=has_step and _read_number(environment, "SLURM_STEP_ID") < _FIRST_SPECIAL_STEP,
            tasks_per_node=_read_number(environment, "SLURM_NTASKS_PER_NODE"),
            gpus_per_node=allocated_gpus_per_node(environment),
        )


def allocated_gpus_per_node(environment: Mapping[str, str]) -> int:
    """Returns the number of GPUs per node of the current allocation. 0 without an allocation, or without GPUs."""
    if not has_allocation(environment):
        return 0
    # SLURM_GPUS_ON_NODE describes this shell's node; it is unset in an salloc on a login node.
    return (
        _read_number(environment, "SLURM_GPUS_ON_NODE")
        or _gpu_count(environment.get("SLURM_GPUS_PER_NODE", ""))
        or _gpu_count(environment.get("SLURM_GPUS", "")) // max(1, _node_count(environment))
    )


def _node_count(environment: Mapping[str, str]) -> int:
    """Number of nodes of the allocation. 0 if unknown."""
    return _read_number(environment, "SLURM_JOB_NUM_NODES", "SLURM_NNODES")


def _read_number(environment: Mapping[str, str], *names: str) -> int:
    """Value of the first variable that is set. 0 if it is no number."""
    text = next((environment[name] for name in names if environment.get(name)), "")
    return int(text) if text.isdecimal() else 0


def _gpu_count(text: str) -> int:
    """Number of GPUs in `8`, `h100:8` or `h100:4,a100:4`. 0 for any other format."""
    counts = [entry.rpartition(":")[2] for entry in text.split(",")]
    return sum(map(int, counts)) if all(count.isdecimal() for count in counts) else 0
