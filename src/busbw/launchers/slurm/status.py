"""Parses the status of a job in Slurm, and explains it: pure functions of the output of Slurm's commands."""

import re
from dataclasses import dataclass
from typing import Literal

SQUEUE_FORMAT = "%T|%S|%D|%N|%r"
"""State, expected start, number of nodes, node list, reason. The reason comes last because it is free text."""
_SQUEUE_FIELD_COUNT = 5

_RUNNING_STATES = {"RUNNING", "COMPLETING", "STAGE_OUT", "SIGNALING", "STOPPED", "SUSPENDED"}
_PENDING_STATES = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESIZING"}
_SELF_ENDED_STATES = {"COMPLETED", "FAILED"}
"""States of a job with a batch script that ended by itself."""
_UNKNOWN_VALUES = {"", "N/A", "Unknown", "None", "(null)"}


@dataclass(frozen=True)
class JobStatus:
    """Status of a job."""

    state: str
    """Slurm's state: PENDING, RUNNING, NODE_FAIL, ..."""
    reason: str = ""
    """Slurm's reason for waiting or for the end."""
    nodes: str = ""
    """Number of requested nodes, as text. Empty if unknown."""
    node_list: str = ""
    """Allocated nodes, such as n[1-2]. Empty before the start."""
    expected_start: str = ""
    """In the cluster's time, such as 2026-11-21T17:43:35. Empty if unknown."""

    @property
    def is_pending(self) -> bool:
        """True if the job has not started."""
        return self.state in _PENDING_STATES

    @property
    def has_ended(self) -> bool:
        """True if no part of the job runs any more."""
        return self.state not in _PENDING_STATES | _RUNNING_STATES

    @property
    def has_run_to_its_end(self) -> bool:
        """True if the batch script ended by itself."""
        return self.state in _SELF_ENDED_STATES


def parse_squeue(text: str) -> JobStatus | None:
    """Parses the output of squeue with SQUEUE_FORMAT. None if it does not list the job."""
    first_line = text.strip().partition("\n")[0]
    fields = first_line.split("|", maxsplit=_SQUEUE_FIELD_COUNT - 1)
    if len(fields) < _SQUEUE_FIELD_COUNT:
        return None
    state, expected_start, nodes, node_list, reason = (_known_text(field) for field in fields)
    return JobStatus(state, reason, nodes, node_list, expected_start)


def parse_scontrol(text: str) -> JobStatus | None:
    """Parses the output of `scontrol --oneliner show job`. None if it does not list the job."""
    fields = dict(re.findall(r"(?:^|\s)([A-Z]\w*)=(\S*)", text))
    if "JobState" not in fields:
        return None
    nodes = fields.get("NumNodes", "").partition("-")[0]
    return JobStatus(
        fields["JobState"], _known_text(fields.get("Reason", "")), nodes, _known_text(fields.get("NodeList", ""))
    )


def _known_text(text: str) -> str:
    """The text of a field. Empty for Slurm's marks of an unknown value."""
    return "" if text.strip() in _UNKNOWN_VALUES else text.strip()


Outlook = Literal["waits", "needs_partition_change", "never_starts"]
"""Outlook of a pending job: it starts after a wait, only if the partition's nodes or limits change, or never."""


@dataclass(frozen=True)
class _ReasonText:
    """Explanation of one of Slurm's reasons for waiting."""

    explanation: str
    """Empty if the reason is self-evident or unknown."""
    remedy: str = ""
    """Empty if only waiting helps, or if the reason is unknown."""
    outlook: Outlook = "waits"


_REASONS = {
    "Resources": _ReasonText("its nodes are in use"),
    "Priority": _ReasonText("other jobs are before it"),
    "Dependency": _ReasonText("another job must end first"),
    "BeginTime": _ReasonText("its begin time is later"),
    "Reservation": _ReasonText("its reservation has not started"),
    "ReqNodeNotAvail": _ReasonText(
        "requested nodes are down, drained or reserved", "choose other nodes with --nodelist"
    ),
    "Nodes required for job are DOWN, DRAINED or reserved": _ReasonText("", "see `sinfo -R` for the reasons"),
    "PartitionDown": _ReasonText("the partition accepts no jobs now", "choose another --partition from `sinfo -s`"),
    "PartitionInactive": _ReasonText("the partition starts no jobs now", "choose another --partition from `sinfo -s`"),
    "PartitionNodeLimit": _ReasonText(
        "more nodes than the partition allows or has",
        "reduce --nodes; `sinfo -s` shows the limit",
        outlook="needs_partition_change",
    ),
    "PartitionConfig": _ReasonText(
        "the partition's current nodes do not match the request",
        "request less; `sinfo -N -l` shows the nodes",
        outlook="needs_partition_change",
    ),
    "PartitionTimeLimit": _ReasonText(
        "more time than the partition allows",
        "reduce --time; `sinfo -s` shows the limit",
        outlook="needs_partition_change",
    ),
    "JobHeldUser": _ReasonText("", "release it: `scontrol release {job}`"),
    "JobHeldAdmin": _ReasonText("an administrator holds it", "ask the administrator"),
    "BadConstraints": _ReasonText(
        "no node satisfies the constraints", "change the requested resources", outlook="never_starts"
    ),
    "DependencyNeverSatisfied": _ReasonText(
        "the job that it depends on failed", "remove the dependency", outlook="never_starts"
    ),
    "InvalidAccount": _ReasonText("the account is not valid", "set another --account", outlook="never_starts"),
    "InvalidQOS": _ReasonText("the quality of service is not valid", "set another --qos", outlook="never_starts"),
    "ReservationDeleted": _ReasonText("its reservation was deleted", "remove --reservation", outlook="never_starts"),
}
"""Reasons of pending jobs (https://slurm.schedmd.com/job_reason_codes.html), explained unless self-evident."""


def _explain_reason(reason: str) -> _ReasonText:
    """Explains a reason such as `Resources` or `(ReqNodeNotAvail, Reserved for maintenance)`."""
    text = reason.strip("()")
    name = text.partition(",")[0].strip()
    if explained := _REASONS.get(name) or _REASONS.get(text):  # the name of one reason contains a comma
        return explained
    if name.startswith(("Assoc", "QOS")):
        return _ReasonText("a limit of the account or of the quality of service", "wait, or request less")
    return _ReasonText("")


def waiting_message(job: str, status: JobStatus) -> str:
    """Message about a pending job: "job 12 waits for 2 nodes: Resources (its nodes are in use), expected ..."."""
    if status.state == "CONFIGURING":
        return f"job {job} has {status.node_list or 'its nodes'}, which are being prepared (CONFIGURING)"
    nodes = "a node" if status.nodes in {"", "1"} else f"{status.nodes} nodes"
    text = f"job {job} waits for {nodes}"
    reason = status.reason
    if not reason and status.state != "PENDING":
        reason = status.state
    if reason:
        explained = _explain_reason(reason)
        text += f": {reason}"
        if explained.explanation:
            text += f" ({explained.explanation})"
        if explained.remedy:
            text += f"; {explained.remedy.format(job=job)}"
    if status.expected_start:
        text += f", expected to start {status.expected_start.replace('T', ' ')[:16]}"
    return text


@dataclass(frozen=True)
class StartProblem:
    """Problem of a pending job that waiting may not resolve."""

    text: str
    remedy: str
    is_certain: bool
    """True if the job can never start. Otherwise a change of its partition could resolve the problem."""


def find_start_problem(status: JobStatus) -> StartProblem | None:
    """Returns the problem of a job that does not start by waiting alone. None if waiting may help."""
    explained = _explain_reason(status.reason)
    if not status.is_pending or explained.outlook == "waits":
        return None
    text = f"{status.reason} ({explained.explanation})"
    return StartProblem(text, explained.remedy, is_certain=explained.outlook == "never_starts")


_END_REASONS = {
    "NODE_FAIL": "a node failed",
    "TIMEOUT": "its time limit passed; raise --time",
    "OUT_OF_MEMORY": "a node ran out of memory; use fewer ranks per node or a smaller -e",
    "PREEMPTED": "another job took its nodes",
    "CANCELLED": "it was canceled",
    "BOOT_FAIL": "a node did not boot",
    "DEADLINE": "its deadline passed",
}


def ended_message(job: str, status: JobStatus | None, failed_nodes: tuple[str, ...] = ()) -> str:
    """Message about a job that ended without an exit code of the program.

    Args:
        job: ID of the job.
        status: Final status. None if Slurm no longer knows the job.
        failed_nodes: Failed nodes of the job with Slurm's reasons.
    """
    if status is None:
        return f"Slurm no longer knows job {job}, and its program left no exit code"
    reason = _END_REASONS.get(status.state, "its batch script ended")
    nodes = f" on {status.node_list}" if status.node_list else ""
    if failed_nodes:
        nodes = f" ({', '.join(failed_nodes)})"
    return f"Slurm ended job {job}: {status.state}{nodes}, {reason}"
