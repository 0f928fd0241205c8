"""Text of a result and of the list of checks."""

from collections.abc import Iterator, Sequence
from typing import Any

from busbw.cli.doctor.node_groups import grouped_by_node
from busbw.doctor.cost import Cost
from busbw.doctor.model.check import Check
from busbw.doctor.node_record import ALL_CHECKS
from busbw.doctor.result import ReportedFinding, Result
from busbw.units import number_text


def result_lines(result: Result) -> Iterator[str]:
    """Yields the findings with evidence, cost, fix and source, then a line for each other category."""
    for finding, label in grouped_by_node(result.findings, result):
        yield from _finding_lines(finding, label)
        yield ""
    yield _names_line("Passed", result.passed)
    yield _names_line("Not applicable", result.not_applicable)
    for each, label in grouped_by_node(result.could_not_check, result):
        is_whole_node = each.check == ALL_CHECKS
        yield (
            f"Could not check: {label}{each.missing}"
            if is_whole_node
            else (f"Could not check {each.check}: {label}missing {each.missing}")
        )


def _finding_lines(finding: ReportedFinding, label: str) -> Iterator[str]:
    yield f"{finding.severity.upper()}  {label}{finding.problem}  [{finding.check}]"
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
