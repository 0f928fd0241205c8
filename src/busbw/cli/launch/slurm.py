"""`busbw launch slurm`: a batch job of Slurm, or srun."""

import os
import re
import secrets
import shlex
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click

from busbw.cli.launch.hosts import PORTS, named_hosts
from busbw.cli.launch.options import COMMAND_SETTINGS, LaunchOptions, common_options
from busbw.cli.launch.slurm_steps import execute_steps
from busbw.cli.options.deprecated import renamed_option
from busbw.cli.options.param_types import NonEmptyPath
from busbw.errors import BusbwError, ExitCode, UsageError
from busbw.launchers import slurm as launcher
from busbw.launchers.job.hosts import HostSlots
from busbw.launchers.job.job import Job
from busbw.launchers.slurm import commands
from busbw.launchers.slurm.allocation import Allocation, is_in_one
from busbw.launchers.slurm.node_order import by_switch, in_order, parse_hostlist
from busbw.launchers.slurm.processors import NODES, processors
from busbw.launchers.slurm.reserved_options import RESERVED, RESERVED_BY_SRUN, refuse_reserved
from busbw.launchers.slurm.script import SlurmTarget, script

_IMPORTS_WITHIN_S = 600.0
"""Each node imports the image for itself before its processes start; pods are given as long."""

_OF_THE_JOB = {
    "partition": "Partition.",
    "account": "Account that is charged.",
    "qos": "Quality of service.",
    "time": "Time limit: minutes, or HH:MM:SS.",
    "reservation": "Reservation.",
    "constraint": "Features that the nodes must have.",
    "nodelist": "Nodes that must be among them: n[1-4].",
    "exclude": "Nodes that must not.",
}
"""Options that go to Slurm as they are."""


def _job_options(command: Callable[..., int]) -> Callable[..., int]:
    for name, text in reversed(_OF_THE_JOB.items()):
        command = click.option(f"--{name}", metavar="TEXT", help=f"Slurm's: {text}")(command)
    return command


@click.command(context_settings=COMMAND_SETTINGS)
@click.option("--nodes", type=click.IntRange(min=1), metavar="N", help="[default: all of the allocation, else 1]")
@click.option(
    "--processes-per-node",
    type=click.IntRange(min=1),
    metavar="N",
    help="Each has -t times -g ranks.  [default: one for each GPU, the tasks of the allocation, or 1]",
)
@click.option(
    "--gpus-per-node",
    type=click.IntRange(min=0),
    metavar="N",
    help="Asked of Slurm; 0: ask for none.  [default: those of --machine-type, or none]",
)
@_job_options
@click.option("--exclusive/--shared", default=True, show_default=True, help="Whether nodes are ours alone.")
@click.option(
    "--hostfile",
    type=NonEmptyPath(),
    metavar="FILE",
    help="Nodes in the order of the ranks: host, host slots=8, or host:8.",
)
@click.option("--topology-order", is_flag=True, help="Ranks go to the nodes switch by switch.")
@click.option("--container-image", metavar="IMAGE", help="Run it in a container, by Pyxis and Enroot.")
@click.option("--container-mounts", metavar="FROM:TO,...", help="What the container sees of the node.")
@click.option(
    "--mpi", default="none", show_default=True, metavar="KIND", help="Slurm's: pmix or pmi2 for --backend mpi."
)
@click.option(
    "--repeat", "steps", type=click.IntRange(1, launcher.MAX_STEPS), default=1, metavar="N", help="Measure N times."
)
@renamed_option("--steps", "--repeat")
@click.option("--slurm-arg", "job_more", multiple=True, metavar="OPTION", help="A further option of the job.")
@click.option("--srun-arg", "step_more", multiple=True, metavar="OPTION", help="A further option of srun.")
@click.option(
    "--submit-with",
    type=click.Choice(["auto", "sbatch", "srun"]),
    default="auto",
    show_default=True,
    help="auto: srun within an allocation, else sbatch. sbatch outlives this terminal and takes a shared folder.",
)
@renamed_option("--by", "--submit-with")
@click.option(
    "--output-folder",
    "folder",
    type=NonEmptyPath(),
    metavar="FOLDER",
    help="A new one that the nodes share, for a batch job's output.  [default: busbw-slurm/NAME]",
)
@renamed_option("--folder", "--output-folder")
@click.option("--detach", is_flag=True, help="Submit, say how to come back, and end.")
@click.option("--print-script", is_flag=True, help="Print a batch script to submit by hand; touch nothing.")
@renamed_option("--script", "--print-script")
@common_options
def slurm(
    asked: LaunchOptions,
    nodes: int | None,
    processes_per_node: int | None,
    gpus_per_node: int | None,
    exclusive: bool,
    hostfile: Path | None,
    topology_order: bool,
    container_image: str | None,
    container_mounts: str | None,
    mpi: str,
    steps: int,
    job_more: tuple[str, ...],
    step_more: tuple[str, ...],
    submit_with: str,
    folder: Path | None,
    detach: bool,
    print_script: bool,
    **job_values: str | None,
) -> int:
    """Starts COLLECTIVE by srun, without MPI: as a batch job, or as a step of the allocation that this shell is in."""
    is_batch = submit_with == "sbatch" or print_script or (submit_with == "auto" and not is_in_one(os.environ))
    current_allocation = Allocation() if is_batch else Allocation.of(os.environ)
    given = tuple(f"--{name}={value}" for name, value in job_values.items() if value is not None)
    _check(current_allocation, (*given, *job_more), is_batch=is_batch)
    refuse_reserved("--srun-arg", step_more, *RESERVED_BY_SRUN)
    if container_mounts and not container_image:
        raise UsageError("--container-mounts without --container-image", remedy="name the image, too")
    if not is_batch and (folder is not None or detach):
        raise UsageError(
            "--output-folder and --detach are for batch jobs", remedy="leave them out, or give --submit-with sbatch"
        )
    if asked.records_path is not None and (steps > 1 or detach):
        raise UsageError(
            "--records names the file of one run that is waited for", remedy="use --store with --repeat and --detach"
        )

    per_node = _processes_per_node(asked, processes_per_node, gpus_per_node, current_allocation)
    count = nodes or current_allocation.nodes or 1
    hosts = named_hosts(None, hostfile, processes=per_node)
    order: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    if topology_order:
        switches, remarks = _switches(dry_run=asked.dry_run)
        named = [host.name for host in hosts] or parse_hostlist(current_allocation.node_list)[:count]
        counts = {host.name: host.processes for host in hosts}
        hosts = tuple(HostSlots(name, counts.get(name, per_node)) for name in in_order(named, switches))
        order = () if hosts else tuple(switches)

    program = asked.program_path or (asked.program_name if container_image else asked.local_program())
    is_told = "BUSBW_JOIN_TIMEOUT_S" in {*os.environ, *dict(asked.environment)}
    if container_image and asked.join_timeout_s is None and not is_told:
        asked = replace(asked, join_timeout_s=_IMPORTS_WITHIN_S)
    job = asked.job(program, nodes=len(hosts) or count, processes_per_node=per_node)
    gpus = asked.system.gpus_per_node.value if asked.system and asked.system.gpus_per_node else None
    where = SlurmTarget(
        folder=_folder(folder, job) if is_batch else None,
        in_allocation=bool(current_allocation.job),
        in_step=current_allocation.in_step,
        job_options=(*given, *job_more),
        step_options=step_more,
        gpus_per_node=gpus if gpus_per_node is None else gpus_per_node,
        exclusive=exclusive,
        mpi=mpi,
        container_image=container_image or "",
        container_mounts=container_mounts or "",
        hosts=hosts,
        order=order,
        port=secrets.choice(PORTS) if hosts or order else 0,
        scratch=Path(tempfile.gettempdir()),
        steps=steps,
    )
    if print_script:
        plain = replace(job, name=f"busbw-{asked.collective.replace('_', '-')}")
        made_by = shlex.join(["busbw", *sys.argv[1:]]).replace("\n", " ")
        click.echo(script(plain, replace(where, standalone=True), made_by), nl=False)
        return ExitCode.GOOD
    if not is_batch and not current_allocation.job and exclusive:
        where, more = _with_all_processors(where, max([per_node, *(host.processes for host in hosts)]))
        remarks = (*remarks, *more)
    rendered = launcher.render(job, where)
    rendered = replace(rendered, remarks=(*rendered.remarks, *remarks))
    if detach and not asked.dry_run:
        _detach(launcher.start(rendered), where)
        return ExitCode.GOOD
    return execute_steps(asked, rendered)


def _check(around: Allocation, options: tuple[str, ...], *, is_batch: bool) -> None:
    if around.job and options:
        raise UsageError(
            f"{options[0]} asks for what the allocation {around.job}, in which this shell is, has settled",
            remedy="leave it out, or give --submit-with sbatch for a job of its own",
        )
    for option in options:
        if not option.startswith("-") or "\n" in option:
            raise UsageError(f'--slurm-arg "{option}" is no option', remedy="write it as --slurm-arg=--name=value")
    refuse_reserved("--slurm-arg", options, *(RESERVED if is_batch else RESERVED_BY_SRUN))
    if "," in os.environ.get("SLURM_CLUSTERS", "") or os.environ.get("SLURM_CLUSTERS") == "all":
        raise UsageError(
            f"SLURM_CLUSTERS={os.environ['SLURM_CLUSTERS']} names several clusters, which all number their jobs alike",
            remedy="set it to one of them",
        )


def _with_all_processors(where: SlurmTarget, per_node: int) -> tuple[SlurmTarget, tuple[str, ...]]:
    """Srun gives the step of a job of its own no more of its exclusive nodes than was asked for: all is asked for.

    Nodes of a partition may differ, and Slurm may choose any of them: each gives as much as the smallest has.
    """
    options = (*where.job_options, *where.step_options)
    if partition := os.environ.get("SLURM_PARTITION"):
        options = (f"--partition={partition}", *options)  # as srun reads it: the command line goes before it
    if any(re.match(r"-c|--cpus-p|--exclusive=", option) for option in options):
        return where, ()
    try:
        counts = processors(commands.read(["scontrol", "--oneliner", "show", "node"]), commands.read(NODES), options)
    except BusbwError as error:
        return where, (f"{error.what}: without a --cpus-per-task from here srun gives each process one processor",)
    each = min(counts, default=0) // per_node
    return (replace(where, step_options=(f"--cpus-per-task={each}", *where.step_options)) if each else where), ()


def _switches(*, dry_run: bool) -> tuple[list[str], tuple[str, ...]]:
    """All nodes, switch by switch, and what is to be said of that: a dry run needs no Slurm.

    Raises:
        BusbwError: Slurm cannot be asked.
        UsageError: It knows no switches.
    """
    try:
        switches = by_switch(commands.read(["scontrol", "show", "topology"]))
    except BusbwError as error:
        if not dry_run:
            raise
        remark = f"{error.what}: NODES-BY-SWITCH stands for the nodes that Slurm would name, switch by switch."
        return ["NODES-BY-SWITCH"], (remark,)
    if not switches:
        raise UsageError("Slurm knows no switches here", remedy="leave --topology-order out, or give --hostfile")
    return switches, ()


def _processes_per_node(asked: LaunchOptions, given: int | None, gpus: int | None, around: Allocation) -> int:
    """What was typed goes before what the allocation was made for."""
    if given is None and gpus is None and asked.system is None:
        given = around.tasks_per_node or None
        gpus = around.gpus_per_node
    if given is None and gpus:
        return max(1, gpus // asked.ranks_per_process)
    return asked.processes_per_node(given)


def _folder(named: Path | None, job: Job) -> Path:
    folder = (named or Path(launcher.FOLDERS) / job.name).absolute()
    if any(letter in str(folder) for letter in "\n%\\"):
        raise UsageError(
            f"Slurm could not write to a folder of the name {folder}", remedy="give --output-folder another name"
        )
    return folder


def _detach(job: str, where: SlurmTarget) -> None:
    click.echo(f"busbw: job {job} is submitted; busbw launch attach {where.folder} shows it and keeps its record")
    click.echo(f"busbw: scancel {job} ends it", file=sys.stderr)
