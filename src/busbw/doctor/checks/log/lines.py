"""Checks for known messages of NCCL, from lines.toml."""

import re
from collections.abc import Iterator
from functools import partial
from importlib.resources import files

import msgspec

from busbw.doctor.model import CheckTexts, Finding, NotApplicable, Severity, make_check
from busbw.doctor.nccl_log.nccl_log import Message, NcclLog
from busbw.units import count_text

_MAX_EVIDENCE = 3
"""Maximum number of messages in the evidence of a finding."""


class _Line(CheckTexts, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Check of lines.toml, which explains the fields."""

    pattern: str
    problem: str
    rule: str = "NCCL prints no such message."
    severity: Severity = "broken"
    source: str = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"
    cost: str = "The job fails."
    info: bool = False
    shown_with: str | None = None


def _examine(line: _Line, log: NcclLog) -> Iterator[Finding]:
    if line.info:
        log.require_info()
    if line.shown_with and not log.contains(re.compile(line.shown_with)):
        raise NotApplicable("NCCL_DEBUG_SUBSYS hides these messages")
    found = list(log.find(re.compile(line.pattern), is_warning=not line.info))
    if not found:
        return
    message, match = found[0]
    first_by_host: dict[str, Message] = {}
    for found_message, _ in found:
        first_by_host.setdefault(found_message.host, found_message)
    groups = {name: text or "" for name, text in match.groupdict().items()}
    others = f" (and {count_text(len(first_by_host) - 1, 'other host')})" if len(first_by_host) > 1 else ""
    problem = line.problem.format_map({**groups, "host": message.host or "a host"}) + others
    evidence = tuple(first.evidence for first in first_by_host.values())[:_MAX_EVIDENCE]
    yield Finding(line.severity, problem, evidence, subject=groups.get("part") or message.host or None)


_LINES = msgspec.toml.decode((files("busbw.doctor.checks.log") / "lines.toml").read_bytes(), type=dict[str, _Line])
ORDER = {name: index for index, name in enumerate(_LINES)}
"""Position of each check. A finding of a later check is often the consequence of an earlier check's finding."""
CHECKS = tuple(
    make_check(line, name, "log", f"messages of NCCL with {line.pattern}", partial(_examine, line))
    for name, line in _LINES.items()
)
