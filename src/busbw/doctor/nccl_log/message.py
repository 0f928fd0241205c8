"""Finds the messages of NCCL in a line, whatever a launcher has put in front of them."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from busbw.doctor.model.check import Evidence
from busbw.units import plain, shorten

_HEADER = re.compile(
    rb"(?:(?P<host>[^\s:\[\]]{1,255}):(?P<pid>\d{1,10}):\d{1,10} )?\[-?\d{1,4}\] "
    rb"(?P<source>\S{1,255}:\d{1,10} )?(?:\(\S{1,255}\) )?NCCL (?P<level>INFO|WARN) "
)
"""Header of a message, "node1:17:42 [3] transport/nvls.cc:379 NCCL WARN ". Some logs lack the host."""
_VERSION = re.compile(rb"NCCL version \d")


class Process(NamedTuple):
    """The writer of a message. Host and process id are empty if the log does not name them."""

    host: str
    pid: str


UNKNOWN_PROCESS = Process("", "")


class Message(NamedTuple):
    """One message of NCCL."""

    process: Process
    level: str
    """INFO or WARN. VERSION for the line with NCCL's version, which every level prints."""
    text: str
    """Text without header. For warnings with the place in NCCL's source: "transport/nvls.cc:379 Failed to bind"."""
    place: str
    """Line of the log: "job.log line 12"."""

    @property
    def host(self) -> str:
        """Host of the writer."""
        return self.process.host

    @property
    def evidence(self) -> Evidence:
        """The message as evidence."""
        return Evidence(source=self.place, value=shorten(plain(f"{self.host}: {self.text}"), 240))


def find_messages(line: bytes, hosts: set[bytes]) -> Iterator[tuple[Process, str, bytes]]:
    """Yields process, level and text of each message in a line.

    Processes that share an output can write into each other's lines. Then a host counts only if another line begins
    with it. In front of an unknown host the end of a message is not known, so both messages are dropped.

    Args:
        line: A line.
        hosts: Hosts at the beginning of messages so far. The function adds that of this line.
    """
    first = _HEADER.search(line)
    if first is None:
        version = _VERSION.search(line)
        if version:
            yield UNKNOWN_PROCESS, "VERSION", line[version.start() :]
        return
    headers = [first] if line.count(b"NCCL ") == 1 else list(_HEADER.finditer(line))
    if first["host"]:
        hosts.add(first["host"])
    ends = [*(header.start() for header in headers[1:]), len(line)]
    names = [first["host"] or b""]
    for index, header in enumerate(headers[1:]):
        found = header["host"] or b""
        names.append(next((name for name in hosts if found.endswith(name)), b""))
        ends[index] += len(found) - len(names[-1])
    for index, (header, name) in enumerate(zip(headers, names, strict=True)):
        is_cut = index + 1 < len(names) and not names[index + 1]
        if is_cut or (index > 0 and not name):
            continue
        process = Process(name.decode(errors="replace"), header["pid"].decode()) if name else UNKNOWN_PROCESS
        text = line[header.end() : ends[index]]
        yield process, header["level"].decode(), (header["source"] or b"") + text
