"""`busbw launch ssh`: processes on hosts that are reached by ssh."""

import secrets
import shlex
from pathlib import Path

import click

from busbw.cli.launch.asked import COMMAND, Asked, common_options
from busbw.cli.launch.carry_out import carry_out
from busbw.cli.launch.hosts import host_options, named_hosts
from busbw.errors import UsageError
from busbw.launchers import ssh as launcher
from busbw.launchers.ssh_preflight import known_name

_PORTS = range(20000, 32000)
"""Below those that a machine gives to its outgoing connections, and above those of services."""


@click.command(context_settings=COMMAND)
@host_options
@click.option(
    "--ssh", "ssh_text", default="ssh", show_default=True, metavar="COMMAND", help="With options: 'ssh -p 2222'."
)
@click.option(
    "--root-address", metavar="ADDRESS", help="By which the others reach the first host.  [default: its name]"
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help=f"Where the first process listens.  [default: one of {_PORTS.start} to {_PORTS.stop - 1}]",
)
@common_options
def ssh(
    asked: Asked,
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
    try:
        ssh_words = tuple(shlex.split(ssh_text))
    except ValueError as error:
        raise UsageError(f'--ssh "{ssh_text}": {error}', remedy="quote it as in a shell") from error
    if not ssh_words:
        raise UsageError("--ssh is empty", remedy="give --ssh ssh, or leave it out")
    programs = tuple(dict.fromkeys(asked.programs_there()))
    where = launcher.Where(
        hosts=named,
        port=port or secrets.choice(_PORTS),
        ssh=ssh_words,
        root_address=root_address or launcher.root_by_name(named, known_name(ssh_words, named[0])),
        programs=programs,
    )
    job = asked.job(programs[0], nodes=len(named))
    return carry_out(asked, launcher.render(job, where), launcher.submit)
