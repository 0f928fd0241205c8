"""`busbw launch ssh`: processes on hosts that are reached by ssh."""

import secrets
from pathlib import Path

import click

from busbw.cli.launch.execute import execute_plan
from busbw.cli.launch.hosts import PORTS, host_options, named_hosts, port_option, root_address_option, words_of
from busbw.cli.launch.options import COMMAND_SETTINGS, LaunchOptions, common_options, require_possible
from busbw.errors import UsageError
from busbw.launchers import ssh as launcher
from busbw.launchers.job.hosts import root_address_by_name, total
from busbw.launchers.ssh.preflight import known_name


@click.command(context_settings=COMMAND_SETTINGS)
@host_options
@click.option(
    "--ssh", "ssh_text", default="ssh", show_default=True, metavar="COMMAND", help="With options: 'ssh -p 2222'."
)
@root_address_option
@port_option
@common_options
def ssh(
    asked: LaunchOptions,
    hosts: str | None,
    hostfile: Path | None,
    processes_per_node: int | None,
    ssh_text: str,
    root_address: str | None,
    port: int | None,
) -> int:
    """Starts COLLECTIVE on hosts over ssh, without a password; the programs must be there, and nothing else."""
    named = named_hosts(hosts, hostfile, processes=asked.processes_per_node(processes_per_node))
    if not named:
        raise UsageError("no host is named", remedy="give --hosts a,b or --hostfile FILE")
    require_possible(total(named), asked.ranks_per_process)
    ssh_words = words_of("--ssh", ssh_text)
    programs = tuple(dict.fromkeys(asked.remote_programs()))
    where = launcher.SshTarget(
        hosts=named,
        port=port or secrets.choice(PORTS),
        ssh=ssh_words,
        root_address=root_address or root_address_by_name(named, known_name(ssh_words, named[0])),
        programs=programs,
    )
    job = asked.job(programs[0], nodes=len(named))
    return execute_plan(asked, launcher.render(job, where), launcher.submit)
