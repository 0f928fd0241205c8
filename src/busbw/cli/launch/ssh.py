"""`busbw launch ssh`: options of the launcher `busbw.launchers.ssh`."""

import secrets
from pathlib import Path

import click

from busbw.cli.launch.execute import execute_plan
from busbw.cli.launch.hosts import PORTS, host_options, port_option, read_hosts, root_address_option, split_command
from busbw.cli.launch.options import COMMAND_SETTINGS, LaunchOptions, common_options, require_valid_size
from busbw.errors import UsageError
from busbw.launchers import ssh as launcher
from busbw.launchers.job.hosts import process_count, root_address_by_name
from busbw.launchers.ssh.preflight import resolve_host_name


@click.command(context_settings=COMMAND_SETTINGS)
@host_options
@click.option(
    "--ssh",
    "ssh_text",
    default="ssh",
    show_default=True,
    metavar="COMMAND",
    help="ssh with its options: 'ssh -p 2222'.",
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
    root_address: str | None,
    port: int | None,
) -> int:
    """Starts COLLECTIVE on hosts over ssh without a password. The hosts need only the programs."""
    host_slots = read_hosts(hosts, hostfile, processes=options.processes_per_node(processes_per_node))
    if not host_slots:
        raise UsageError("no host is given", remedy="set --hosts a,b or --hostfile FILE")
    require_valid_size(process_count(host_slots), options.ranks_per_process)
    ssh_words = split_command("--ssh", ssh_text)
    programs = tuple(dict.fromkeys(options.remote_programs()))
    target = launcher.SshTarget(
        hosts=host_slots,
        port=port or secrets.choice(PORTS),
        ssh=ssh_words,
        root_address=root_address or root_address_by_name(host_slots, resolve_host_name(ssh_words, host_slots[0])),
        programs=programs,
    )
    job = options.job(programs[0], nodes=len(host_slots), requested_gpus=options.requested_gpus)
    return execute_plan(options, launcher.render(job, target), launcher.submit)
