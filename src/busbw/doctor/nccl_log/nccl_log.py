"""Content of a log of NCCL: messages, communicators and connections."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from busbw.doctor.model import Evidence, Unreadable, require
from busbw.system import System

_CHANNEL = re.compile(
    r"Channel (?P<channel>\d+)(?:/0)? : (?P<ends>(?P<sender>\d+\[[0-9a-f]+\]) -> (?P<receiver>\d+\[[0-9a-f]+\]))"
    r"(?: \[(?P<side>send|receive)\])? via (?P<via>.+)"
)
"""Message about a connection for collectives, such as "Channel 00/0 : 3[3] -> 8[0] [send] via NET/IB/3/GDRDMA".

The index after the channel is 0; old versions print no index. A connection for send and receive operations has index 1
and does not match.
"""
_VARIABLE = re.compile(r"(NCCL_\w+) set (?:by environment )?to (.*?)\.?$")
_ADAPTER = re.compile(r"NET/IB[^/]*/(\d+)")
_PATTERN_TYPE = re.compile(r"Pattern \d.* type (?!LOC)(\w+)/")
"""Message with the slowest path within a node: "Pattern 4, crossNic 0, nChannels 12, bw 20/20, type NVL/PIX"."""
_NETWORK = re.compile(r"Using network (\S.*)$")


class Process(NamedTuple):
    """The writer of a message. Host and process id are empty if the log does not name them."""

    host: str
    pid: str


class Message(NamedTuple):
    """One message of NCCL."""

    process: Process
    level: str
    """INFO or WARN."""
    text: str
    """Text without header. For warnings with the place in NCCL's source: "transport/nvls.cc:379 Failed to bind"."""
    place: str
    """Line of the log: "job.log line 12"."""

    @property
    def host(self) -> str:
        """Host of the writer. Empty if unknown."""
        return self.process.host

    @property
    def evidence(self) -> Evidence:
        """The message as evidence."""
        return Evidence(self.place, f"{self.host}: {self.text}")


@dataclass
class Communicator:
    """Ranks that initialized together, as far as the log contains them."""

    size: int
    ranks: dict[int, Process] = field(default_factory=dict)
    ends: dict[str, Process] = field(default_factory=dict)
    """Process of each end: a rank and its GPU, as in connections. "3[3]" has the GPU's index, "3[1c000]" its bus id."""
    node_count: int | None = None
    """Number of nodes in NCCL's count: hosts that NVLink connects count as one node. None before version 2.20."""
    uses_mnnvl: bool | None = None
    """True if NVLink connects hosts (MNNVL). None before version 2.20."""
    is_ambiguous: bool = False
    """True if two processes have the same rank: the log mixes communicators without a name."""
    evidence: Evidence | None = None

    @property
    def hosts(self) -> frozenset[str]:
        """Hosts of the known ranks."""
        return frozenset(process.host for process in self.ranks.values())

    @property
    def uses_network(self) -> bool:
        """True if some ranks are on nodes that NVLink does not connect."""
        is_one_nvlink_domain = self.uses_mnnvl and self.node_count == 1
        return len(self.hosts) > 1 and not is_one_nvlink_domain


class Connection(NamedTuple):
    """Connection of two ranks on known hosts, for collectives."""

    host: str
    """Host of the side that printed the connection."""
    peer_host: str
    ends: str
    """Ranks and GPUs of sender and receiver: "3[3] -> 8[0]"."""
    channel: int
    """First channel with these ends and this transport."""
    is_receive: bool
    via: str
    """Transport: P2P/CUMEM/read, SHM/direct/direct, NET/IB/3/GDRDMA."""
    evidence: Evidence

    @property
    def adapter(self) -> str | None:
        """Number of the InfiniBand or RoCE adapter, such as 3. None for another transport."""
        match = _ADAPTER.match(self.via)
        return match[1] if match else None


@dataclass
class NcclLog:
    """Content of a log."""

    messages: list[Message] = field(default_factory=list)
    """Messages about other subjects than ranks and connections. Equal messages of a host occur once."""
    communicators: list[Communicator] = field(default_factory=list)
    channels: list[Message] = field(default_factory=list)
    """Messages about connections, one for each pair of endpoints and transport."""
    unread: str | None = None
    """Reason for which the rest of the log was not read. None if the whole log was read."""
    system: System | None = None
    """System of the nodes, if the user named it."""

    @cached_property
    def has_info(self) -> bool:
        """True if the job ran with NCCL_DEBUG=INFO."""
        return bool(self.channels or self.communicators) or any(message.level == "INFO" for message in self.messages)

    def require_info(self) -> None:
        """Raises Unreadable if the log has only warnings."""
        if not self.has_info:
            raise Unreadable("messages of level INFO; run the job with NCCL_DEBUG=INFO")

    def require_network(self) -> None:
        """Raises NotApplicable if the job does not use the network. Raises Unreadable if its use is unknown."""
        self.require_info()
        if not self.communicators:
            raise Unreadable("the messages of ncclCommInitRank about ranks")
        require(
            any(communicator.uses_network for communicator in self.communicators),
            "the job ran on one node or NVLink domain",
        )

    def find(self, pattern: re.Pattern[str], *, is_warning: bool = False) -> Iterator[tuple[Message, re.Match[str]]]:
        """Yields the messages that contain a pattern. With `is_warning`, yields only messages of level WARN."""
        for message in self.messages:
            if is_warning and message.level != "WARN":
                continue
            if match := pattern.search(message.text):
                yield message, match

    def contains(self, pattern: re.Pattern[str]) -> bool:
        """True if a message contains the pattern."""
        return next(self.find(pattern), None) is not None

    @cached_property
    def max_host_count(self) -> int:
        """Maximum number of known hosts of a communicator. 1 if the log has no communicator."""
        return max((len(communicator.hosts) for communicator in self.communicators), default=1)

    @cached_property
    def max_ranks_per_host(self) -> int | None:
        """Maximum number of ranks per host in a communicator. None if the log has no communicator.

        The number is too high if the log lacks hosts of the communicator.
        """
        return max(
            (math.ceil(communicator.size / max(1, len(communicator.hosts))) for communicator in self.communicators),
            default=None,
        )

    @cached_property
    def system_offers_nvls(self) -> bool | None:
        """True if NCCL reduces in the NVLink switch of the named system for this number of ranks.

        None if no system is named. An unknown number of ranks counts as enough.
        """
        if self.system is None:
            return None
        nvls, ranks = self.system.nvls, self.max_ranks_per_host
        return nvls is not None and (ranks is None or ranks >= nvls.from_ranks.value)

    @cached_property
    def variables(self) -> dict[tuple[str, str], Message]:
        """Variables that NCCL read: the first message by name and value."""
        # Of entries with the same key, a dict keeps the last one. In reversed order, this is the first message.
        return {(match[1], match[2]): message for message, match in reversed(list(self.find(_VARIABLE)))}

    def setting(self, values: Mapping[str, tuple[str, ...]]) -> Evidence | None:
        """Returns evidence that a variable had one of its `values`. None if NCCL read none of them."""
        for (name, value), message in self.variables.items():
            if value in values.get(name, ()):
                return message.evidence
        return None

    @cached_property
    def networks(self) -> dict[str, tuple[str, Message]]:
        """Network that NCCL selected, with its message, by host."""
        return {message.host: (match[1], message) for message, match in self.find(_NETWORK) if message.host}

    @cached_property
    def has_nvlink(self) -> bool | None:
        """True if NVLink connects all GPUs of a node. None if unknown."""
        # Bridges join pairs of GPUs. Other communicators of the job then have another type.
        types: dict[str, set[str]] = {}
        for message, match in self.find(_PATTERN_TYPE):
            types.setdefault(message.host, set()).add(match[1])
        if {"NVL"} in types.values() or self.contains(re.compile(r"[1-9]\d* nvls channels")):
            return True
        return self.system.is_joined_by_nvlink if self.system and self.system.fabrics else None

    @cached_property
    def connections(self) -> list[Connection]:
        """Connections for collectives between known hosts. Leaves out a connection with an unknown host."""
        found = []
        for message in self.channels:
            match = _CHANNEL.match(message.text)
            peer_host = self._peer_host(message.process, match) if match else None
            if match and peer_host is not None:
                found.append(
                    Connection(
                        host=message.host,
                        peer_host=peer_host,
                        ends=match["ends"],
                        channel=int(match["channel"]),
                        is_receive=match["side"] == "receive",
                        via=match["via"],
                        evidence=message.evidence,
                    )
                )
        return found

    def _peer_host(self, process: Process, match: re.Match[str]) -> str | None:
        """Returns the host of the peer. None if the communicators of the process do not identify one host."""
        own_end, peer_end = match["sender"], match["receiver"]
        if match["side"] == "receive":
            own_end, peer_end = peer_end, own_end
        peers = [
            communicator.ends.get(peer_end) for communicator in self._communicators_by_end.get((process, own_end), ())
        ]
        # If the log lacks the rank in one of the communicators, the peer is not certain.
        hosts = {peer.host if peer else None for peer in peers}
        return hosts.pop() if len(hosts) == 1 else None

    @cached_property
    def _communicators_by_end(self) -> dict[tuple[Process, str], list[Communicator]]:
        """Communicators with unambiguous ranks, by the processes and ends of their ranks."""
        found: dict[tuple[Process, str], list[Communicator]] = {}
        for communicator in self.communicators:
            if communicator.is_ambiguous:
                continue
            for end, process in communicator.ends.items():
                found.setdefault((process, end), []).append(communicator)
        return found
