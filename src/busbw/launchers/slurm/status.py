"""What Slurm says of a job, and the sentence on what it waits for: pure functions of what its commands print."""

import re
from dataclasses import dataclass

SQUEUE_FORMAT = "%T|%S|%D|%N|%r"
"""State, expected start, nodes, their names, reason. The reason comes last: it is free text."""

_RUNS = {"RUNNING", "COMPLETING", "STAGE_OUT", "SIGNALING", "STOPPED", "SUSPENDED"}
_WAITS = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESIZING"}
_BY_ITSELF = {"COMPLETED", "FAILED"}
_NOT_SAID = {"", "N/A", "Unknown", "None", "(null)"}


@dataclass(frozen=True)
class JobStatus:
    """A job as Slurm sees it."""

    state: str
    """Slurm's own word: PENDING, RUNNING, NODE_FAIL, ..."""
    reason: str = ""
    """Why it waits, or why it ended; Slurm's own words."""
    nodes: str = ""
    """How many it is to get."""
    node_list: str = ""
    """Which ones it has: n[1-2]."""
    starts: str = ""
    """When Slurm expects to start it, 2026-11-21T17:43:35 in the cluster's time; empty where it says nothing."""

    @property
    def is_pending(self) -> bool:
        """Whether it has not begun."""
        return self.state in _WAITS

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it runs any more."""
        return self.state not in _WAITS | _RUNS

    @property
    def has_run_to_its_end(self) -> bool:
        """Whether its batch script ended by itself."""
        return self.state in _BY_ITSELF


def parse_squeue(text: str) -> JobStatus | None:
    """The status from squeue with SQUEUE_FORMAT; None where it has no line on the job."""
    parts = text.strip().partition("\n")[0].split("|", 4)
    if len(parts) < 5:
        return None
    state, starts, nodes, node_list, reason = (_said(part) for part in parts)
    return JobStatus(state, reason, nodes, node_list, starts)


def parse_scontrol(text: str) -> JobStatus | None:
    """The status from `scontrol --oneliner show job`; None where it has no such job."""
    fields = dict(re.findall(r"(?:^|\s)([A-Z]\w*)=(\S*)", text))
    if "JobState" not in fields:
        return None
    nodes = fields.get("NumNodes", "").partition("-")[0]
    return JobStatus(fields["JobState"], _said(fields.get("Reason", "")), nodes, _said(fields.get("NodeList", "")))


def _said(text: str) -> str:
    return "" if text.strip() in _NOT_SAID else text.strip()


@dataclass(frozen=True)
class _ReasonText:
    words: str
    remedy: str = ""
    never_ends: bool = False
    """Whether waiting cannot help, whatever others do."""


_MEANINGS = {
    "Resources": _ReasonText("its nodes are in use"),
    "Priority": _ReasonText("other jobs are before it"),
    "Dependency": _ReasonText("another job must end first"),
    "BeginTime": _ReasonText("its begin was set for later"),
    "Reservation": _ReasonText("its reservation has not begun"),
    "ReqNodeNotAvail": _ReasonText(
        "nodes that it asks for are down, drained or reserved", "name other ones: --nodelist"
    ),
    "Nodes required for job are DOWN, DRAINED or reserved": _ReasonText("", "`sinfo -R` says why"),
    "PartitionDown": _ReasonText("the partition takes no jobs now", "`sinfo -s` lists the others: --partition"),
    "PartitionInactive": _ReasonText("the partition starts no jobs now", "`sinfo -s` lists the others: --partition"),
    "PartitionNodeLimit": _ReasonText(
        "more nodes than the partition gives to one job, or has", "`sinfo -s` says how many: --nodes"
    ),
    "PartitionConfig": _ReasonText(
        "the partition's nodes, as they are now, cannot be what it asks for",
        "`sinfo -N -l` says how they are; ask for less",
    ),
    "PartitionTimeLimit": _ReasonText(
        "more time than the partition gives to one job", "`sinfo -s` says how much: --time"
    ),
    "JobHeldUser": _ReasonText("", "`scontrol release {job}` lets it go"),
    "JobHeldAdmin": _ReasonText("an administrator holds it", "ask who runs the cluster"),
    "BadConstraints": _ReasonText(
        "no node can ever be like that", "ask for less or for something else", never_ends=True
    ),
    "DependencyNeverSatisfied": _ReasonText("the job before it failed", "leave the dependency out", never_ends=True),
    "InvalidAccount": _ReasonText("the account is not valid", "name another one: --account", never_ends=True),
    "InvalidQOS": _ReasonText("the quality of service is not valid", "name another one: --qos", never_ends=True),
    "ReservationDeleted": _ReasonText("its reservation is gone", "leave --reservation out", never_ends=True),
}
"""Reasons of pending jobs, https://slurm.schedmd.com/job_reason_codes.html; those that need no words have none."""


def _meaning(reason: str) -> _ReasonText:
    name = reason.strip("()").partition(",")[0].strip()
    if found := _MEANINGS.get(name) or _MEANINGS.get(reason.strip("()")):
        return found
    if name.startswith(("Assoc", "QOS")):
        return _ReasonText("a limit of the account or of the quality of service", "wait, or ask for less")
    return _ReasonText("")


def waiting_message(job: str, status: JobStatus) -> str:
    """What a job waits for: "job 12 waits for 2 nodes: Resources (its nodes are in use), expected ..."."""
    if status.state == "CONFIGURING":
        return f"job {job} has {status.node_list or 'its nodes'}, which are made ready (CONFIGURING)"
    what = "a node" if status.nodes in {"", "1"} else f"{status.nodes} nodes"
    text = f"job {job} waits for {what}"
    reason = status.reason or (status.state if status.state != "PENDING" else "")
    if reason:
        meaning = _meaning(reason)
        text += f": {reason}" + (f" ({meaning.words})" if meaning.words else "")
        text += f"; {meaning.remedy.format(job=job)}" if meaning.remedy else ""
    if status.starts:
        text += f", expected to start {status.starts.replace('T', ' ')[:16]}"
    return text


def never_starts(status: JobStatus) -> tuple[str, str] | None:
    """What a job waits for in vain, and the remedy; None where waiting may help."""
    meaning = _meaning(status.reason)
    if not status.is_pending or not meaning.never_ends:
        return None
    return f"{status.reason} ({meaning.words})", meaning.remedy


_ENDS = {
    "NODE_FAIL": "a node failed",
    "TIMEOUT": "its time was used up; ask for more with --time",
    "OUT_OF_MEMORY": "a node's memory was used up; measure with fewer ranks on each node or a smaller -e",
    "PREEMPTED": "another job took its nodes",
    "CANCELLED": "it was cancelled",
    "BOOT_FAIL": "a node did not boot",
    "DEADLINE": "its deadline passed",
}


def ended_message(job: str, status: JobStatus | None, down: tuple[str, ...] = ()) -> str:
    """The sentence on a job that ended before its program did.

    Args:
        job: Its id.
        status: None where Slurm has forgotten it.
        down: Its nodes that do not answer.
    """
    if status is None:
        return f"Slurm knows nothing of job {job} any more, and its program left no exit code"
    why = _ENDS.get(status.state, "its batch script ended")
    nodes = f" ({', '.join(down)})" if down else f" on {status.node_list}" if status.node_list else ""
    return f"Slurm ended job {job}: {status.state}{nodes}, {why}"
