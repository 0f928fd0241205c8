"""Times in front of messages of NCCL."""

import re
from datetime import datetime, timezone
from functools import lru_cache

_TIME = re.compile(rb"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)([.,]\d{1,9})?\] \Z")
"""Time before a message: "[2026-01-31 12:00:00.123456] "."""


def parse_time_ns(prefix: bytes) -> int:
    """Returns the time at the end of the text before a message. 0 if it is missing, or has no fractions of a second."""
    match = _find_time(prefix)
    return _time_ns(match) if match is not None and match[2] is not None else 0


def parse_coarse_time_ns(prefix: bytes) -> int:
    """Like `parse_time_ns`, but also takes whole seconds, which suffice to order jobs."""
    match = _find_time(prefix)
    return _time_ns(match) if match is not None else 0


def _find_time(prefix: bytes) -> re.Match[bytes] | None:
    return _TIME.search(prefix) if prefix.endswith(b"] ") else None


def _time_ns(match: re.Match[bytes]) -> int:
    return _second(match[1]) * 1_000_000_000 + int((match[2] or b".0")[1:].ljust(9, b"0"))


@lru_cache(maxsize=64)
def _second(text: bytes) -> int:
    """Returns the Unix time of a second. Cached, because many lines have the same second."""
    return int(datetime.strptime(text.decode(), "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone.utc).timestamp())
