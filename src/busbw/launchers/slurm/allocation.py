"""The job of Slurm that a shell is in, by the variables that Slurm sets there."""

from collections.abc import Mapping
from dataclasses import dataclass

from busbw.errors import UsageError

_JOB = ("SLURM_JOB_ID", "SLURM_JOBID")
_FIRST_SPECIAL_STEP = 0xFFFFFFF0
"""Steps from here on are no steps of srun: batch script, extern, interactive (slurm.h: SLURM_MAX_NORMAL_STEP_ID)."""


def is_in_one(environment: Mapping[str, str]) -> bool:
    """Whether there is one."""
    return any(map(environment.get, _JOB))


@dataclass(frozen=True)
class Allocation:
    """What is known of it; 0 and empty where it says nothing, or where there is none."""

    job: str = ""
    nodes: int = 0
    node_list: str = ""
    in_step: bool = False
    tasks_per_node: int = 0
    gpus_per_node: int = 0

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Allocation":
        """The one that the variables tell of.

        Raises:
            UsageError: It is a heterogeneous job.
        """
        job = next((environment[name] for name in _JOB if environment.get(name)), "")
        if not job:
            return cls()

        def number(*names: str) -> int:
            text = next((environment[name] for name in names if environment.get(name)), "")
            return int(text) if text.isdecimal() else 0

        if (parts := number("SLURM_HET_SIZE")) > 1:
            raise UsageError(
                f"the allocation {job} has {parts} components (SLURM_HET_SIZE={parts}), and one of them alone would be "
                "measured",
                remedy="launch in an allocation of one component, or give --submit-with sbatch for a job of its own",
            )
        nodes = number("SLURM_JOB_NUM_NODES", "SLURM_NNODES")
        gpus_of_the_job = _gpus(environment.get("SLURM_GPUS", ""))
        return cls(
            job,
            nodes,
            environment.get("SLURM_JOB_NODELIST", ""),
            bool(environment.get("SLURM_STEP_ID")) and number("SLURM_STEP_ID") < _FIRST_SPECIAL_STEP,
            number("SLURM_NTASKS_PER_NODE"),
            # The first is of the node that this shell is on; in an salloc on a login node there is none.
            number("SLURM_GPUS_ON_NODE")
            or _gpus(environment.get("SLURM_GPUS_PER_NODE", ""))
            or gpus_of_the_job // max(1, nodes),
        )


def _gpus(text: str) -> int:
    """How many are asked for by 8, h100:8 or h100:4,a100:4; 0 where it says something else."""
    counts = [kind.rpartition(":")[2] for kind in text.split(",")]
    return sum(map(int, counts)) if all(count.isdecimal() for count in counts) else 0
