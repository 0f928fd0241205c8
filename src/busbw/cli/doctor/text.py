"""Text of a result and of the list of checks."""

from collections.abc import Iterator, Sequence
from typing import Any

from busbw.doctor.cost import Cost
from busbw.doctor.model.check import Check
from busbw.doctor.result import ReportedFinding, Result
from busbw.units import number_text


def result_lines(result: Result) -> Iterator[str]:
    """Yields the findings with evidence, cost, fix and source, then a line for each other category."""
    for finding in result.findings:
        yield from _finding_lines(finding)
        yield ""
    yield _names_line("Passed", result.passed)
    yield _names_line("Not applicable", result.not_applicable)
    for each in result.could_not_check:
        node = f"{each.node}: " if isinstance(each.node, str) else ""
        yield f"Could not check {each.check}: {node}missing {each.missing}"


def _finding_lines(finding: ReportedFinding) -> Iterator[str]:
    node = f"{finding.node}: " if isinstance(finding.node, str) else ""
    yield f"{finding.severity.upper()}  {node}{finding.problem}  [{finding.check}]"
    for each in finding.evidence:
        yield f"  evidence  {each.source}: {each.value}"
    yield f"  cost      {_cost_text(finding)}"
    yield f"  fix       {finding.fix}"
    yield f"  source    {finding.source}"


def _cost_text(finding: ReportedFinding) -> str:
    if not isinstance(finding.cost, Cost):
        return finding.cost_text
    cost = finding.cost
    nodes = "one node" if cost.nodes == 1 else f"{cost.nodes} nodes"
    now, fixed = (number_text(value, 3) for value in (cost.busbw_now_gbps, cost.busbw_fixed_gbps))
    return f"an all_reduce on {nodes} would reach {now} of {fixed} GB/s (expected). {finding.cost_text}"


def _names_line(title: str, names: Sequence[str]) -> str:
    return f"{title}: {len(names)}{': ' if names else ''}{', '.join(names)}"


def check_list_lines(checks: Sequence[Check[Any]]) -> Iterator[str]:
    """Yields the texts of all checks, grouped by area."""
    area = ""
    for check in checks:
        if check.area != area:
            area = check.area
            yield f"{area.upper()}"
        yield f"  {check.name}{'  (needs root)' if check.needs_root else ''}"
        for title in ("rule", "reads", "cost", "fix", "source"):
            yield f"    {title:7} {getattr(check, title)}"
    yield f"{len(checks)} checks"
