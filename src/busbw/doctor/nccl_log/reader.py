"""Reads logs of NCCL. Lines may have prefixes of any launcher, and lines of other programs may lie between them."""

import os
import re
import select
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from busbw.doctor.nccl_log.nccl_log import Communicator, Message, NcclLog, Process
from busbw.errors import UsageError
from busbw.support.files import path_text
from busbw.support.nccl_log_lines import COMMUNICATOR, HEADER
from busbw.system import System
from busbw.units import plain

READ_LIMIT_S = 3.0
"""Time limit of the reading. The checks need the rest of the 5 s of `busbw doctor`."""
MAX_MESSAGES = 100_000
"""Maximum number of different messages. A job of 10,000 ranks has fewer messages that checks read."""

_GLUED_RATIO = 10
""""17node1" counts as a text "17" before the host node1 if node1 has more messages than "17node1" by this factor."""
_BLOCK_BYTES = 1 << 20
_MAX_LINE_BYTES = 1 << 16
"""A longer line is read in parts. NCCL's messages are shorter."""
_GZIP = b"\x1f\x8b"
"""First bytes of a file that gzip compressed."""
_HEADER = re.compile(HEADER)
_INFO = b"NCCL INFO "
_RELEVANT = re.compile(
    rb"(?:\[Rank \d+\] )?(?:\w+ )?comm 0x|NET/|Using |NCCL_\w+ set|NVLS multicast"
    rb"|MNNVL |\d+ coll channels|Rank \d+ has|Could not|Failed to|=== System|Pattern "
)
"""Messages of level INFO that checks read, by their beginning."""


class _UnfinishedError(Exception):
    """The rest of a log cannot be read. The argument is the reason."""


def read_nccl_log(paths: Sequence[Path], limit_s: float = READ_LIMIT_S, *, system: System | None = None) -> NcclLog:
    """Reads one or several files of one job. A path "-" is standard input. `system`: that of the nodes, if named.

    Raises:
        UsageError: A file cannot be opened.
    """
    end = time.monotonic() + limit_s
    messages: list[Message] = []
    unread = None
    for path in paths:
        name = "standard input" if str(path) == "-" else plain(path_text(path.name))
        try:
            for message in _messages(path, name, end):
                messages.append(message)  # so that the messages before an error remain
        except _UnfinishedError as error:
            unread = unread or f"the rest of {name}: {error}"
    glued_hosts = _glued_hosts(Counter(message.host for message in messages))
    by_kind: dict[str, list[Message]] = {"channel": [], "rank": [], "other": []}
    for message in messages:
        if message.host not in glued_hosts:
            by_kind[_kind(message)].append(message)
    return NcclLog(
        messages=by_kind["other"],
        communicators=_communicators(by_kind["rank"]),
        channels=by_kind["channel"],
        unread=unread,
        system=system,
    )


def _glued_hosts(counts: Counter[str]) -> set[str]:
    """Returns the names that are a host after a part of another line: "17node1". `counts`: messages by host."""
    return {
        host
        for host, count in counts.items()
        if any(counts[host[start:]] > _GLUED_RATIO * count for start in range(1, len(host)))
    }


def _kind(message: Message) -> str:
    if message.text.startswith("Channel "):
        return "channel"
    return "rank" if message.level == "INFO" and "comm 0x" in message.text else "other"


def _messages(path: Path, name: str, end: float) -> Iterator[Message]:
    """Yields the messages that checks read, without repetitions."""
    keys: set[tuple[bytes, bytes]] = set()
    for number, line in enumerate(_lines(path, end), start=1):
        mark = line.find(b"NCCL ")
        if mark < 0:
            continue
        key = _key(line, mark)
        if key is None or key in keys:
            continue
        if len(keys) >= MAX_MESSAGES:
            raise _UnfinishedError(f"it has more than {MAX_MESSAGES} different messages")
        keys.add(key)
        if (found := _find_message(line)) is not None:
            process, level, text = found
            text_for_people = plain(text.decode(errors="replace").rstrip())
            yield Message(process=process, level=level, text=text_for_people, place=f"{name} line {number}")


def _lines(path: Path, end: float) -> Iterator[bytes]:
    """Yields the lines of a file or pipe until the time `end`, without line feeds.

    Raises:
        UsageError: The log cannot be read, or is compressed.
        _UnfinishedError: The time is over.
    """
    rest, is_beginning = b"", True
    try:
        descriptor = os.dup(sys.stdin.fileno()) if str(path) == "-" else os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb"):
            while select.select([descriptor], [], [], max(0.0, end - time.monotonic()))[0]:
                block = os.read(descriptor, _BLOCK_BYTES)
                if is_beginning and block.startswith(_GZIP):
                    raise UsageError(f"--log: {path_text(path)} is compressed (gzip)", remedy="decompress it first")
                is_beginning = False
                if not block:
                    yield rest
                    return
                *lines, rest = (rest + block).split(b"\n")
                yield from lines
                if len(rest) > _MAX_LINE_BYTES:
                    yield rest
                    rest = b""
                if time.monotonic() > end:
                    raise _UnfinishedError("the time limit is over")
            raise _UnfinishedError("it did not arrive in time")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"--log: cannot read {path_text(path)}: {reason}", remedy="pass a readable log") from error


def _key(line: bytes, mark: int) -> tuple[bytes, bytes] | None:
    """Returns the key that lines with the same message share. None if no check reads the message.

    The caller reads only one line with each key. This saves most of the time, because most lines repeat earlier lines.
    `mark` is the position of "NCCL " in the line, such as 18 in "node1:123:456 [0] NCCL INFO Using network IB".
    """
    thread = line[:mark].rpartition(b" [")[0].rpartition(b" ")[2]  # "node1:123:456": host, process and thread
    if line.startswith(_INFO, mark):
        text_start = mark + len(_INFO)
        if line.startswith(b"Channel ", text_start):
            # Channels of one connection differ in their number only: "Channel 07/0 : ". The key begins with "/0 : ".
            return thread, line[line.find(b" : ", mark) - 2 :]
        if not _RELEVANT.match(line, text_start):
            return None
        if b"comm 0x" in line:
            return thread, line[mark:]
    host = thread.rsplit(b":", 2)[0]
    return host, line[mark:]  # checks need such a message only once for each host


def _find_message(line: bytes) -> tuple[Process, str, bytes] | None:
    """Returns process, level and text of the message in a line. None if there is no message.

    Processes that share an output can write into each other's lines. A line with several messages is dropped, because
    it shows neither the end of the first message nor the hosts of the others.
    """
    header = _HEADER.search(line)
    if header is None:
        return None
    text = line[header.end() :]
    if b"NCCL " in text and _HEADER.search(text):
        return None
    host, pid = header["host"] or b"", header["pid"] or b""
    process = Process(plain(host.decode(errors="replace")), pid.decode())
    return process, header["level"].decode(), (header["source"] or b"") + text


def _communicators(messages: Sequence[Message]) -> list[Communicator]:
    """Returns the communicators of the messages about ranks."""
    found: dict[str, Communicator] = {}  # by id, or by size if the message has no id
    by_handle: dict[tuple[Process, str], Communicator] = {}  # a handle is an address in one process
    for message in messages:
        match = COMMUNICATOR.search(message.text) if message.host else None
        if match is None:
            continue
        handle, size = (message.process, match["handle"]), int(match["size"])
        is_initialization = message.text.endswith(("Init START", "Init COMPLETE"))
        if match["nodes"]:  # "comm 0x55 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0"
            known = by_handle.get(handle)
            if known is not None and known.size == size:
                known.node_count, known.uses_mnnvl = int(match["nodes"]), match["mnnvl"] != "0"
                known.evidence = message.evidence
        elif is_initialization and not match["split"]:  # "comm 0x55 rank 0 nranks 16 cudaDev 0 ... - Init START"
            communicator = found.setdefault(match["id"] or f"{size} ranks", Communicator(size))
            first_with_number = communicator.ranks.setdefault(int(match["rank"]), message.process)
            if first_with_number != message.process or communicator.size != size:
                communicator.is_ambiguous = True
            gpu_names = filter(None, (match["gpu"], match["bus"]))
            communicator.ends.update((f"{match['rank']}[{name}]", message.process) for name in gpu_names)
            by_handle[handle] = communicator
        else:
            # The handle no longer names the known communicator. The log does not tell the ranks after a split.
            by_handle.pop(handle, None)
    for communicator in found.values():
        # Two ranks with one host and GPU are on different machines of the same name.
        gpus = {(process.host, end.partition("[")[2]) for end, process in communicator.ends.items()}
        if len(gpus) < len(communicator.ends):
            communicator.is_ambiguous = True
    return list(found.values())
