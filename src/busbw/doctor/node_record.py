"""Record of one node, and the result of several nodes: findings of each node, and differences between them."""

import time
from collections.abc import Sequence
from contextlib import suppress
from threading import Thread
from typing import Any

from msgspec import UNSET, field
from msgspec.structs import replace

from busbw.doctor.catalog import MACHINE_AREAS, checks_of
from busbw.doctor.checks.nodes.differences import NodeValues, read_values
from busbw.doctor.cost import Job
from busbw.doctor.examination import LIMIT_S, examine
from busbw.doctor.model import Check, Machine, Unreadable
from busbw.doctor.parts.job import node_count
from busbw.doctor.parts.traits import system_of
from busbw.doctor.result import ALL_CHECKS, Missing, Result, sort_key

_SYSTEM_LIMIT_S = 1.0
"""Time limit to recognize the system, for the costs."""


class NodeRecord(NodeValues, kw_only=True, frozen=True):
    """Values of a node to compare, and the outcome of all checks of this machine."""

    result: Result = field(default_factory=Result)
    problem: str = ""
    """Reason for which nothing could be checked. Empty if checks ran."""


def examine_node(node: str, machine: Machine, checks: Sequence[Check[Any]]) -> NodeRecord:
    """Runs the checks that concern one machine, and returns the record of the machine."""
    end_s = time.monotonic() + LIMIT_S
    values, job = NodeValues(node=node), Job()
    # A read can block forever in the kernel, as in `examine`. The values are read while the checks run.
    reading = Thread(target=read_values, args=(machine, values), daemon=True)
    recognizing = Thread(target=_recognize, args=(machine, job), daemon=True)
    reading.start()
    recognizing.start()
    # Without this wait, a selection of few checks could end before the system is known, and have no costs.
    recognizing.join(_SYSTEM_LIMIT_S)
    machine_checks = [check for check in checks if check.area in MACHINE_AREAS]
    result = examine(machine_checks, machine, job, limit_s=end_s - time.monotonic())
    reading.join(max(0.0, end_s - time.monotonic()))
    return NodeRecord(node=node, values={**values.values}, missing={**values.missing}, result=result)


def _recognize(machine: Machine, job: Job) -> None:
    """Sets the fields of `job`."""
    with suppress(Unreadable):
        job.nodes = node_count(machine) or 1
    job.system = system_of(machine)


def merge_records(records: Sequence[NodeRecord], checks: Sequence[Check[Any]]) -> Result:
    """Runs the checks that compare nodes, and returns the result of all nodes.

    A check passed if it passed on at least one node, and no node has a finding or could not decide. A check is not
    applicable if no node has another outcome.
    """
    if not records:
        return Result(could_not_check=(Missing(check=ALL_CHECKS, missing="the record of any node"),))
    if len(records) == 1 and not records[0].problem:
        return records[0].result
    examined = [record for record in records if not record.problem]
    comparing = [check for check in checks if check.area == "nodes"]
    comparison = examine(comparing, examined, Job())
    # The subject of these findings is the node that differs.
    findings = [replace(finding, node=finding.subject, subject=UNSET) for finding in comparison.findings]
    could_not_check = [
        Missing(check=ALL_CHECKS, missing=record.problem, node=record.node) for record in records if record.problem
    ]
    could_not_check += comparison.could_not_check
    passed, not_applicable = set(comparison.passed), set(comparison.not_applicable)
    reasons = {**comparison.not_applicable_reasons}
    for record in examined:
        findings += [replace(finding, node=record.node) for finding in record.result.findings]
        could_not_check += [replace(missing, node=record.node) for missing in record.result.could_not_check]
        passed |= set(record.result.passed)
        not_applicable |= set(record.result.not_applicable)
        reasons |= record.result.not_applicable_reasons
    not_passed = {entry.check for entry in findings} | {entry.check for entry in could_not_check}
    passed -= not_passed
    not_applicable -= passed | not_passed
    names = [check.name for check in checks_of(*MACHINE_AREAS, "nodes")]
    return Result(
        findings=tuple(sorted(findings, key=sort_key)),
        passed=tuple(name for name in names if name in passed),
        not_applicable=tuple(name for name in names if name in not_applicable),
        not_applicable_reasons={name: reasons[name] for name in names if name in not_applicable and name in reasons},
        could_not_check=tuple(could_not_check),
        nodes=tuple(record.node for record in records),
    )
