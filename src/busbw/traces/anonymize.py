"""Writes a trace without names, for sharing."""

import hashlib
import secrets
from dataclasses import replace
from pathlib import Path

from busbw.traces.model import Trace
from busbw.traces.redact import redact_trace
from busbw.traces.write import write_trace


def write_anonymous_trace(trace: Trace, directory: Path) -> None:
    """Writes the trace without names, process ids and the time of day, and with random ids of communicators.

    Raises:
        UsageError: The directory has files.
        BusbwError: A file cannot be written.
    """
    salt = secrets.token_bytes(16)
    redacted = redact_trace(trace)
    # Differences of times between ranks remain, because clocks of hosts are aligned by them.
    start_ns = min((rank.start_ns for rank in trace.ranks if rank.start_ns), default=0) - 1
    anonymous = replace(
        redacted,
        ranks=tuple(
            replace(rank, start_ns=rank.start_ns - start_ns if rank.start_ns else 0) for rank in redacted.ranks
        ),
        communicators=tuple(
            replace(one, name="", identity=hashlib.blake2b(one.identity.encode(), key=salt, digest_size=8).hexdigest())
            for one in redacted.communicators
        ),
    )
    write_trace(anonymous, directory)
