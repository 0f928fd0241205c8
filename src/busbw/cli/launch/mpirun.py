"""`busbw launch mpirun`: processes started by Open MPI's, MPICH's or Intel MPI's mpirun."""

import os
import secrets
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import click

from busbw import engine
from busbw.cli.launch.execute import execute_plan
from busbw.cli.launch.hosts import PORTS, host_options, named_hosts, port_option, root_address_option, words_of
from busbw.cli.launch.options import COMMAND_SETTINGS, LaunchOptions, common_options
from busbw.cli.options.deprecated import renamed_option
from busbw.cli.options.param_types import NonEmptyPath
from busbw.errors import BusbwError, UsageError
from busbw.launchers import mpirun as launcher
from busbw.launchers.job.hosts import HostSlots, in_url, root_address_by_name
from busbw.launchers.job.job import Job


@click.command(context_settings=COMMAND_SETTINGS)
@host_options
@click.option(
    "--mpirun", "mpirun_text", default="mpirun", show_default=True, metavar="COMMAND", help="Name or path of it."
)
@click.option(
    "--mpi-family",
    "family",
    type=click.Choice(["auto", "openmpi", "mpich"]),
    default="auto",
    show_default=True,
    help="Whose options it takes; auto asks it. Intel MPI takes MPICH's.",
)
@renamed_option("--mpi", "--mpi-family")
@click.option("--bind-to", default="none", show_default=True, metavar="WHAT", help="What a process is bound to.")
@click.option("--oversubscribe", is_flag=True, help="Open MPI: more processes than slots.")
@click.option("--allow-run-as-root", "as_root", is_flag=True, help="Open MPI: start processes for root.")
@click.option(
    "--mpirun-arg", "more", multiple=True, metavar="WORD", help="A further word for mpirun; may be given again."
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
    asked: LaunchOptions,
    hosts: str | None,
    hostfile: Path | None,
    processes_per_node: int | None,
    mpirun_text: str,
    family: str,
    bind_to: str,
    oversubscribe: bool,
    as_root: bool,
    more: tuple[str, ...],
    root_address: str | None,
    port: int | None,
    rendezvous_folder: Path | None,
) -> int:
    """Starts COLLECTIVE by mpirun; the programs need no MPI. Without hosts on this machine, on every GPU or as 4."""
    words = words_of("--mpirun", mpirun_text)
    named = named_hosts(hosts, hostfile, processes=asked.processes_per_node(processes_per_node))
    named = named or (HostSlots("localhost", processes_per_node or engine.default_ranks()),)
    if strange := next((host.name for host in named if "@" in host.name or ":" in host.name), ""):
        raise UsageError(
            f"mpirun takes names of hosts, and {strange} is more", remedy="name it in ~/.ssh/config or /etc/hosts"
        )
    if rendezvous_folder is not None and (root_address or port):
        raise UsageError(
            "--rendezvous-folder and an address both say where the processes meet", remedy="give one of them"
        )
    programs = asked.remote_programs()
    job = asked.job(programs[0], nodes=len(named))
    taken, remarks = _family(words, family, dry_run=asked.dry_run)
    where = launcher.MpirunTarget(
        family=taken,
        hosts=named,
        store=_store(job, named, root_address, port, rendezvous_folder),
        mpirun=words,
        programs=programs,
        bind_to=bind_to,
        as_root=as_root or os.geteuid() == 0,
        oversubscribe=oversubscribe,
        extra_words=more,
    )
    rendered = launcher.render(job, where)
    return execute_plan(asked, replace(rendered, remarks=(*rendered.remarks, *remarks)), launcher.submit)


def _store(job: Job, hosts: tuple[HostSlots, ...], address: str | None, port: int | None, folder: Path | None) -> str:
    if folder is not None:
        return f"file://{folder.absolute()}/{job.name}"
    return f"tcp://{in_url(address or root_address_by_name(hosts, hosts[0].address))}:{port or secrets.choice(PORTS)}"


def _family(words: tuple[str, ...], named: str, *, dry_run: bool) -> tuple[launcher.Family, tuple[str, ...]]:
    """Whose mpirun it is, and what is to be said of that: a dry run needs none.

    Raises:
        BusbwError: It cannot be asked.
        UsageError: What it says is of neither.
    """
    if named != "auto":
        return ("openmpi" if named == "openmpi" else "mpich"), ()
    try:
        done = subprocess.run([*words, "--version"], capture_output=True, text=True, timeout=30, errors="replace")
    except (OSError, subprocess.SubprocessError) as error:
        why = error.strerror if isinstance(error, OSError) else "it does not answer"
        if dry_run:
            remark = (
                f"{shlex.join(words)} cannot be asked whose it is ({why}): "
                "shown for Open MPI; --mpi-family names another."
            )
            return "openmpi", (remark,)
        raise BusbwError(
            f"cannot ask {shlex.join(words)} for its version: {why}",
            remedy="install an MPI, name its mpirun with --mpirun PATH, or use busbw launch ssh, which needs none",
        ) from error
    family = launcher.family_of(done.stdout + done.stderr)
    if family is None:
        first = (done.stdout + done.stderr).strip().partition("\n")[0]
        raise UsageError(
            f'{shlex.join(words)} says of its version "{first}", which is neither Open MPI nor MPICH',
            remedy="give --mpi-family openmpi or --mpi-family mpich, whose options it takes",
        )
    return family, ()
