"""Starts the job through Slurm: as a batch job whose output lies in files, or by srun, whose output comes to us.

srun without MPI starts the processes either way, and they find each other by what Slurm tells each of them. A batch
job goes on when the connection to this machine is lost, and its files let one come back to it; that takes a folder
which the nodes share with this machine. Within an allocation, and where no folder is shared, srun is run from here.
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

from busbw.errors import SIGNALLED, BusbwError, UsageError
from busbw.launchers.job import processes
from busbw.launchers.job.job import PLACE, Command, Job, LaunchCallbacks, LaunchPlan, PrivateFile, as_pairs
from busbw.launchers.slurm import commands, follower, script, srun
from busbw.launchers.slurm.script import SlurmTarget

SCRIPT = "job.sbatch"
JOB_FILE = "job.json"
FOLDERS = "busbw-slurm"
"""Holds the folders of jobs, where nobody named one."""
MAX_STEPS = 10_000
_OF_THE_CLUSTER = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT")
"""Variables that lead to it and do not stem from a job."""
_NOT_BY_DEFAULT = tuple(
    f"SBATCH_{name}" for name in ("ARRAY_INX", "CLUSTERS", "ERROR", "EXCLUSIVE", "REQUEUE", "TEST_ONLY", "WAIT")
)
DETACHED = SIGNALLED + signal.SIGHUP
"""The exit code where the terminal went away and the job goes on."""


@dataclass(frozen=True)
class SlurmPlan(LaunchPlan):
    """With what following the job takes."""

    folder: Path | None = None
    """Where a batch job's files lie; None: srun is run from here."""
    name: str = ""
    collective: str = ""
    job: str = ""
    """The id of a batch job that was submitted before."""
    steps: int = 1
    step: int = 1
    """The one that `submit` waits for; the first one's `submit` starts the job."""

    def of_step(self, step: int) -> "SlurmPlan":
        """The same job, to wait for another of its steps."""
        return replace(self, step=step, remarks=())

    def text(self) -> str:
        """With the folder that the job's files need."""
        made = f"mkdir -p -m 700 {shlex.quote(str(self.folder))}\n" if self.folder else ""
        return made + super().text()


def render(job: Job, where: SlurmTarget | None = None) -> SlurmPlan:
    """A batch script and sbatch where there is a folder, else srun."""
    where = where or SlurmTarget()
    remarks = (f"{where.steps} steps, one after the other, each a run of its own",) if where.steps > 1 else ()
    if where.folder is not None:
        batch = PrivateFile(where.folder / SCRIPT, script.script(job, where))
        command = Command(script.sbatch(job, where, batch.path))
        return SlurmPlan(
            (command,),
            (batch,),
            remarks=remarks,
            folder=where.folder,
            name=job.name,
            collective=script.collective_of(job),
            steps=where.steps,
        )
    first = where.hosts[0].name if where.hosts else ""
    files: tuple[PrivateFile, ...] = ()
    environment = {**script.variables(job, where, first_host=first), "BUSBW_TOKEN": job.token}
    if where.hosts:
        path = where.scratch / f"{job.name}.hosts"
        files = (PrivateFile(path, "".join(f"{host.name}\n" * host.processes for host in where.hosts)),)
        environment["SLURM_HOSTFILE"] = str(path)
    command = Command(script.srun(job, where), as_pairs(environment), unset=script.OF_THE_OUTPUT)
    return SlurmPlan((command,), files, token=job.token, remarks=remarks, name=job.name, steps=where.steps)


def submit(rendered: SlurmPlan, watch: LaunchCallbacks, unread: list[int] | None = None) -> int:
    """Starts the job, or a further step's wait, and returns the program's exit code.

    Args:
        rendered: The job, and the step.
        watch: Gets what it says.
        unread: Gets the step, where its files may hold more than they have shown.

    Raises:
        BusbwError: Slurm refuses the job, it can never start, or the program was not started.
    """
    if rendered.folder is None:
        return srun.run_srun(rendered.commands[0], rendered.files, rendered.name, watch)
    # From here on, so that an interrupt cannot fall between the job's submission and its id.
    with follower.signals() as received:
        if not rendered.job and rendered.step == 1:
            job = start(rendered)
            watch.on_status(f"job {job} is submitted")
        else:
            job = rendered.job or load_submitted(rendered.folder).job
        output = follower.Follower(rendered.folder, job, rendered.step, watch)
        try:
            return output.follow(received)
        except follower.DetachedError:
            return DETACHED
        finally:
            if unread is not None and not output.is_complete:
                unread.append(rendered.step)


def start(rendered: SlurmPlan) -> str:
    """Submits the batch job, writes down its id in the folder, and returns it.

    Raises:
        BusbwError: The folder cannot be made, or Slurm refuses the job.
    """
    assert rendered.folder is not None
    try:
        rendered.folder.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise BusbwError(
            f"cannot make the folder {rendered.folder}: {error.strerror}", remedy="name another one: --output-folder"
        ) from error
    environment = {name: value for name, value in os.environ.items() if _is_exported(name)}
    try:
        with processes.written_files(rendered.files):
            job = commands.submit(rendered.commands[0].words, environment, name=rendered.name)
    except BusbwError:
        remove_folder(rendered.folder)
        raise
    content = {"job": job, "steps": rendered.steps, "collective": rendered.collective}
    (rendered.folder / JOB_FILE).write_text(json.dumps(content) + "\n")
    return job


def _is_exported(name: str) -> bool:
    """Whether a variable goes to the batch job.

    A place in another job is nothing to this one, be it ours or an allocation of Slurm's around this shell; nothing of
    ours is left where others may ask Slurm for it. And what a site or a user has sbatch do by default must not change
    what was settled here.
    """
    return name not in (*PLACE, *_NOT_BY_DEFAULT) and (not name.startswith("SLURM_") or name in _OF_THE_CLUSTER)


def load_submitted(folder: Path) -> SlurmPlan:
    """The job whose files lie in the folder, as it takes to wait for it.

    Raises:
        UsageError: It is no such folder.
    """
    try:
        found = msgspec.json.decode((folder / JOB_FILE).read_bytes(), type=_JobFile)
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(f"{folder} holds no job of Slurm", remedy="name the folder that the job was given") from error
    return SlurmPlan((), folder=folder.absolute(), job=found.job, steps=found.steps, collective=found.collective)


class _JobFile(msgspec.Struct):
    """What a batch job's folder says of it; a batch script that is submitted by hand writes the same."""

    job: Annotated[str, msgspec.Meta(pattern=r"\A[0-9]+\Z")]
    steps: Annotated[int, msgspec.Meta(ge=1, le=MAX_STEPS)]
    collective: Annotated[str, msgspec.Meta(pattern=r"\A[a-z_]+\Z")]


def cancel(rendered: SlurmPlan) -> str:
    """Cancels a batch job that was submitted; why it did not work, empty where it did."""
    if rendered.folder is None:
        return ""
    return commands.cancel(rendered.job or load_submitted(rendered.folder).job)


def remove_folder(folder: Path) -> None:
    """Removes the folder of a job that has ended and whose output has been taken over."""
    shutil.rmtree(folder, ignore_errors=True)  # a network file system may keep what the job still has open
    if folder.parent.name == FOLDERS:
        with suppress(OSError):  # another job's folder is in it
            folder.parent.rmdir()
