"""Reads logs of NCCL, with any launcher's prefixes and other programs' lines between them."""

import re
import time
from collections.abc import Sequence
from pathlib import Path

from busbw.doctor.nccl_log.message import Message, Process, find_messages
from busbw.doctor.nccl_log.nccl_log import Communicator, NcclLog, Rank
from busbw.doctor.nccl_log.source import UnfinishedError, read_lines
from busbw.files import path_text
from busbw.units import plain

READ_LIMIT_S = 3.5
"""Time limit of the reading. The checks need the rest of the 5 s."""
MAX_MESSAGES = 200_000
"""Maximum number of different messages. A job of 10,000 ranks has fewer that matter."""

_RELEVANT = re.compile(
    rb"(?:\[Rank \d+\] )?(?:\w+ )?comm 0x|NCCL version|NET/|Using |NCCL_\w+ set|Setting affinity|NVLS multicast"
    rb"|MNNVL |\d+ coll channels|Connected all rings|Rank \d+ has|Could not|P2P is disabled|cuMem host|Failed to"
    rb"|Detected mixed|=== System|Pattern "
)
"""Messages of level INFO that checks read, by their beginning."""
_COMMUNICATOR = re.compile(
    r"comm (?P<handle>0x\w+) rank (?P<rank>\d+) n[rR]anks (?P<size>\d+)(?: cudaDev (?P<device>\d+))?"
    r"(?: nvmlDev (?P<gpu>\d+))?(?: busId (?P<bus>\w+))?(?: commId (?P<id>0x\w+))?(?P<parent> parent)?"
    r"(?: nNodes (?P<nodes>\d+) localRanks (?P<local>\d+) localRank \d+ MNNVL (?P<mnnvl>\d+))?"
)


def read_nccl_log(paths: Sequence[Path], limit_s: float = READ_LIMIT_S) -> NcclLog:
    """Reads one or several files of one job. A path "-" is standard input.

    Raises:
        UsageError: A file cannot be opened.
    """
    collector = _Collector()
    end = time.monotonic() + limit_s
    for path in paths:
        name = "standard input" if str(path) == "-" else plain(path_text(path.name))
        try:
            collector.read(path, name, end)
        except UnfinishedError as error:
            collector.log.unread = collector.log.unread or f"the rest of {name}: {error}"
    return collector.log


class _Collector:
    """Collects the messages of all files."""

    def __init__(self) -> None:
        self.log = NcclLog()
        self._hosts: set[bytes] = set()
        self._known_lines: set[tuple[bytes, bytes]] = set()
        self._seen: set[tuple[object, bytes]] = set()
        self._communicators: dict[str, Communicator] = {}
        self._by_handle: dict[tuple[Process, str], Communicator] = {}

    def read(self, path: Path, name: str, end: float) -> None:
        """Collects the messages of a file."""
        for number, line in enumerate(read_lines(path, end), start=1):
            mark = line.find(b"NCCL ")
            if mark < 0 or self._is_known(line, mark):
                continue
            for process, level, text in find_messages(line, self._hosts):
                key = _key(process, level, text)
                if key is None or key in self._seen:
                    continue
                if len(self._seen) >= MAX_MESSAGES:
                    raise UnfinishedError(f"it has more than {MAX_MESSAGES} different messages")
                self._seen.add(key)
                self._add(Message(process, level, text.decode(errors="replace").rstrip(), f"{name} line {number}"))

    def _is_known(self, line: bytes, mark: int) -> bool:
        """True if the only message of a line is not read by a check, or is a repetition. Saves most of the time."""
        if not line.startswith(b"INFO ", mark + 5) or line.find(b"NCCL ", mark + 10) >= 0:
            return False
        if line.startswith(b"Channel ", mark + 10):
            key = line[:mark], line[line.find(b" : ", mark) - 2 :]
        elif _RELEVANT.match(line, mark + 10):
            key = line[:mark], line[mark:]
        else:
            return True
        if key in self._known_lines:
            return True
        if len(self._known_lines) >= MAX_MESSAGES:
            self._known_lines.clear()
        self._known_lines.add(key)
        return False

    def _add(self, message: Message) -> None:
        if message.text.startswith("Channel "):
            self.log.channels.append(message)
            return
        self.log.messages.append(message)
        match = _COMMUNICATOR.search(message.text) if message.level == "INFO" else None
        if match and message.host:
            self._add_rank(message, match)

    def _add_rank(self, message: Message, match: re.Match[str]) -> None:
        handle = (message.process, match["handle"])
        size = int(match["size"])
        if match["nodes"]:
            known = self._by_handle.get(handle)
            if known is not None and known.size == size:
                known.node_count, known.local_rank_count = int(match["nodes"]), int(match["local"])
                known.uses_mnnvl = match["mnnvl"] != "0"
                known.evidence = message.evidence
            return
        if match["parent"] or not message.text.endswith(("Init START", "Init COMPLETE")):
            # The log does not tell which ranks a part of another communicator has.
            self._by_handle.pop(handle, None)
            return
        key = match["id"] or f"{size} ranks"
        communicator = self._communicators.get(key)
        if communicator is None:
            communicator = self._communicators[key] = Communicator(size)
            self.log.communicators.append(communicator)
        names = {match["gpu"] or "", match["bus"] or ""} - {""}
        rank = Rank(message.process, frozenset(names))
        before = communicator.ranks.setdefault(int(match["rank"]), rank)
        communicator.is_ambiguous |= before.process != rank.process or communicator.size != size
        self._by_handle[handle] = communicator


def _key(process: Process, level: str, text: bytes) -> tuple[object, bytes] | None:
    """Returns the key that is equal for messages with the same meaning. None for messages that no check reads."""
    if text.startswith(b"Channel "):
        # Channels of one connection differ in their number only: "Channel 07/0 : ".
        return process, text[max(text.find(b" : ") - 2, 0) :]
    if level == "INFO" and not _RELEVANT.match(text):
        return None
    return (process if b"comm 0x" in text else process.host), text
