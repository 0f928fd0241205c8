"""`busbw launch mpirun`: options of the launcher `busbw.launchers.mpirun`."""

import os
import secrets
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Literal

import click

from busbw import engine
from busbw.cli.launch.execute import execute_plan
from busbw.cli.launch.hosts import PORTS, host_options, port_option, read_hosts, root_address_option
from busbw.cli.launch.options import COMMAND_SETTINGS, LaunchOptions, common_options
from busbw.cli.options.command_words import split_command
from busbw.cli.options.deprecated import renamed_option
from busbw.cli.options.engine_words import EngineCommand
from busbw.cli.options.param_types import NonEmptyPath
from busbw.errors import BusbwError, UsageError
from busbw.launchers import mpirun as launcher
from busbw.launchers.job.hosts import HostSlots, in_url, root_address_by_name
from busbw.launchers.job.job import Job


@click.command(cls=EngineCommand, context_settings=COMMAND_SETTINGS)
@host_options
@click.option(
    "--mpirun",
    "mpirun_text",
    default="mpirun",
    show_default=True,
    metavar="COMMAND",
    help="mpirun to use: name or path.",
)
@click.option(
    "--mpi-family",
    "family",
    type=click.Choice(["auto", "openmpi", "mpich"]),
    default="auto",
    show_default=True,
    help="MPI with the options of mpirun; auto asks mpirun. Intel MPI: mpich.",
)
@renamed_option("--mpi", "--mpi-family")
@click.option("--bind-to", default="none", show_default=True, metavar="TARGET", help="Bind each process to this.")
@click.option("--oversubscribe", is_flag=True, help="Open MPI: allow more processes than slots.")
@click.option("--allow-run-as-root", "as_root", is_flag=True, help="Open MPI: allow root to start processes.")
@click.option(
    "--mpirun-arg", "extra_words", multiple=True, metavar="WORD", help="Additional argument for mpirun; repeatable."
)
@root_address_option
@port_option
@click.option(
    "--rendezvous-folder",
    type=NonEmptyPath(),
    metavar="FOLDER",
    help="Shared folder for the rendezvous of the processes, instead of an address.",
)
@renamed_option("--store-folder", "--rendezvous-folder")
@common_options
def mpirun(
    options: LaunchOptions,
    hosts: str | None,
    hostfile: Path | None,
    processes_per_node: int | None,
    mpirun_text: str,
    family: Literal["auto", launcher.Family],
    bind_to: str,
    oversubscribe: bool,
    as_root: bool,
    extra_words: tuple[str, ...],
    root_address: str | None,
    port: int | None,
    rendezvous_folder: Path | None,
) -> int:
    """Starts COLLECTIVE with mpirun; the programs need no MPI.

    Without hosts it runs on this machine, with one process per GPU. Without GPUs it starts one process per processor,
    at least 2 and at most 4.
    """
    mpirun_words = split_command("--mpirun", mpirun_text)
    host_slots = read_hosts(options, hosts, hostfile, processes=options.processes_per_node(processes_per_node))
    host_slots = host_slots or (HostSlots("localhost", processes_per_node or engine.default_ranks()),)
    if invalid := next((host.name for host in host_slots if "@" in host.name or ":" in host.name), ""):
        raise UsageError(
            f"mpirun takes only host names, got {invalid}", remedy="define a name in ~/.ssh/config or /etc/hosts"
        )
    if rendezvous_folder is not None and (root_address or port):
        raise UsageError("--rendezvous-folder excludes --root-address and --port", remedy="give only one")
    programs = options.remote_programs()
    job = options.job(programs[0], nodes=len(host_slots), requested_gpus=options.known_gpus_per_node)
    mpi_family, remarks = _select_family(mpirun_words, family, dry_run=options.dry_run)
    target = launcher.MpirunTarget(
        family=mpi_family,
        hosts=host_slots,
        store=_rendezvous(job, host_slots, root_address, port, rendezvous_folder),
        mpirun=mpirun_words,
        programs=programs,
        bind_to=bind_to,
        as_root=as_root or os.geteuid() == 0,
        oversubscribe=oversubscribe,
        extra_words=extra_words,
    )
    plan = launcher.render(job, target)
    return execute_plan(options, replace(plan, remarks=(*plan.remarks, *remarks)), launcher.submit)


def _rendezvous(
    job: Job, hosts: tuple[HostSlots, ...], address: str | None, port: int | None, folder: Path | None
) -> str:
    """Returns the URL by which the processes find process 0: its address, or a new folder in the shared folder."""
    if folder is not None:
        return f"file://{folder.absolute()}/{job.name}"
    address = address or root_address_by_name(hosts, hosts[0].address)
    return f"tcp://{in_url(address)}:{port or secrets.choice(PORTS)}"


def _select_family(
    mpirun_words: tuple[str, ...], option_value: Literal["auto", launcher.Family], *, dry_run: bool
) -> tuple[launcher.Family, tuple[str, ...]]:
    """Returns the value of `--mpi-family` or the family of this mpirun, and notes for the user.

    A dry run assumes Open MPI if mpirun does not run.
    """
    if option_value != "auto":
        return option_value, ()
    command_text = shlex.join(mpirun_words)
    try:
        version_text = _version_text(mpirun_words)
    except (OSError, subprocess.SubprocessError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no answer"
        if dry_run:
            remark = (
                f"cannot detect the MPI of {command_text} ({reason}): "
                "shown for Open MPI; set another with --mpi-family."
            )
            return "openmpi", (remark,)
        raise BusbwError(
            f"cannot get the version of {command_text}: {reason}",
            remedy="install an MPI, set --mpirun PATH, or use busbw launch ssh",
        ) from error
    family = launcher.family_of(version_text)
    if family is None:
        first_line = version_text.strip().partition("\n")[0]
        raise UsageError(
            f'{command_text} has version "{first_line}", which is neither Open MPI nor MPICH',
            remedy="set --mpi-family openmpi or --mpi-family mpich",
        )
    return family, ()


def _version_text(mpirun_words: tuple[str, ...]) -> str:
    """Returns all output of `mpirun --version`."""
    done = subprocess.run([*mpirun_words, "--version"], capture_output=True, text=True, timeout=30, errors="replace")
    return done.stdout + done.stderr
