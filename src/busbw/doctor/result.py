"""Result of an examination, as `busbw doctor --json` prints it (format 1)."""

import re
from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from busbw.doctor.cost import Cost
from busbw.doctor.model import Check, Evidence, Finding, Severity
from busbw.doctor.model.check import SEVERITIES, Subject
from busbw.units import shorten

FORMAT = 1
ALL_CHECKS = "all"
"""Check name for a node without a record, or a log without messages: nothing could be checked."""
_MAX_TEXT_LENGTH = 400
"""Maximum length of a problem, and of a value in its evidence."""


class ReportedFinding(Struct, kw_only=True, frozen=True):
    """One finding with the texts of its check."""

    check: str
    result: Literal["finding"] = "finding"
    severity: Severity
    node: str | UnsetType = UNSET
    """Set if several nodes were examined."""
    subject: str | UnsetType = UNSET
    problem: str
    evidence: tuple[Evidence, ...]
    cost: Cost | UnsetType = UNSET
    """Estimated bandwidth with the problem and after the fix. Set if it can be estimated."""
    cost_text: str = ""
    """Sentence of the check about the effect."""
    fix: str
    source: str


class Missing(Struct, kw_only=True, frozen=True):
    """A check that could not decide."""

    check: str
    missing: str
    """Value that could not be read, or a clause with the reason."""
    node: str | UnsetType = UNSET


class Result(Struct, kw_only=True, frozen=True):
    """Result of all checks of one or several nodes, or of a log."""

    format: int = FORMAT
    findings: tuple[ReportedFinding, ...] = ()
    """Sorted from the worst to the least."""
    passed: tuple[str, ...] = ()
    not_applicable: tuple[str, ...] = ()
    not_applicable_reasons: dict[str, str] = {}
    """Clause with the part that the machine lacks, by the name of the check. For several nodes: of one node."""
    could_not_check: tuple[Missing, ...] = ()
    nodes: tuple[str, ...] | UnsetType = UNSET
    """Names of the nodes. Set if several nodes were examined."""


def make_reported_finding(check: Check[Subject], finding: Finding, estimate: Cost | None) -> ReportedFinding:
    """Returns a finding with the texts of its check. `estimate`: its cost, or None if it cannot be estimated."""
    fix = finding.fix or check.fix
    subject = UNSET if finding.subject is None else shorten(finding.subject)
    if subject is not UNSET and check.area in {"gpu", "nic"}:
        fix = _fill_placeholder(fix, subject)
    return ReportedFinding(
        check=check.name,
        severity=finding.severity,
        subject=subject,
        problem=shorten(finding.problem, _MAX_TEXT_LENGTH),
        evidence=tuple(
            Evidence(shorten(each.source), shorten(each.value, _MAX_TEXT_LENGTH)) for each in finding.evidence
        ),
        cost=UNSET if estimate is None else estimate,
        cost_text=finding.cost or check.cost,
        fix=fix,
        source=check.source,
    )


def _fill_placeholder(fix: str, part: str) -> str:
    """Replaces a placeholder in commands by the part: INDEX by a GPU, BDF by a PCI device, DEVICE by a NIC."""
    if gpu := re.fullmatch(r"GPU(\d+)", part):
        return re.sub(r"\bINDEX\b", gpu[1], fix)
    if re.fullmatch(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.\d", part):
        return re.sub(r"\bBDF\b", part, fix)
    return re.sub(r"\bDEVICE\b", part.partition(":")[0], fix)


def sort_key(finding: ReportedFinding) -> tuple[int, float]:
    """Returns the key that sorts the worst finding first: by severity, then by lost bandwidth."""
    lost_share = finding.cost.lost_share if isinstance(finding.cost, Cost) else 0.0
    return SEVERITIES.index(finding.severity), -lost_share
