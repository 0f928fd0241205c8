"""Finds the messages of NCCL in a line, whatever a launcher has put in front of them."""

import re
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
        return Evidence(source=self.place, value=shorten(f"{self.host}: {self.text}", 240))


def find_message(line: bytes) -> tuple[Process, str, bytes] | None:
    """Returns process, level and text of the message in a line. None if there is no message.

    Processes that share an output can write into each other's lines. Of several messages in a line, the end of the
    first and the host of the others are not known, so the line is dropped.
    """
    header = _HEADER.search(line)
    if header is None:
        version = _VERSION.search(line)
        return (UNKNOWN_PROCESS, "VERSION", line[version.start() :]) if version else None
    text = line[header.end() :]
    if b"NCCL " in text and _HEADER.search(text):
        return None
    process = (
        Process(plain(header["host"].decode(errors="replace")), header["pid"].decode())
        if header["host"]
        else UNKNOWN_PROCESS
    )
    return process, header["level"].decode(), (header["source"] or b"") + text
