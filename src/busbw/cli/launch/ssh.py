"""`busbw launch ssh`: options of the launcher `busbw.launchers.ssh`."""

import hashlib
import secrets
from pathlib import Path

import click

from busbw import engine
from busbw.cli.launch.execute import execute_plan
from busbw.cli.launch.hosts import PORTS, host_options, port_option, read_hosts, root_address_option
from busbw.cli.launch.options import COMMAND_SETTINGS, LaunchOptions, common_options
from busbw.cli.options.command_words import split_command
from busbw.cli.options.engine_words import EngineCommand
from busbw.errors import BusbwError, UsageError
from busbw.launchers import ssh as launcher
from busbw.launchers.job.hosts import HostSlots, process_count, root_address_by_name
from busbw.launchers.job.job import Job, LaunchCallbacks
from busbw.launchers.ssh.preflight import HostsNotReadyError, resolve_host_name


def _engine_copy(options: LaunchOptions, parent: str) -> launcher.ProgramCopy:
    """Returns this machine's engine as the program to copy.

    The copy has the name of the collective's program, because the engine takes the collective from its own name.

    Raises:
        UsageError: `--program-path` is also given, or the folder is relative or has characters that a shell interprets.
        BusbwError: The engine is not installed, and this is no dry run.
    """
    if options.program_path:
        raise UsageError("--copy-to and --program-path exclude each other", remedy="give only one")
    folder = launcher.require_plain_folder(parent)
    try:
        source = engine.program(engine.ENGINE).resolve()
    except BusbwError:
        if options.dry_run:
            return launcher.ProgramCopy(Path(engine.ENGINE), "SHA256", folder)
        raise
    return launcher.ProgramCopy(source, hashlib.sha256(source.read_bytes()).hexdigest(), folder)


@click.command(cls=EngineCommand, context_settings=COMMAND_SETTINGS)
@host_options
@click.option(
    "--ssh",
    "ssh_text",
    default="ssh",
    show_default=True,
    metavar="COMMAND",
    help="ssh with its options: 'ssh -p 2222'.",
)
@click.option(
    "--copy-to",
    metavar="FOLDER",
    help="Copy the program to a new folder in FOLDER of each host, such as /tmp; remove it afterwards.",
)
@root_address_option
@port_option
@common_options
def ssh(
    options: LaunchOptions,
    hosts: str | None,
    hostfile: Path | None,
    processes_per_node: int | None,
    ssh_text: str,
    copy_to: str | None,
    root_address: str | None,
    port: int | None,
) -> int:
    """Starts COLLECTIVE on hosts over ssh without a password. The hosts need only the programs, or --copy-to."""
    host_slots = read_hosts(options, hosts, hostfile, processes=options.processes_per_node(processes_per_node))
    if not host_slots:
        raise UsageError("no host is given", remedy="set --hosts a,b or --hostfile FILE")
    ssh_words = split_command("--ssh", ssh_text)
    # To try in this order on each host, without duplicates.
    programs = tuple(dict.fromkeys(options.remote_programs()))
    copy = _engine_copy(options, copy_to) if copy_to else None
    job_port = port or secrets.choice(PORTS)
    program = options.program_name if copy else programs[0]
    job = options.job(program, nodes=len(host_slots), requested_gpus=options.known_gpus_per_node)

    def make_plan(used_hosts: tuple[HostSlots, ...], planned_job: Job) -> launcher.SshPlan:
        target = launcher.SshTarget(
            hosts=used_hosts,
            port=job_port,
            ssh=ssh_words,
            root_address=root_address or root_address_by_name(used_hosts, resolve_host_name(ssh_words, used_hosts[0])),
            programs=programs,
            copy=copy,
        )
        return launcher.render(planned_job, target)

    def submit(plan: launcher.SshPlan, callbacks: LaunchCallbacks) -> int:
        """Runs the job. If it tolerates losses, starts once more without the hosts that are not ready."""
        try:
            return launcher.submit(plan, callbacks)
        except HostsNotReadyError as error:
            reason_by_name = {failed.host: failed.reason for failed in error.failed}
            ready = tuple(host for host in host_slots if host.name not in reason_by_name)
            has_enough_ranks = process_count(ready) * options.ranks_per_process > 1
            # --root-address is an address of the first host, so it is useless if that host is lost.
            is_root_address_usable = root_address is None or host_slots[0] in ready
            if not (job.tolerates_losses and has_enough_ranks and is_root_address_usable):
                raise
        # Messages have the address of a host: its name without the user before it.
        lost = {host.address: reason_by_name[host.name] for host in host_slots if host.name in reason_by_name}
        for address, reason in lost.items():
            callbacks.print_error(f"{address}: {reason}. The job starts without it.")
        return launcher.submit(make_plan(ready, job.with_lost_hosts(lost)), callbacks)

    return execute_plan(options, make_plan(host_slots, job), submit)
