"""`busbw launch slurm`: options of the launcher `busbw.launchers.slurm`, for a batch job or a step by srun.

Within an allocation (salloc, sbatch) the job is a step of the allocation. Otherwise the job is a new batch job, or
srun's own job.
"""

import os
import secrets
import shlex
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click

from busbw.cli.interrupts import checked_interrupts
from busbw.cli.launch.hosts import PORTS, read_hosts
from busbw.cli.launch.options import COMMAND_SETTINGS, LaunchOptions, common_options
from busbw.cli.launch.slurm_checks import check_job_options, check_output_options, require_export, require_gpu_support
from busbw.cli.launch.slurm_nodes import find_nodes_by_switch, sort_hosts, with_all_processors
from busbw.cli.launch.slurm_steps import execute_steps
from busbw.cli.options.deprecated import renamed_option
from busbw.cli.options.engine_words import EngineCommand
from busbw.cli.options.param_types import NonEmptyPath
from busbw.cli.options.run_destination import without_secrets
from busbw.errors import ExitCode, UsageError
from busbw.launchers import slurm as launcher
from busbw.launchers.job.hosts import HostSlots, process_count
from busbw.launchers.job.job import Job
from busbw.launchers.slurm.allocation import Allocation, has_allocation
from busbw.launchers.slurm.exit_code import NodesNotStartedError
from busbw.launchers.slurm.hostlist import expand_hostlist
from busbw.launchers.slurm.reserved_options import RESERVED_BY_SRUN, reject_reserved
from busbw.launchers.slurm.script import SlurmTarget, batch_script
from busbw.launchers.slurm.start_limit import DEFAULT_PENDING_LIMIT_S

_CONTAINER_JOIN_LIMIT_S = 600.0
"""Time limit for all processes to join, if each node first imports a container image. Pods have the same limit."""

_SLURM_OPTIONS = {
    "-p --partition": "Partition.",
    "-A --account": "Account to charge.",
    "-q --qos": "Quality of service.",
    "-t --time": "Time limit: minutes, or HH:MM:SS.",
    "--reservation": "Reservation.",
    "-C --constraint": "Features that the nodes must have.",
    "-w --nodelist": "Nodes to include: n[1-4].",
    "-x --exclude": "Nodes to exclude.",
}
"""Options that are passed to Slurm unchanged, with Slurm's short names."""


def _add_slurm_options(command: Callable[..., int]) -> Callable[..., int]:
    for names, text in reversed(_SLURM_OPTIONS.items()):
        command = click.option(*names.split(), metavar="TEXT", help=f"Slurm's: {text}")(command)
    return command


@click.command(cls=EngineCommand, context_settings=COMMAND_SETTINGS)
@click.option(
    "-N",
    "--nodes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of nodes.  [default: all of the allocation, else 1]",
)
@click.option(
    "--processes-per-node",
    type=click.IntRange(min=1),
    metavar="N",
    help="Processes per node, each with the engine's -t times -g ranks.  "
    "[default: one rank per GPU, the allocation's tasks, or 1]",
)
@click.option(
    "--gpus-per-node",
    type=click.IntRange(min=0),
    metavar="N",
    help="GPUs to request; 0: none.  [default: those of --machine-type, or none]",
)
@_add_slurm_options
@click.option("--exclusive/--shared", default=True, show_default=True, help="Use whole nodes.")
@click.option(
    "--hostfile",
    type=NonEmptyPath(),
    metavar="FILE",
    help="File with the nodes in rank order: host, host slots=8, or host:8.",
)
@click.option("--topology-order", is_flag=True, help="Order the ranks by network switch.")
@click.option("--container-image", metavar="IMAGE", help="Run in this container, with Pyxis and Enroot.")
@click.option("--container-mounts", metavar="FROM:TO,...", help="Folders of the node to mount in the container.")
@click.option("--mpi", default="none", show_default=True, metavar="KIND", help="Slurm's MPI plugin, if srun needs one.")
@click.option(
    "--repeat", "steps", type=click.IntRange(1, launcher.MAX_STEPS), default=1, metavar="N", help="Measure N times."
)
@renamed_option("--steps", "--repeat")
@click.option("--slurm-arg", "extra_job_options", multiple=True, metavar="OPTION", help="Additional option of the job.")
@click.option("--srun-arg", "extra_step_options", multiple=True, metavar="OPTION", help="Additional option of srun.")
@click.option(
    "--submit-with",
    type=click.Choice(["auto", "sbatch", "srun"]),
    default="auto",
    show_default=True,
    help="auto: srun within an allocation, else sbatch. sbatch needs a shared folder and survives this terminal.",
)
@renamed_option("--by", "--submit-with")
@click.option(
    "--output-folder",
    "folder",
    type=NonEmptyPath(),
    metavar="FOLDER",
    help="New shared folder for the output of a batch job.  [default: busbw-slurm/NAME]",
)
@renamed_option("--folder", "--output-folder")
@click.option(
    "--pending-timeout",
    "pending_timeout_s",
    type=click.IntRange(min=0),
    default=DEFAULT_PENDING_LIMIT_S,
    show_default=True,
    metavar="SECONDS",
    help="Give up after SECONDS in a state such as PartitionNodeLimit; 0: never.",
)
@click.option("--detach", is_flag=True, help="Submit the batch job, print how to attach to it, and exit.")
@click.option("--print-script", is_flag=True, help="Print a batch script to submit by hand; start nothing.")
@renamed_option("--script", "--print-script")
@common_options
def slurm(
    options: LaunchOptions,
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
    extra_job_options: tuple[str, ...],
    extra_step_options: tuple[str, ...],
    submit_with: str,
    folder: Path | None,
    pending_timeout_s: int,
    detach: bool,
    print_script: bool,
    **slurm_values: str | None,
) -> int:
    """Starts COLLECTIVE with srun and without MPI, as a batch job or as a step of the current allocation."""
    is_batch = submit_with == "sbatch" or print_script or (submit_with == "auto" and not has_allocation(os.environ))
    # A batch job is independent of an allocation around this shell.
    current_allocation = Allocation() if is_batch else Allocation.from_environment(os.environ)
    passed_options = tuple(f"--{name}={value}" for name, value in slurm_values.items() if value is not None)
    job_options = (*passed_options, *extra_job_options)
    check_job_options(current_allocation, job_options, is_batch=is_batch)
    reject_reserved("--srun-arg", extra_step_options, RESERVED_BY_SRUN)
    if container_mounts and not container_image:
        raise UsageError("--container-mounts needs --container-image", remedy="set --container-image")
    check_output_options(options, is_batch=is_batch, has_folder=folder is not None, detach=detach, steps=steps)
    knows_nodes = is_batch or hostfile is not None or bool(current_allocation.node_list)
    if topology_order and not knows_nodes:
        raise UsageError(
            "--topology-order needs known nodes, but srun's own job gets its nodes later",
            remedy="set --submit-with sbatch, start within an allocation (salloc), or give --hostfile",
        )

    # Number of processes on each node without a number in the host file.
    default_processes = _processes_per_node(options, processes_per_node, gpus_per_node, current_allocation)
    node_count = nodes or current_allocation.nodes or 1
    hosts = read_hosts(options, None, hostfile, processes=default_processes)
    nodes_by_switch: list[str] = []
    remarks: tuple[str, ...] = ()
    if topology_order:
        nodes_by_switch, remarks = find_nodes_by_switch(dry_run=options.dry_run)
        hosts = hosts or _allocated_hosts(current_allocation, node_count, default_processes)
        hosts = sort_hosts(hosts, nodes_by_switch)

    program = options.program_path or (options.program_name if container_image else options.local_program())
    if container_image and not _has_join_limit(options):
        options = replace(options, join_timeout_s=_CONTAINER_JOIN_LIMIT_S)
    if gpus_per_node is None:
        gpus_per_node = options.machine_type_gpus
    # The step does not request the GPUs that its allocation has already, but its processes must know their number.
    requested_gpus = gpus_per_node
    if requested_gpus is None:
        requested_gpus = current_allocation.gpus_per_node or None  # 0: no GPU is allocated
    job = options.job(
        program, nodes=len(hosts) or node_count, processes_per_node=default_processes, requested_gpus=requested_gpus
    )
    if is_batch:
        require_export(job, job_options)

    target = SlurmTarget(
        folder=_job_folder(folder, job) if is_batch else None,
        in_allocation=bool(current_allocation.job),
        in_step=current_allocation.in_step,
        job_options=job_options,
        step_options=extra_step_options,
        gpus_per_node=gpus_per_node,
        exclusive=exclusive,
        mpi=mpi,
        container_image=container_image or "",
        container_mounts=container_mounts or "",
        hosts=hosts,
        # Without hosts, Slurm chooses the nodes later, and the batch script orders them.
        order=() if hosts else tuple(nodes_by_switch),
        scratch=Path(tempfile.gettempdir()),
        steps=steps,
    )
    if target.has_order:
        # Slurm's variables name the first node of Slurm's order, so the processes need another address of process 0.
        target = replace(target, port=secrets.choice(PORTS))
    if print_script:
        # A script can be submitted many times, so its name has no random part.
        _print_script(replace(job, name=f"busbw-{options.first_word.replace('_', '-')}"), target)
        return ExitCode.GOOD

    is_own_job_of_srun = not is_batch and not current_allocation.job
    if is_own_job_of_srun and exclusive:
        max_processes_per_node = max([default_processes, *(host.processes for host in hosts)])
        target, processor_remarks = with_all_processors(target, max_processes_per_node)
        remarks = (*remarks, *processor_remarks)
    runs_local_program = options.measures and not container_image and not options.program_path
    if runs_local_program and not options.dry_run:
        require_gpu_support(requested_gpus or 0, options)
    plan = launcher.render(job, target)
    plan = replace(plan, remarks=(*plan.remarks, *remarks), pending_limit_s=pending_timeout_s)
    if detach and not options.dry_run:
        with checked_interrupts():  # an interrupt must not hide a submitted job
            _print_attach_command(launcher.start(plan), target)
        return ExitCode.GOOD
    return _execute_on_started_nodes(options, plan, job, target)


def _execute_on_started_nodes(options: LaunchOptions, plan: launcher.SlurmPlan, job: Job, target: SlurmTarget) -> int:
    """Executes a plan, and returns the exit code. A job that tolerates losses starts again without failed nodes."""
    try:
        return execute_steps(options, plan)
    except NodesNotStartedError as error:
        lost_nodes = error.reasons
        smaller_job = replace(job.with_lost_hosts(lost_nodes), nodes=job.nodes - len(lost_nodes))
        smaller_target = target.without_nodes(lost_nodes)
        processes_left = process_count(smaller_target.hosts) if target.hosts else smaller_job.processes
        if not job.tolerates_losses or processes_left * job.ranks_per_process < 2:
            raise
    for node, reason in lost_nodes.items():
        click.echo(f"busbw: {node}: {reason}. The job starts without it.", err=True)
    smaller_plan = launcher.render(smaller_job, smaller_target)
    return execute_steps(options, replace(smaller_plan, pending_limit_s=plan.pending_limit_s))


def _allocated_hosts(allocation: Allocation, node_count: int, processes: int) -> tuple[HostSlots, ...]:
    """Returns the first nodes of the allocation, each with this number of processes. Empty without an allocation."""
    names = list(expand_hostlist(allocation.node_list))[:node_count]
    return tuple(HostSlots(name, processes) for name in names)


def _has_join_limit(options: LaunchOptions) -> bool:
    variables = {*os.environ, *dict(options.environment)}
    return options.join_timeout_s is not None or "BUSBW_JOIN_TIMEOUT_S" in variables


def _print_script(job: Job, target: SlurmTarget) -> None:
    command_line = shlex.join(["busbw", *without_secrets(sys.argv[1:])]).replace("\n", " ")
    click.echo(batch_script(job, replace(target, standalone=True), command_line), nl=False)


def _processes_per_node(
    options: LaunchOptions, option_value: int | None, gpus_per_node: int | None, allocation: Allocation
) -> int:
    """Returns the number of processes per node from the options, else from the allocation."""
    if option_value is not None:
        return option_value
    if gpus_per_node is None and options.machine_type is None:
        if allocation.tasks_per_node:
            return allocation.tasks_per_node
        gpus_per_node = allocation.gpus_per_node
    if gpus_per_node:
        return max(1, gpus_per_node // options.ranks_per_process)
    return options.processes_per_node(None)


def _job_folder(output_folder: Path | None, job: Job) -> Path:
    """Returns the absolute folder for the files of a batch job."""
    folder = (output_folder or Path(launcher.PARENT_FOLDER) / job.name).absolute()
    if any(character in str(folder) for character in "\n%\\"):  # Slurm's file name patterns give % and \ a meaning
        raise UsageError(f"Slurm cannot write to a folder with the name {folder}", remedy="set another --output-folder")
    return folder


def _print_attach_command(job_id: str, target: SlurmTarget) -> None:
    click.echo(f"busbw: job {job_id} is submitted; busbw launch attach {target.folder} follows it and keeps its record")
    click.echo(f"busbw: scancel {job_id} cancels it", file=sys.stderr)
