"""Findings of `busbw doctor` that may explain a bad result of another command."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from busbw.cli.options.output_file import write_whole
from busbw.doctor.captured_nodes import captures_in, records_of_captures, this_node
from busbw.doctor.catalog import MACHINE_AREAS, checks_of
from busbw.doctor.log_examination import examine_log, examine_run
from busbw.doctor.model import Machine
from busbw.doctor.nccl_log.reader import read_nccl_log
from busbw.doctor.node_record import examine_node, merge_records
from busbw.doctor.open_machine import open_machine, redacted_archive
from busbw.doctor.result import ReportedFinding, Result
from busbw.doctor.sources.recording import Recording
from busbw.errors import BusbwError
from busbw.logs import Log
from busbw.store import RECORDS
from busbw.terminal import activity
from busbw.units import count_text

MAX_CAUSES = 3
"""Maximum number of findings that other commands show. `busbw doctor` shows all."""


def capture_path_in(run_folder: Path) -> Path:
    """Returns the path of a capture of this machine in the folder of a run."""
    return run_folder / f"{this_node()}.tar.gz"


def causes_on_this_machine() -> tuple[tuple[ReportedFinding, ...], Recording]:
    """Returns the findings on this machine that break or slow down collectives, worst first, and all values read."""
    with activity("looking for causes"), open_machine(None) as recording:
        result = examine_node("", Machine(recording), checks_of(*MACHINE_AREAS)).result
    return _certain_causes(result), recording


def write_capture(recording: Recording, path: Path) -> None:
    """Writes a capture of what was read of this machine into a new file in the folder of a run.

    Raises:
        BusbwError: The file cannot be written.
    """
    write_whole(path, redacted_archive(recording, is_this_machine=True), flag="--store")


def causes_in_captures(record: Path) -> tuple[ReportedFinding, ...]:
    """Returns the findings that break or slow down collectives in the captures of a run's nodes, worst first.

    Args:
        record: Record of the run. Its captures are the archives in its folder in the store.
    """
    checks = checks_of(*MACHINE_AREAS, "nodes")
    if record.name != RECORDS:
        return ()
    try:
        paths = captures_in(record.parent)
        if not paths:
            return ()
        return _certain_causes(merge_records(records_of_captures(paths, checks), checks))
    except (BusbwError, OSError):
        return ()  # an archive with another content


def _certain_causes(result: Result) -> tuple[ReportedFinding, ...]:
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
