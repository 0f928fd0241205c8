"""Lists of hosts as people have them: on a command line, and in the files that mpirun takes."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from busbw.errors import UsageError

_NAME = re.compile(
    r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*@)?(?:[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*)\Z"
)
"""A host's name or address, perhaps with a user before it; nothing that a program would take for an option."""
_WITH_COUNT = re.compile(r"(?:\[(?P<v6>[^\]]*)\]|(?P<name>[^:\[\]]*))(?::(?P<count>.*))?\Z")
_COUNT = re.compile(r"[1-9][0-9]{0,5}\Z")
_SETTING = re.compile(r"(?P<name>[A-Za-z_-]+)\s*=\s*(?P<value>\S+)")
_IGNORED = {"max_slots", "max-slots", "maxslots"}
"""Of Open MPI's hostfiles: a limit that only matters to who starts more processes than there are slots."""

_LOOPBACK = ("localhost", "127.", "::1")


@dataclass(frozen=True)
class HostSlots:
    """Where processes are started."""

    name: str
    """As it was typed: a name, an address, or an alias of the ssh configuration, perhaps with a user before it."""
    processes: int

    @property
    def address(self) -> str:
        """The name without a user."""
        return self.name.rpartition("@")[2]


def parse_hosts(text: str, *, processes: int) -> tuple[HostSlots, ...]:
    """What `--hosts` names: `a,b:2,[fe80::1]:4`.

    Args:
        text: The list.
        processes: On a host without a count.

    Raises:
        UsageError: Something in it is no host.
    """
    return merged(_host(word.strip(), f'--hosts "{text}"', processes) for word in text.split(","))


def parse_hostfile(text: str, path: str, *, processes: int) -> tuple[HostSlots, ...]:
    """The hosts of a file, a line each: `host`, `host slots=8` (Open MPI) or `host:8` (MPICH); `#` begins a comment.

    Args:
        text: The file's content.
        path: Its name, for errors.
        processes: On a host without a count.

    Raises:
        UsageError: A line is none of these, or there is no host.
    """
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].strip()
        if not words:
            continue
        place = f"{path}:{number}"
        name, _, settings = words.partition(" ") if "\t" not in words else _split(words)
        host = _host(name, place, processes)
        for word in _SETTING.sub(lambda match: match["name"] + "=" + match["value"], settings).split():
            setting, equals, value = word.partition("=")
            if setting == "slots" and _COUNT.match(value):
                host = HostSlots(host.name, int(value))
            elif not equals or setting not in _IGNORED:
                raise UsageError(f'{place}: "{word}" behind the host', remedy="write host, host slots=8 or host:8")
        found.append(host)
    if not found:
        raise UsageError(f"{path} names no host", remedy="write one on each line")
    return merged(found)


def _split(words: str) -> tuple[str, str, str]:
    name, *rest = words.split(None, 1)
    return name, " ", rest[0] if rest else ""


def _host(word: str, place: str, processes: int) -> HostSlots:
    matched = _WITH_COUNT.match(word)
    if word.count(":") > 1 and not word.startswith("["):
        matched = None  # an address of IPv6, where a count could not be told from a part of it
        if _NAME.match(word):
            return HostSlots(word, processes)
    name = (matched["v6"] or matched["name"] or "") if matched else ""
    if not matched or not _NAME.match(name):
        raise UsageError(f'{place}: "{word}" is no host', remedy="write host or host:8, with commas between")
    if matched["count"] is None:
        return HostSlots(name, processes)
    if not _COUNT.match(matched["count"]):
        raise UsageError(
            f'{place}: "{word}" has no number of processes behind the colon', remedy="write host:8, or the host alone"
        )
    return HostSlots(name, int(matched["count"]))


def is_address(text: str) -> bool:
    """Whether it is a name or an address without a user; one of IPv6 may stand in brackets."""
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    return "@" not in bare and _NAME.match(bare) is not None


def merged(hosts: Iterable[HostSlots]) -> tuple[HostSlots, ...]:
    """Each host once, with the processes of all of its mentions, in the order of the first."""
    counts: dict[str, int] = {}
    for host in hosts:
        counts[host.name] = counts.get(host.name, 0) + host.processes
    return tuple(HostSlots(name, count) for name, count in counts.items())


def total(hosts: Sequence[HostSlots]) -> int:
    """The processes on all of them."""
    return sum(host.processes for host in hosts)


def root_address_by_name(hosts: Sequence[HostSlots], name: str) -> str:
    """The address of process 0, where only the name of its host is known.

    Args:
        hosts: All of them.
        name: Of the first one.

    Raises:
        UsageError: The others could not reach it by that name.
    """
    if len(hosts) == 1:
        return "127.0.0.1"
    if name.startswith(_LOOPBACK):
        raise UsageError(
            f"the first host, {hosts[0].name}, is {name}, where the other hosts find only themselves",
            remedy="name it as they know it, or give --root-address ADDRESS",
        )
    return name


def in_url(address: str) -> str:
    """An address as it stands before a port."""
    return f"[{address}]" if ":" in address and not address.startswith("[") else address
