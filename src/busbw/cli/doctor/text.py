"""Text of a result: counts, findings with evidence and fix, checks without a finding. And the list of checks.

Lines are wrapped for a terminal, or if COLUMNS is set. Otherwise lines stay whole, so that searches find them.
"""

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET
from rich.text import Text

from busbw.doctor.catalog import all_checks, checks_of
from busbw.doctor.cost import Cost
from busbw.doctor.model import Check, Severity
from busbw.doctor.model.check import SEVERITIES
from busbw.doctor.result import ALL_CHECKS, FORMAT, Missing, ReportedFinding, Result
from busbw.terminal import labeled_lines, terminal_width
from busbw.units import count_text, names_text, number_text, plain

_Entry = TypeVar("_Entry", ReportedFinding, Missing)
_VARIABLE_PREFIX = "env-"
"""Beginning of the names of checks of variables."""
_Labeled: TypeAlias = tuple[ReportedFinding, str]
"""A finding, and a label that names its nodes."""

_STYLES: dict[Severity, str] = {"broken": "bold red", "slow": "bold yellow", "risk": "bold cyan"}
_CHECK_FIELDS = ("area", "reads", "rule", "source", "cost", "fix", "needs_root")
"""Fields of a check in the JSON list of checks."""
_MAX_NAMES = 4
"""Maximum number of nodes, or of checks that do not apply, that a line names."""
_TITLE_WIDTH = max(map(len, SEVERITIES)) + 2


def result_lines(result: Result) -> Iterator[Text]:
    """Yields the counts, the findings, the other checks, and the measurement to run if nothing was found."""
    yield Text(_counts_text(result), style="bold")
    yield Text()
    for _, group in groupby(_grouped_by_node(result.findings, result), key=_group_key):
        yield from _finding_lines(tuple(group))
        yield Text()
    yield from _wrap_text("passed: ", _names_text(result.passed))
    yield from _wrap_text("not applicable: ", _areas_text(result.not_applicable))
    yield from _undecided_lines(result)
    if not any(finding.severity in {"broken", "slow"} for finding in result.findings):
        yield Text()
        text = (
            "measure with `busbw run all_reduce`, or locate a slow part of several machines with `busbw find LAUNCHER`"
        )
        yield from _wrap_text("next: ", f"no certain cause of slow collectives was found; {text}")


def _undecided_lines(result: Result) -> Iterator[Text]:
    """Yields one line for the checks that lack the same value on the same nodes."""
    by_reason = sorted(_grouped_by_node(result.could_not_check, result), key=_nodes_and_reason)
    for (nodes, reason), group in groupby(by_reason, key=_nodes_and_reason):
        names = ", ".join(entry.check for entry, _ in group if entry.check != ALL_CHECKS)
        yield from _wrap_text("could not check: ", f"{nodes}{names}: {reason}" if names else f"{nodes}{reason}")


def _nodes_and_reason(labeled: tuple[Missing, str]) -> tuple[str, str]:
    missing, nodes = labeled
    return nodes, missing.missing


def _grouped_by_node(entries: Sequence[_Entry], result: Result) -> Iterator[tuple[_Entry, str]]:
    """Merges entries that differ only in node and evidence. Yields the first of them, and a label that names the nodes.

    The label is empty if one machine was examined, or if the text of the entry names its node.
    """
    groups: dict[bytes, list[_Entry]] = {}
    for entry in entries:
        fields = msgspec.to_builtins(entry)
        common = {name: value for name, value in fields.items() if name not in {"node", "evidence"}}
        groups.setdefault(msgspec.json.encode(common), []).append(entry)
    names_of_differences = {check.name for check in checks_of("nodes")}
    node_count = len(result.nodes) if result.nodes is not UNSET else 1
    for group in groups.values():
        nodes = [entry.node for entry in group if isinstance(entry.node, str)]
        is_on_all_nodes = len(nodes) == node_count
        if is_on_all_nodes and node_count > 1:
            yield group[0], f"on all {node_count} nodes: "
        elif len(nodes) > 1:
            yield group[0], f"on {len(nodes)} of {node_count} nodes ({names_text(nodes, _MAX_NAMES)}): "
        elif nodes and group[0].check not in names_of_differences:
            yield group[0], f"{nodes[0]}: "
        else:
            yield group[0], ""


def _names_text(names: Sequence[str]) -> str:
    """Returns the names of checks. Checks of variables appear as a number, because dozens of them pass."""
    shown = [name for name in names if not name.startswith(_VARIABLE_PREFIX)]
    variable_count = len(names) - len(shown)
    if variable_count:
        shown.append(f"{_VARIABLE_PREFIX}... ({variable_count})")
    return ", ".join(shown) or "none"


def _areas_text(names: Sequence[str]) -> str:
    """Returns the names of a few checks. Of more checks, returns their number in each area."""
    if len(names) <= _MAX_NAMES:
        return ", ".join(names) or "none"
    areas = Counter(check.area for check in all_checks() if check.name in names)
    return f"{', '.join(f'{count} {area}' for area, count in areas.items())} (--json lists them)"


def _counts_text(result: Result) -> str:
    severities = [finding.severity for finding in result.findings]
    findings = count_text(len(severities), "finding")
    if severities:
        findings += ": " + ", ".join(f"{severities.count(name)} {name}" for name in SEVERITIES if name in severities)
    undecided_count = len({missing.check for missing in result.could_not_check})
    others = f"{len(result.passed)} passed, {len(result.not_applicable)} not applicable"
    return f"{findings}; {others}, {undecided_count} could not check"


def _group_key(labeled: _Labeled) -> tuple[object, ...]:
    """Returns the key that findings share if they are one problem on several parts or nodes."""
    finding, _ = labeled
    return finding.check, finding.severity, finding.cost, _without_part(finding.fix, finding)


def _finding_lines(labeled: Sequence[_Labeled]) -> Iterator[Text]:
    """Yields one block for findings with the same key, with the evidence of the first finding."""
    first, _ = labeled[0]
    title, name = f"{first.severity.upper():{_TITLE_WIDTH}}", f"  [{first.check}]"
    by_problem: dict[str, list[_Labeled]] = {}
    for finding, nodes in labeled:
        by_problem.setdefault(_without_part(finding.problem, finding), []).append((finding, nodes))
    for (finding, nodes), *others in by_problem.values():
        yield from _wrap_text(title, f"{nodes}{finding.problem}{name}", title_style=_STYLES[first.severity])
        title, name = " " * _TITLE_WIDTH, ""  # only the first problem has both
        if others:
            yield from _wrap_text(title, f"the same: {', '.join(map(_part_text, others))}")
    for evidence in first.evidence:
        yield from _wrap_text("  evidence  ", f"{evidence.source}: {evidence.value}")
    yield from _wrap_text("  cost      ", _cost_text(first))
    yield from _wrap_text("  fix       ", first.fix)
    yield from _wrap_text("  source    ", first.source)


def _without_part(text: str, finding: ReportedFinding) -> str:
    """Returns a problem or a fix without the part: "GPU3 throttles" becomes " throttles", and "-i 3" becomes "-i"."""
    if not isinstance(finding.subject, str):
        return text
    return text.replace(finding.subject, "").replace(f"-i {finding.subject.removeprefix('GPU')}", "-i")


def _part_text(labeled: _Labeled) -> str:
    finding, nodes = labeled
    subject = finding.subject if isinstance(finding.subject, str) else ""
    return f"{nodes}{subject}".removesuffix(": ") or "this machine"


def _cost_text(finding: ReportedFinding) -> str:
    if not isinstance(finding.cost, Cost):
        return finding.cost_text
    cost = finding.cost
    nodes = "one node" if cost.nodes == 1 else f"{cost.nodes} nodes"
    now, fixed = number_text(cost.busbw_now_gbps, 3), number_text(cost.busbw_fixed_gbps, 3)
    return f"an all_reduce on {nodes} would reach {now} of {fixed} GB/s (expected). {finding.cost_text}"


def _wrap_text(title: str, text: str, *, title_style: str = "") -> Iterator[Text]:
    """Yields the lines of a text after a title. Further lines are indented to the end of the title."""
    is_wrapped = sys.stdout.isatty() or bool(os.environ.get("COLUMNS"))
    width = terminal_width() if is_wrapped else sys.maxsize
    for line in map(plain, text.splitlines() or [""]):
        yield from labeled_lines(title, line, width, label_style=title_style)
        title = " " * len(title)


def check_list_object(checks: Sequence[Check[Any]]) -> dict[str, object]:
    """Returns the list of the checks as the object of `--json`."""
    objects = [{"check": check.name} | {name: getattr(check, name) for name in _CHECK_FIELDS} for check in checks]
    return {"format": FORMAT, "checks": objects}


def check_list_lines(checks: Sequence[Check[Any]]) -> Iterator[Text]:
    """Yields the texts of the checks, grouped by area."""
    area = ""
    for check in checks:
        if check.area != area:
            area = check.area
            yield Text(area.upper(), style="bold")
        yield Text(f"  {check.name}{'  (needs root)' if check.needs_root else ''}", style="bold")
        for title in ("rule", "reads", "cost", "fix", "source"):
            yield from _wrap_text(f"    {title:8}", getattr(check, title))
    yield Text(count_text(len(checks), "check"))
