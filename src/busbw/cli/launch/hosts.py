"""Options that name hosts, for the launchers that need a list of hosts."""

from collections.abc import Callable
from pathlib import Path

import click

from busbw.cli.launch.options import LaunchOptions
from busbw.cli.options.param_types import NonEmptyPath
from busbw.errors import UsageError
from busbw.launchers.job.hosts import HostSlots, is_address, parse_hostfile, parse_hosts, process_count
from busbw.support.files import read_user_file

PORTS = range(20000, 32000)
"""Ports to choose from for process 0: below the usual ephemeral ports and above the ports of services."""

port_option = click.option(
    "--port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help=f"Port of process 0.  [default: one of {PORTS.start} to {PORTS.stop - 1}]",
)


def _check_address(_context: click.Context, _option: click.Parameter, text: str | None) -> str | None:
    if text and not is_address(text):  # common_options refuses an empty value
        raise UsageError(f'--root-address "{text}" is not an address', remedy="give a host name or an IP address")
    return text


root_address_option = click.option(
    "--root-address",
    metavar="ADDRESS",
    callback=_check_address,
    help="Address of the first host for the other hosts.  [default: its name]",
)


def host_options(command: Callable[..., int]) -> Callable[..., int]:
    """Adds `--hosts`, `--hostfile` and `--processes-per-node` to a launcher."""
    for option in (
        click.option(
            "--processes-per-node",
            type=click.IntRange(min=1),
            metavar="N",
            help="Processes on each host without its own count.  [default: 1, or one rank per GPU of --machine-type]",
        ),
        click.option(
            "--hostfile",
            type=NonEmptyPath(),
            metavar="FILE",
            help="File with one host per line: host, host slots=8, or host:8.",
        ),
        click.option("--hosts", metavar="LIST", help="Hosts, optionally with their number of processes: a,b:8."),
    ):
        command = option(command)
    return command


def read_hosts(
    options: LaunchOptions, hosts: str | None, hostfile: Path | None, *, processes: int
) -> tuple[HostSlots, ...]:
    """Returns the hosts of `--hosts` or `--hostfile`; empty if neither is given.

    Args:
        options: Options of the launcher.
        hosts: Value of `--hosts`.
        hostfile: Value of `--hostfile`.
        processes: Number of processes on a host without a count.

    Raises:
        UsageError: Both are given, the file cannot be read, an entry is not a host, or the job is too large.
    """
    if hosts is not None and hostfile is not None:
        raise UsageError("--hosts and --hostfile exclude each other", remedy="give only one")
    slots: tuple[HostSlots, ...] = ()
    if hosts is not None:
        slots = parse_hosts(hosts, processes=processes)
    elif hostfile is not None:
        try:
            text = read_user_file(hostfile).decode()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise UsageError(
                f"cannot read --hostfile {hostfile}: {reason}", remedy="give a file with one host per line"
            ) from error
        slots = parse_hostfile(text, str(hostfile), processes=processes)
    options.require_valid_size(process_count(slots))
    return slots
