"""Findings of `busbw doctor` that may explain a bad result of another command."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from busbw.doctor.catalog import MACHINE_AREAS, checks_of
from busbw.doctor.log_examination import examine_log, examine_run
from busbw.doctor.model import Machine
from busbw.doctor.nccl_log.reader import read_nccl_log
from busbw.doctor.node_record import examine_node
from busbw.doctor.open_machine import open_machine
from busbw.doctor.result import ReportedFinding
from busbw.errors import BusbwError
from busbw.logs.log import Log
from busbw.terminal import activity
from busbw.units import count_text

MAX_CAUSES = 3
"""Maximum number of findings that other commands show. `busbw doctor` shows all."""


def causes_on_this_machine() -> tuple[ReportedFinding, ...]:
    """Returns the findings on this machine that break or slow down collectives, worst first."""
    with activity("looking for causes"), open_machine(None) as recording:
        result = examine_node("", Machine(recording), checks_of(*MACHINE_AREAS)).result
    return tuple(finding for finding in result.findings if finding.severity != "risk")


def causes_in_log(path: Path) -> tuple[ReportedFinding, ...]:
    """Returns all findings in a log of NCCL, worst first. Empty if it has no messages of NCCL."""
    if not path.is_file():
        return ()
    try:
        return examine_log(read_nccl_log((path,))).findings
    except BusbwError:
        return ()  # the log of another program; the calling command has read it in its own way


def causes_in_run(log: Log) -> tuple[ReportedFinding, ...]:
    """Returns the findings in the environment variables that the record of a run with NCCL has."""
    tables = [table for table in log.tables if (table.library or "").startswith("NCCL ")]
    findings = [finding for table in tables for finding in examine_run(table).findings]
    return tuple({finding.problem: finding for finding in findings}.values())


def cause_sentences(causes: Sequence[ReportedFinding], command: str) -> Iterator[str]:
    """Yields a sentence for each of the first causes, and a sentence with the command that shows their evidence.

    Args:
        causes: Findings, worst first.
        command: Command line that shows all findings.
    """
    for cause in causes[:MAX_CAUSES]:
        node = f"{cause.node}: " if isinstance(cause.node, str) and cause.node not in cause.problem else ""
        yield f"{node}{cause.problem} [{cause.check}]"
    if causes:
        yield f"{command} shows evidence, cost and fix of {count_text(len(causes), 'finding')}"


def run_cause_sentences(causes: Sequence[ReportedFinding]) -> Iterator[str]:
    """Yields a sentence for each of the first causes in the record of a run, with its fix."""
    for cause in causes[:MAX_CAUSES]:
        yield f"{cause.problem} [{cause.check}]; fix: {cause.fix}"
    if causes:
        yield "busbw doctor, on a node of the run, looks for other causes"
