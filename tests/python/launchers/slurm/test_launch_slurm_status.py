"""Job status from output of Slurm 22.05.8, and messages about it."""

from pathlib import Path

import pytest
from launch_jobs import GOLDEN

from busbw.launchers.slurm.status import (
    JobStatus,
    ended_message,
    find_start_problem,
    parse_scontrol,
    parse_squeue,
    waiting_message,
)

SAID = GOLDEN / "slurm" / "said"


def squeue_lines() -> dict[str, str]:
    """The recorded lines by their labels."""
    lines = (SAID / "squeue.txt").read_text().splitlines()
    return {label.removeprefix("# "): line for label, line in zip(lines[::2], lines[1::2], strict=True)}


def status(label: str) -> JobStatus:
    found = parse_squeue(squeue_lines()[label])
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("label", "sentence"),
    [
        ("held", "job 12 waits for 2 nodes: JobHeldUser; release it: `scontrol release 12`"),
        ("partition down", "job 12 waits for 2 nodes: PartitionDown (the partition accepts no jobs now)"),
        ("too many nodes", "job 12 waits for 9 nodes: PartitionNodeLimit (more nodes than the partition allows"),
        (
            "another kind of node",
            "job 12 waits for 2 nodes: PartitionConfig (the partition's current nodes do not match",
        ),
        ("too long", "job 12 waits for a node: PartitionTimeLimit (more time than the partition allows"),
        ("resources", "job 12 waits for 2 nodes: Resources (its nodes are in use), expected to start 2026-11-21 1"),
        ("priority", "job 12 waits for 2 nodes: Priority (other jobs are before it), expected to start 2026-11-21 1"),
        ("dependency", "job 12 waits for a node: Dependency (another job must end first)"),
        ("begin", "job 12 waits for a node: BeginTime (its begin time is later), expected to start 2026-11-21 1"),
    ],
)
def test_the_reason_of_a_wait(label: str, sentence: str) -> None:
    assert status(label).is_pending
    assert not status(label).has_ended
    assert waiting_message("12", status(label)).startswith(sentence)


def test_a_job_that_runs() -> None:
    running = status("running")
    assert (running.state, running.nodes, running.node_list, running.reason) == ("RUNNING", "4", "n[1-4]", "")
    assert not running.is_pending
    assert not running.has_ended


@pytest.mark.parametrize("line", ["", "\n", "RUNNING", "garbage|x"])
def test_lines_without_a_status(line: str) -> None:
    assert parse_squeue(line) is None


def test_a_reason_may_hold_anything() -> None:
    line = "PENDING|N/A|2||ReqNodeNotAvail, UnavailableNodes:n[3-4]|x"
    assert waiting_message("7", parse_squeue(line) or JobStatus("")) == (
        "job 7 waits for 2 nodes: ReqNodeNotAvail, UnavailableNodes:n[3-4]|x (requested nodes are down, drained "
        "or reserved); choose other nodes with --nodelist"
    )


def test_unknown_reasons_are_shown_unchanged() -> None:
    assert waiting_message("7", JobStatus("PENDING", "SomethingNew", "2")) == "job 7 waits for 2 nodes: SomethingNew"
    assert waiting_message("7", JobStatus("PENDING", "", "1")) == "job 7 waits for a node"
    assert waiting_message("7", JobStatus("REQUEUED", "", "2")) == "job 7 waits for 2 nodes: REQUEUED"
    assert waiting_message("7", JobStatus("CONFIGURING", "", "2", "n[1-2]")).startswith(
        "job 7 has n[1-2], which are being prepared"
    )
    assert "a limit of the account" in waiting_message("7", JobStatus("PENDING", "AssocGrpCpuLimit", "2"))


@pytest.mark.parametrize(
    ("name", "state", "nodes"),
    [
        ("failed", "FAILED", "n[1,3]"),
        ("completed", "COMPLETED", "n[1,3]"),
        ("cancelled", "CANCELLED", "n[1,3]"),
        ("node_fail", "NODE_FAIL", "n[2,4]"),
    ],
)
def test_a_job_that_has_ended(name: str, state: str, nodes: str) -> None:
    found = parse_scontrol((SAID / f"scontrol_{name}.txt").read_text())
    assert found is not None
    assert (found.state, found.node_list) == (state, nodes)
    assert found.has_ended


def test_no_such_job() -> None:
    assert parse_scontrol("slurm_load_jobs error: Invalid job id specified\n") is None


def test_the_end_names_the_nodes_that_failed() -> None:
    failed = JobStatus("NODE_FAIL", "", "2", "n[2,4]")
    assert ended_message("12", failed, ("n4 is down: Not responding",)) == (
        "Slurm ended job 12: NODE_FAIL (n4 is down: Not responding), a node failed"
    )
    assert ended_message("12", failed) == "Slurm ended job 12: NODE_FAIL on n[2,4], a node failed"
    assert "raise --time" in ended_message("12", JobStatus("TIMEOUT"))
    assert "Slurm no longer knows job 12" in ended_message("12", None)
    assert "its batch script ended" in ended_message("12", JobStatus("FAILED"))


@pytest.mark.parametrize(
    "reason", ["BadConstraints", "DependencyNeverSatisfied", "InvalidAccount", "ReservationDeleted"]
)
def test_jobs_that_never_start(reason: str) -> None:
    found = find_start_problem(JobStatus("PENDING", reason))
    assert found is not None
    assert found.is_certain
    assert reason in found.text
    assert found.remedy
    assert find_start_problem(JobStatus("RUNNING", reason)) is None


@pytest.mark.parametrize("reason", ["PartitionNodeLimit", "PartitionTimeLimit", "PartitionConfig"])
def test_jobs_that_start_only_if_the_partition_changes(reason: str) -> None:
    found = find_start_problem(JobStatus("PENDING", reason))
    assert found is not None
    assert not found.is_certain
    assert found.remedy


@pytest.mark.parametrize("label", squeue_lines() if (SAID / "squeue.txt").exists() else [])
def test_jobs_that_may_start_later(label: str) -> None:
    found = find_start_problem(status(label))
    needs_change = status(label).reason in {"PartitionNodeLimit", "PartitionTimeLimit", "PartitionConfig"}
    assert bool(found) == needs_change
    assert not (found and found.is_certain)


def test_the_recordings_are_there() -> None:
    assert {"squeue.txt", "topology.txt", "refusals.txt", "sinfo_nodes.txt"} <= {
        path.name for path in Path(SAID).iterdir()
    }
