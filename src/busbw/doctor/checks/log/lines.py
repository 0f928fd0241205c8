"""Checks for known messages of NCCL, from lines.toml."""

import re
from collections.abc import Iterable, Iterator
from functools import partial
from importlib.resources import files

import msgspec

from busbw.doctor.model import CheckTexts, Finding, NotApplicable, Severity, Unreadable, check, make_check, require
from busbw.doctor.nccl_log.nccl_log import Message, NcclLog
from busbw.units import count_text

_MAX_EVIDENCE = 3
"""Maximum number of messages in the evidence of a finding."""
_HARMLESS = re.compile(
    r"Failed to open libibverbs|(?:GID table|LID|P_Key|SM) change|port active|client reregistration"
    r"|non-fatal async event|NCCL_\w+\W.*\bignor|NET/Plugin|P2P is disabled between connected GPUs"
)
"""Warnings after which a job goes on. Where they matter, other checks read them."""


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
_WARNINGS = re.compile(
    "|".join(re.sub(r"\(\?P<\w+>", "(?:", line.pattern) for line in _LINES.values() if not line.info)
)
"""Warnings that the checks of lines.toml report."""
ORDER = {name: index for index, name in enumerate((*_LINES, "log-other-warnings"))}
"""Position of each check. A finding of a later check is often the consequence of an earlier check's finding."""
CHECKS = tuple(
    make_check(line, name, "log", f"messages of NCCL with {line.pattern}", partial(_examine, line))
    for name, line in _LINES.items()
)


@check(
    reads="messages of level WARN",
    rule="Each warning of NCCL is one that another check explains.",
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    cost="A job usually ends after such a warning.",
    fix="read the first warning of the job, which often has the cause",
)
def log_other_warnings(log: NcclLog) -> Iterable[Finding]:
    warnings = [message for message in log.messages if message.level == "WARN" and not _HARMLESS.search(message.text)]
    # A failed job also prints warnings that follow from the first one. They need no explanation of their own.
    require(not any(_WARNINGS.search(message.text) for message in warnings), "other checks explain the warnings")
    if warnings:
        first = warnings[0].evidence
        raise Unreadable(
            f"the cause of {count_text(len(warnings), 'warning')}; the first: {first.source}: {first.value}"
        )
    return ()
