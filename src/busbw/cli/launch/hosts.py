"""The options that name hosts, for the launchers that are given some."""

from collections.abc import Callable
from pathlib import Path

import click

from busbw.errors import UsageError
from busbw.launchers.hosts import Host, parse_hostfile, parse_hosts


def host_options(command: Callable[..., int]) -> Callable[..., int]:
    """Gives a kind `--hosts`, `--hostfile` and `--processes-per-node`."""
    for option in (
        click.option(
            "--processes-per-node",
            type=click.IntRange(min=1),
            metavar="N",
            help="On each host that has no count of its own.  [default: one for each GPU of --system, or 1]",
        ),
        click.option(
            "--hostfile",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="A host on each line: host, host slots=8, or host:8.",
        ),
        click.option("--hosts", metavar="LIST", help="Hosts, each perhaps with its processes: a,b:8."),
    ):
        command = option(command)
    return command


def named_hosts(hosts: str | None, hostfile: Path | None, *, processes: int) -> tuple[Host, ...]:
    """The hosts that one of the two options names; empty where neither is given.

    Raises:
        UsageError: Both are given, the file cannot be read, or something in it is no host.
    """
    if hosts is not None and hostfile is not None:
        raise UsageError("--hosts and --hostfile both say where the processes start", remedy="give one of them")
    if hosts is not None:
        return parse_hosts(hosts, processes=processes)
    if hostfile is None:
        return ()
    try:
        text = hostfile.read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(
            f"cannot read --hostfile {hostfile}: {why}", remedy="give a file with a host on each line"
        ) from error
    return parse_hostfile(text, str(hostfile), processes=processes)
