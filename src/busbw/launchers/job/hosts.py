"""Parses lists of hosts from command lines and from hostfiles of mpirun.

Each host has slots, as in Open MPI: the number of processes that it runs.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from busbw.errors import UsageError

_NAME = re.compile(
    r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*@)?(?:[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*)\Z"
)
"""Host name or address, optionally with a user before it: `n1`, `me@n1`, `fe80::1`.

It cannot begin with a dash, so it cannot be taken for an option."""
_HOST_WITH_COUNT = re.compile(r"(?:\[(?P<v6>[^\]]*)\]|(?P<name>[^:\[\]]*))(?::(?P<count>.*))?\Z")
"""A host, optionally with a number of processes: `host`, `host:8`, `[fe80::1]:8`."""
_COUNT = re.compile(r"[1-9][0-9]{0,5}\Z")
"""A number of processes, 1 to 999,999."""
_SETTING = re.compile(r"(?P<name>[A-Za-z_-]+)\s*=\s*(?P<value>\S+)")
"""A setting after a host in a hostfile: `slots = 8`."""
_IGNORED_SETTINGS = {"max_slots", "max-slots", "maxslots"}
"""Settings in hostfiles of Open MPI that matter only if more processes than slots are started."""

_LOOPBACK = ("localhost", "127.", "::1")


@dataclass(frozen=True)
class HostSlots:
    """A host and its number of processes."""

    name: str
    """Name, address or alias of the ssh configuration as typed, optionally with a user before it."""
    processes: int

    @property
    def address(self) -> str:
        """The name without a user."""
        return self.name.rpartition("@")[2]


def parse_hosts(text: str, *, processes: int) -> tuple[HostSlots, ...]:
    """Parses the value of `--hosts`, such as `a,b:2,[fe80::1]:4`.

    Args:
        text: The list.
        processes: Number of processes on a host without a count.

    Raises:
        UsageError: An entry is not a host.
    """
    return merge_hosts(_parse_host(word.strip(), f'--hosts "{text}"', processes) for word in text.split(","))


def parse_hostfile(text: str, path: str, *, processes: int) -> tuple[HostSlots, ...]:
    """Parses a hostfile. Its lines are `host`, `host slots=8` (Open MPI) or `host:8` (MPICH); `#` begins a comment.

    Args:
        text: Content of the file.
        path: Path of the file, for error messages.
        processes: Number of processes on a host without a count.

    Raises:
        UsageError: A line has another format, or the file has no hosts.
    """
    hosts = []
    for number, line in enumerate(text.splitlines(), start=1):
        entry = line.partition("#")[0].strip()
        if not entry:
            continue
        location = f"{path}:{number}"
        name, *settings = entry.split(maxsplit=1)
        host = _parse_host(name, location, processes)
        settings_without_blanks = _SETTING.sub(r"\g<name>=\g<value>", "".join(settings))
        for word in settings_without_blanks.split():
            setting, equals, value = word.partition("=")
            if setting == "slots" and _COUNT.match(value):
                host = HostSlots(host.name, int(value))
            elif not equals or setting not in _IGNORED_SETTINGS:
                raise UsageError(
                    f'{location}: unexpected "{word}" after the host', remedy="write host, host slots=8 or host:8"
                )
        hosts.append(host)
    if not hosts:
        raise UsageError(f"{path} contains no host", remedy="write one host per line")
    return merge_hosts(hosts)


def _parse_host(word: str, location: str, processes: int) -> HostSlots:
    """Parses a host with an optional number of processes, by default `processes`."""
    name, count = word, None
    is_ipv6_without_brackets = word.count(":") > 1 and not word.startswith("[")
    if not is_ipv6_without_brackets and (match := _HOST_WITH_COUNT.match(word)):
        name = match["v6"] or match["name"] or ""
        count = match["count"]
    if not _NAME.match(name):
        raise UsageError(f'{location}: "{word}" is not a host', remedy="write host or host:8, separated by commas")
    if count is None:
        return HostSlots(name, processes)
    if not _COUNT.match(count):
        raise UsageError(
            f'{location}: "{word}" has no number of processes after the colon',
            remedy="write host:8, or only the host",
        )
    return HostSlots(name, int(count))


def is_address(text: str) -> bool:
    """True for a host name or an address without a user. An IPv6 address may be in brackets."""
    address = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    return "@" not in address and _NAME.match(address) is not None


def merge_hosts(hosts: Iterable[HostSlots]) -> tuple[HostSlots, ...]:
    """Merges repeated hosts and adds up their processes. Keeps the order of first occurrence."""
    counts: dict[str, int] = {}
    for host in hosts:
        counts[host.name] = counts.get(host.name, 0) + host.processes
    return tuple(HostSlots(name, count) for name, count in counts.items())


def process_count(hosts: Sequence[HostSlots]) -> int:
    """Number of processes on all hosts."""
    return sum(host.processes for host in hosts)


def root_address_by_name(hosts: Sequence[HostSlots], resolved_name: str) -> str:
    """Returns the address of process 0 for the other hosts. It is the loopback address for a single host.

    Args:
        hosts: All hosts of the job.
        resolved_name: Name or address that the first host's name stands for, such as the HostName of its ssh alias.
            The first host runs process 0.

    Raises:
        UsageError: The resolved name is a loopback address, so the other hosts cannot reach process 0.
    """
    if len(hosts) == 1:
        return "127.0.0.1"
    if resolved_name.startswith(_LOOPBACK):
        raise UsageError(
            f"the first host, {hosts[0].name}, resolves to {resolved_name}, which other hosts cannot reach",
            remedy="use a name that all hosts resolve, or set --root-address ADDRESS",
        )
    return resolved_name


def in_url(address: str) -> str:
    """Returns the address as a URL contains it: IPv6 in brackets."""
    return f"[{address}]" if ":" in address and not address.startswith("[") else address
