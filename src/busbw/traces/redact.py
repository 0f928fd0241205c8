"""Removes the names of hosts, files and communicators from a trace, for sharing it or views of it."""

import hashlib
import re
import secrets
from dataclasses import replace
from pathlib import Path

from busbw.traces.model import Trace
from busbw.traces.write import write_trace


def redact_trace(trace: Trace) -> Trace:
    """Returns the trace with names such as `host-1`, `file-1` and `communicator-1`, also in its problems."""
    hosts = _numbered("host", [rank.host for rank in trace.ranks])
    sources = _numbered("file", [*(rank.source for rank in trace.ranks), *trace.files])
    communicators = [
        f"communicator-{number}" if communicator.name else ""
        for number, communicator in enumerate(trace.communicators, start=1)
    ]
    file_names = {Path(source).name: name for source, name in sources.items()}
    short_hosts = {host.partition(".")[0]: name for host, name in hosts.items()}
    replacements = sources | file_names | short_hosts | hosts
    # The name of a process group may be a common word. So it is replaced only after the word "communicator".
    replacements |= {
        f"communicator {communicator.name}": f"communicator {name}"
        for communicator, name in zip(trace.communicators, communicators, strict=True)
        if name
    }
    longest_first = "|".join(map(re.escape, sorted(replacements, key=len, reverse=True)))
    pattern = re.compile(rf"(?<!\w)(?:{longest_first})(?!\w)")
    problems = trace.problems
    if replacements:
        problems = tuple(pattern.sub(lambda match: replacements[match[0]], text) for text in problems)
    return replace(
        trace,
        name="trace",
        ranks=tuple(
            replace(rank, host=hosts.get(rank.host, ""), pid=None, source=sources.get(rank.source, ""))
            for rank in trace.ranks
        ),
        communicators=tuple(
            replace(communicator, name=name)
            for communicator, name in zip(trace.communicators, communicators, strict=True)
        ),
        problems=problems,
        files=tuple(sources[file] for file in trace.files),
    )


def write_anonymous_trace(trace: Trace, directory: Path) -> None:
    """Writes the trace without names, process ids and the time of day, and with random ids of communicators.

    Raises:
        UsageError: The directory has files.
        BusbwError: A file cannot be written.
    """
    salt = secrets.token_bytes(16)
    redacted = redact_trace(trace)
    # Differences between the start times of ranks remain, because they align the clocks of the hosts. The earliest
    # start becomes 1, because 0 means unknown.
    earliest_ns = min((rank.start_ns for rank in trace.ranks if rank.start_ns), default=0)
    anonymous = replace(
        redacted,
        ranks=tuple(
            replace(rank, start_ns=rank.start_ns - earliest_ns + 1 if rank.start_ns else 0) for rank in redacted.ranks
        ),
        communicators=tuple(
            replace(
                communicator,
                name="",
                identity=hashlib.blake2b(communicator.identity.encode(), key=salt, digest_size=8).hexdigest(),
            )
            for communicator in redacted.communicators
        ),
    )
    write_trace(anonymous, directory)


def _numbered(kind: str, names: list[str]) -> dict[str, str]:
    """Returns a replacement for each name that is not empty."""
    return {name: f"{kind}-{number}" for number, name in enumerate(dict.fromkeys(filter(None, names)), start=1)}
