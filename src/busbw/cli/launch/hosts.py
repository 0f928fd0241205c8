"""The options that name hosts, for the launchers that are given some."""

import shlex
from collections.abc import Callable
from pathlib import Path

import click

from busbw.cli.launch.options import require_possible
from busbw.cli.options.param_types import NonEmptyPath
from busbw.errors import UsageError
from busbw.files import read_user_file
from busbw.launchers.job.hosts import HostSlots, is_address, parse_hostfile, parse_hosts, total

PORTS = range(20000, 32000)
"""Below those that a machine gives to its outgoing connections, and above those of services."""

port_option = click.option(
    "--port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help=f"Where the first process listens.  [default: one of {PORTS.start} to {PORTS.stop - 1}]",
)


def _address(_context: click.Context, _option: click.Parameter, text: str | None) -> str | None:
    if text and not is_address(text):  # an empty one is refused with all other empty words
        raise UsageError(f'--root-address "{text}" is no address', remedy="give a name or an address")
    return text


root_address_option = click.option(
    "--root-address",
    metavar="ADDRESS",
    callback=_address,
    help="By which the others reach the first host.  [default: its name]",
)


def host_options(command: Callable[..., int]) -> Callable[..., int]:
    """Gives a kind `--hosts`, `--hostfile` and `--processes-per-node`."""
    for option in (
        click.option(
            "--processes-per-node",
            type=click.IntRange(min=1),
            metavar="N",
            help="On each host that has no count of its own.  [default: one for each GPU of --machine-type, or 1]",
        ),
        click.option(
            "--hostfile",
            type=NonEmptyPath(),
            metavar="FILE",
            help="A host on each line: host, host slots=8, or host:8.",
        ),
        click.option("--hosts", metavar="LIST", help="Hosts, each perhaps with its processes: a,b:8."),
    ):
        command = option(command)
    return command


def named_hosts(hosts: str | None, hostfile: Path | None, *, processes: int) -> tuple[HostSlots, ...]:
    """The hosts that one of the two options names; empty where neither is given.

    Raises:
        UsageError: Both are given, the file cannot be read, or something in it is no host.
    """
    if hosts is not None and hostfile is not None:
        raise UsageError("--hosts and --hostfile both say where the processes start", remedy="give one of them")
    if hosts is not None:
        return _possible(parse_hosts(hosts, processes=processes))
    if hostfile is None:
        return ()
    try:
        text = read_user_file(hostfile).decode()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(
            f"cannot read --hostfile {hostfile}: {why}", remedy="give a file with a host on each line"
        ) from error
    return _possible(parse_hostfile(text, str(hostfile), processes=processes))


def _possible(hosts: tuple[HostSlots, ...]) -> tuple[HostSlots, ...]:
    require_possible(total(hosts), 1)
    return hosts


def words_of(option: str, text: str) -> tuple[str, ...]:
    """The words of an option that names a command, with options of its own.

    Raises:
        UsageError: There is none, or its quotes do not match.
    """
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f'{option} "{text}": {error}', remedy="quote it as in a shell") from error
    if not words:
        raise UsageError(f"{option} is empty", remedy="name a command, or leave it out")
    return words
