"""Cores of a Slurm task: those that were requested, and more than one for each rank."""

import re
from collections.abc import Iterator

from busbw.doctor.model.check import Check, Evidence, Finding, NotApplicable
from busbw.doctor.model.machine import Machine
from busbw.doctor.parts.job import tasks_on_node, variables_of_slurm_job
from busbw.doctor.parts.platform import allowed_cpus

_STATUS, _CPUS = "proc/self/status", "sys/devices/system/cpu"


def _single_core(machine: Machine) -> str | None:
    """Returns the CPUs of this process if they belong to one core of several."""
    cpus = allowed_cpus(machine)
    first = re.split("[,-]", cpus)[0]
    core = machine.word(f"{_CPUS}/cpu{first}/topology/thread_siblings_list")
    return cpus if cpus in (first, core) and core != machine.word(f"{_CPUS}/online") else None


def _examine(machine: Machine, *, inherited: bool) -> Iterator[Finding]:
    variables = variables_of_slurm_job(machine)
    if not any(name in variables for name in ("SLURM_GPUS_ON_NODE", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS")):
        raise NotApplicable("the job has no GPUs")
    cpus = _single_core(machine)
    requested = int(variables.get("SLURM_CPUS_PER_TASK", "1"))
    is_lost = requested > 2 and "SRUN_CPUS_PER_TASK" not in variables
    # A step with one task on a node may be this examination alone; other steps of the job may have more cores.
    is_rank = tasks_on_node(variables) > 1
    is_meant = is_lost if inherited else not is_lost and (requested > 2 or is_rank)
    if cpus is not None and is_meant:
        wanted = f"{requested} CPUs (SLURM_CPUS_PER_TASK)" if requested > 2 else "several cores"
        yield Finding(
            severity="slow" if is_rank else "risk",
            problem=f"this task may run only on CPU {cpus}, one core, instead of {wanted}",
            evidence=(
                Evidence(source=f"/{_STATUS}", value=f"Cpus_allowed_list: {cpus}"),
                Evidence(source="SLURM_CPUS_PER_TASK", value=variables.get("SLURM_CPUS_PER_TASK", "not set")),
            ),
        )


_COST = (
    "All threads of a rank share one core, so NCCL's network threads wait for each other; half the bandwidth and more."
)

CHECKS: tuple[Check[Machine], ...] = (
    Check(
        name="slurm-cpuset",
        area="scheduler",
        reads="/proc/self/status (Cpus_allowed_list), SLURM_CPUS_PER_TASK, SLURM_TASKS_PER_NODE",
        rule="A task of a job with GPUs may run on more than one core.",
        source="NVIDIA/nccl-tests#57",
        cost=_COST,
        fix="srun --cpus-per-task=N, with N = CPUs of the node / tasks on it, or srun --cpu-bind=none",
        examine=lambda machine: _examine(machine, inherited=False),
    ),
    Check(
        name="slurm-cpus-not-inherited",
        area="scheduler",
        reads="/proc/self/status (Cpus_allowed_list), SLURM_CPUS_PER_TASK, SRUN_CPUS_PER_TASK",
        rule="A task may run on as many CPUs as the job requested; srun of Slurm 22.05 and 23.02 ignores that request.",
        source="https://slurm.schedmd.com/srun.html#OPT_cpus-per-task",
        cost=_COST,
        fix="export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK before srun",
        examine=lambda machine: _examine(machine, inherited=True),
    ),
)
