"""Starts the job through Slurm: as a batch job that writes its output to files, or with srun from this machine.

In both cases srun starts the processes without MPI, and they find each other by the variables that Slurm sets. A batch
job continues if the connection to this machine is lost, and `busbw launch attach` reads its files later. This requires
a folder that the nodes share with this machine. Within an allocation, or without a shared folder, srun runs from here.
"""

import json
import os
import shlex
import shutil
import signal
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import msgspec

from busbw.engine import WORLD_VARIABLES
from busbw.errors import SIGNALLED, BusbwError, UsageError
from busbw.launchers.job import processes
from busbw.launchers.job.job import Command, Job, LaunchCallbacks, LaunchPlan, PrivateFile
from busbw.launchers.slurm import commands, follower, script, srun
from busbw.launchers.slurm.script import SlurmTarget
from busbw.launchers.slurm.start_limit import DEFAULT_PENDING_LIMIT_S
from busbw.support.termination_signals import collected_signals

SCRIPT = "job.sbatch"
"""Name of the batch script in the job's folder."""
JOB_FILE = "job.json"
PARENT_FOLDER = "busbw-slurm"
"""Name of the default parent of the job folders."""
MAX_STEPS = 10_000
"""Maximum number of steps of a job."""
_CLUSTER_VARIABLES = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT")
"""Slurm variables that select the cluster and do not belong to a job."""
_REMOVED_DEFAULTS = tuple(
    f"SBATCH_{name}" for name in ("ARRAY_INX", "CLUSTERS", "ERROR", "EXCLUSIVE", "REQUEUE", "TEST_ONLY", "WAIT")
)
"""Variables with defaults of sbatch that would override or contradict busbw's options."""
DETACHED = SIGNALLED + signal.SIGHUP
"""Exit code if the terminal was lost and the job continues."""


@dataclass(frozen=True)
class SlurmPlan(LaunchPlan):
    """Launch plan with the data to follow the job."""

    folder: Path | None = None
    """Folder with the files of a batch job. None: srun runs from this machine."""
    name: str = ""
    """Name of the job."""
    collective: str = ""
    job: str = ""
    """ID of the batch job if it was submitted before. Empty otherwise."""
    steps: int = 1
    """Number of steps that the job runs in sequence."""
    step: int = 1
    """Step that `submit` waits for, from 1. `submit` of step 1 also starts the job."""
    pending_limit_s: int = DEFAULT_PENDING_LIMIT_S
    """Time limit of a start problem that only a change of the partition resolves. 0: no limit."""

    def with_step(self, step: int) -> "SlurmPlan":
        """Returns the plan for another step of the same job."""
        return replace(self, step=step, remarks=())

    def text(self) -> str:
        """The plan in shell syntax, including the creation of the folder."""
        make_folder = f"mkdir -p -m 700 {shlex.quote(str(self.folder))}\n" if self.folder else ""
        return make_folder + super().text()


def render(job: Job, target: SlurmTarget) -> SlurmPlan:
    """Returns a batch script with its sbatch command if the target has a folder, and an srun command otherwise."""
    remarks = (f"{target.steps} steps in sequence, each with its own run",) if target.steps > 1 else ()
    if target.folder is not None:
        batch = PrivateFile(target.folder / SCRIPT, script.batch_script(job, target))
        command = Command(script.sbatch_command(job, target, batch.path), tuple(job.secrets.items()))
        return SlurmPlan(
            (command,),
            (batch,),
            remarks=remarks,
            folder=target.folder,
            name=job.name,
            collective=script.collective_of(job),
            steps=target.steps,
        )
    first_host = target.hosts[0].name if target.hosts else ""
    files: tuple[PrivateFile, ...] = ()
    environment = {
        **script.shared_variables(job, target, first_host=first_host),
        **job.secrets,
        "BUSBW_TOKEN": job.token,
    }
    if target.hosts:
        path = target.scratch / f"{job.name}.hosts"
        files = (PrivateFile(path, "".join(f"{host.name}\n" * host.processes for host in target.hosts)),)
        environment["SLURM_HOSTFILE"] = str(path)
    command = Command(script.srun_command(job, target), tuple(environment.items()), unset=script.OUTPUT_VARIABLES)
    return SlurmPlan((command,), files, token=job.token, remarks=remarks, name=job.name, steps=target.steps)


def submit(plan: SlurmPlan, callbacks: LaunchCallbacks, unread: list[int] | None = None) -> int:
    """Starts the job (for step 1), follows the step, and returns the program's exit code.

    Args:
        plan: The job and the step.
        callbacks: Receive the output.
        unread: The step is appended to this list if its files may contain more output than was read.

    Raises:
        BusbwError: Slurm rejects the job, the job can never start, or the program did not start.
    """
    if plan.folder is None:
        return srun.run_srun(plan.commands[0], plan.files, plan.name, callbacks, plan.pending_limit_s)
    # A signal that arrives during the submission is kept, and handled when the job's ID is known.
    with collected_signals() as received:
        if not plan.job and plan.step == 1:
            job = start(plan)
            callbacks.on_status(f"job {job} submitted")
        else:
            job = plan.job or load_submitted(plan.folder).job  # step 1 has saved the ID in the folder
        step_follower = follower.Follower(plan.folder, job, plan.step, callbacks, plan.pending_limit_s)
        try:
            return step_follower.follow(received)
        except follower.DetachedError:
            return DETACHED
        finally:
            if unread is not None and not step_follower.is_complete:
                unread.append(plan.step)


def start(plan: SlurmPlan) -> str:
    """Submits the batch job, saves its ID in the folder, and returns the ID.

    Raises:
        BusbwError: The folder cannot be created, or Slurm rejects the job.
    """
    assert plan.folder is not None
    try:
        plan.folder.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise BusbwError(
            f"cannot create the folder {plan.folder}: {error.strerror}", remedy="set another --output-folder"
        ) from error
    own_environment = {name: value for name, value in os.environ.items() if _is_exported(name)}
    environment = {**own_environment, **dict(plan.commands[0].environment)}
    try:
        with processes.written_files(plan.files):
            job = commands.submit(plan.commands[0].words, environment, name=plan.name)
    except BusbwError:
        remove_folder(plan.folder)
        raise
    content = {"job": job, "steps": plan.steps, "collective": plan.collective}
    (plan.folder / JOB_FILE).write_text(json.dumps(content) + "\n")
    return job


def _is_exported(name: str) -> bool:
    """True if a variable is exported to the batch job.

    Variables that belong to another job are not exported: those of busbw, and those of an allocation around this shell.
    This also keeps tokens out of Slurm's copy of the environment. Some of the user's defaults for sbatch are not
    exported either, see `_REMOVED_DEFAULTS`.
    """
    if name in WORLD_VARIABLES or name in _REMOVED_DEFAULTS:
        return False
    return name in _CLUSTER_VARIABLES or not name.startswith("SLURM_")


def load_submitted(folder: Path) -> SlurmPlan:
    """Returns a plan that follows the submitted job with this folder.

    Raises:
        UsageError: The folder does not belong to a job.
    """
    try:
        job_file = msgspec.json.decode((folder / JOB_FILE).read_bytes(), type=_JobFile)
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(
            f"{folder} is not the folder of a Slurm job", remedy="use the --output-folder of the job"
        ) from error
    return SlurmPlan(
        (), folder=folder.absolute(), job=job_file.job, steps=job_file.steps, collective=job_file.collective
    )


class _JobFile(msgspec.Struct):
    """Content of `job.json` in a batch job's folder. A batch script submitted by hand writes the same file."""

    job: Annotated[str, msgspec.Meta(pattern=r"\A[0-9]+\Z")]
    steps: Annotated[int, msgspec.Meta(ge=1, le=MAX_STEPS)]
    collective: Annotated[str, msgspec.Meta(pattern=r"\A[a-z_-]+\Z")]


def cancel(plan: SlurmPlan) -> str:
    """Cancels a batch job and returns the error. Empty on success, or if no batch job was submitted."""
    if plan.folder is None:
        return ""
    was_submitted = plan.job or (plan.folder / JOB_FILE).exists()
    if not was_submitted:
        return ""
    return commands.cancel(plan.job or load_submitted(plan.folder).job)


def remove_folder(folder: Path) -> None:
    """Removes the folder of a job that has ended, after its output was read."""
    shutil.rmtree(folder, ignore_errors=True)  # a network file system may keep files that the job still has open
    if folder.parent.name == PARENT_FOLDER:
        with suppress(OSError):  # it still contains another job's folder
            folder.parent.rmdir()
