"""Status lines and problems, from answers of a real API server."""

from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from busbw.launchers.kubernetes import objects, status

ANSWERS = Path(__file__).resolve().parents[3] / "golden" / "launch" / "kubernetes" / "answers"

Form = TypeVar("Form", objects.PodList, objects.EventList, objects.NodeList)


def answer(form: type[Form], name: str) -> Any:
    return msgspec.json.decode((ANSWERS / f"{name}.json").read_bytes(), type=form).items


def pod(name: str = "job-0-abcde", *, index: str = "0", node: str = "n1", **changes: Any) -> objects.Pod:
    body = {
        "metadata": {"name": name, "annotations": {status.INDEX_ANNOTATION: index}},
        "spec": {"nodeName": node},
        "status": {"phase": "Pending", **changes},
    }
    return msgspec.convert(body, objects.Pod)


def container(**state: Any) -> list[dict[str, Any]]:
    return [{"name": "busbw", "state": state}]


UNSCHEDULABLE = answer(objects.PodList, "pods-unschedulable")
NO_IMAGE = answer(objects.PodList, "pods-image")
QUOTA = answer(objects.PodList, "pods-quota")
QUOTA_EVENTS = answer(objects.EventList, "events-quota")
NODES = answer(objects.NodeList, "nodes")


def test_messages_of_the_scheduler() -> None:
    words = status.waiting_message(UNSCHEDULABLE, 2, answer(objects.EventList, "events-unschedulable"))
    assert words == (
        "2 of 2 pods pending (0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 node(s) were unschedulable)"
    )
    assert all(status.is_unschedulable(one) for one in UNSCHEDULABLE)


def test_messages_of_the_kubelet() -> None:
    words = status.waiting_message(NO_IMAGE, 2)
    assert words == ('2 of 2 pods pending (ErrImagePull: failed to pull and unpack image "missing/busbw:1": not found)')
    problem = status.find_problem(NO_IMAGE, 2)
    assert problem
    assert not problem.is_certain
    assert "--image-pull-secret" in problem.remedy


def test_messages_of_the_job_controller() -> None:
    words = status.waiting_message(QUOTA, 2, QUOTA_EVENTS)
    assert words.startswith("1 of 2 pods not yet created (Error creating: pods")
    assert "exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1)" in words
    problem = status.find_problem(QUOTA, 2, QUOTA_EVENTS)
    assert problem
    assert "exceeded quota" in problem.text


def test_no_waiting_message_after_all_have_started() -> None:
    running = [pod(phase="Running", containerStatuses=container(running={})) for _ in range(2)]
    assert status.waiting_message(running, 2) == ""
    assert status.find_problem(running, 2) is None


def test_pod_events_explain_the_node() -> None:
    creating = pod(containerStatuses=container(waiting={"reason": "ContainerCreating"}))
    events = [
        msgspec.convert(
            {
                "reason": reason,
                "message": message,
                "type": "Normal",
                "lastTimestamp": when,
                "involvedObject": {"kind": "Pod", "name": creating.metadata.name},
            },
            objects.Event,
        )
        for reason, message, when in [
            ("Pulling", 'Pulling image "busbw:1"', "2026-11-21T10:00:05Z"),
            ("Scheduled", "Successfully assigned job-0-abcde to n1", "2026-11-21T10:00:09Z"),
            ("FailedScheduling", "0/3 nodes are available", "2026-11-21T10:00:01Z"),
        ]
    ]
    words = status.waiting_message([creating], 1, events)
    assert words == '1 of 1 pods pending (ContainerCreating: Pulling image "busbw:1")'


@pytest.mark.parametrize(
    ("reason", "is_certain"),
    [("InvalidImageName", True), ("ErrImageNeverPull", True), ("ImagePullBackOff", False)],
)
def test_a_certain_problem_has_no_time_limit(reason: str, is_certain: bool) -> None:
    problem = status.find_problem([pod(containerStatuses=container(waiting={"reason": reason}))], 1)
    assert problem
    assert problem.is_certain is is_certain
    assert reason in problem.text


def fits(requests: dict[str, str], selector: dict[str, str] | None = None, wanted: int = 1, **more: Any) -> str:
    found = status.find_fit_problem(
        requests, selector or {}, NODES, node_count=wanted, scheduler_message="0/3 nodes", **more
    )
    return found.text if found else ""


def test_pods_that_never_fit() -> None:
    assert fits({"nvidia.com/gpu": "16"}) == (
        "0 of the 3 nodes could ever hold 16 nvidia.com/gpu, and 1 are needed (scheduler: 0/3 nodes)"
    )
    assert "3 of the 3 nodes could ever hold 500m cpu, and 4 are needed" in fits({"cpu": "500m"}, wanted=4)
    assert "0 of the 0 nodes with moon=full" in fits({}, {"moon": "full"})
    assert "0 of the 3 nodes" in fits({"memory": "2Ti"})


def test_pods_that_could_fit_wait() -> None:
    assert fits({"cpu": "64", "memory": "512Gi"}, wanted=3) == ""
    assert fits({}, {"kubernetes.io/hostname": "real-1"}) == ""
    assert fits({"memory": "1e3xyz"}) == ""  # a form that is not understood is the scheduler's matter


def test_an_autoscaler_adds_nodes() -> None:
    coming = objects.Event(reason="TriggeredScaleUp", message="pod triggered scale-up")
    assert fits({"nvidia.com/gpu": "16"}, events=[coming]) == ""


def test_the_leader_pod_is_process_0_or_the_mpi_launcher() -> None:
    pods = [pod("a", index="1"), pod("b", index="0")]
    found = status.leader_pod(pods)
    assert found
    assert found.metadata.name == "b"
    launcher = msgspec.convert(
        {"metadata": {"name": "l", "labels": {"training.kubeflow.org/job-role": "launcher"}}}, objects.Pod
    )
    assert status.leader_pod([launcher]) is launcher
    assert status.leader_pod(pods[:1]) is None


def test_how_pods_end() -> None:
    good = pod(phase="Succeeded", containerStatuses=container(terminated={"exitCode": 0, "reason": "Completed"}))
    assert (status.exit_code(good), status.end_message(good)) == (0, "")
    killed = pod(phase="Failed", containerStatuses=container(terminated={"exitCode": 137, "reason": "OOMKilled"}))
    assert (status.exit_code(killed), status.end_message(killed)) == (137, "OOMKilled")
    evicted = pod(phase="Failed", reason="Evicted", message="The node was low on resource: memory.")
    assert status.exit_code(evicted) is None
    assert status.end_message(evicted) == "Evicted: The node was low on resource: memory"
    unstarted = {"exitCode": 128, "reason": "StartError", "message": 'exec: "x": not found'}
    problem = status.find_start_problem(pod(phase="Failed", containerStatuses=container(terminated=unstarted)))
    assert problem
    assert '"x": not found' in problem.text
    assert status.find_start_problem(killed) is None


def event(reason: str, when: str, *, kind: str = "Job", message: str = "no") -> objects.Event:
    about = {"kind": kind, "name": "job"}
    return msgspec.convert(
        {"reason": reason, "message": message, "lastTimestamp": f"2026-11-21T17:{when}Z", "involvedObject": about},
        objects.Event,
    )


def test_a_resolved_event_is_no_problem() -> None:
    failed = event("FailedCreate", "00:10")
    assert status.find_problem([], 1, [failed])
    assert status.find_problem([], 1, [failed, event("SuccessfulCreate", "00:10")])  # nobody knows which came last
    assert status.find_problem([], 1, [failed, event("SuccessfulCreate", "00:05")])
    assert status.find_problem([], 1, [failed, event("Pulled", "00:20", kind="Pod")])
    assert status.find_problem([], 1, [failed, event("SuccessfulCreate", "00:20")]) is None
    mount = event("FailedMount", "00:10", kind="Pod")
    assert status.find_problem([pod()], 1, [mount])
    assert status.find_problem([pod()], 1, [mount, event("Pulling", "00:20", kind="Pod")]) is None


@pytest.mark.parametrize(
    "times",
    [{"eventTime": "2026-11-21T17:00:20.500000Z"}, {"series": {"lastObservedTime": "2026-11-21T17:00:20.500000Z"}}],
)
def test_events_with_microseconds_are_ordered_by_second(times: dict[str, object]) -> None:
    about = {"kind": "Job", "name": "job"}
    failed = msgspec.convert({"reason": "FailedCreate", "involvedObject": about, **times}, objects.Event)
    assert status.find_problem([], 1, [failed, event("SuccessfulCreate", "00:20")])  # nobody knows which came last
    assert status.find_problem([], 1, [failed, event("SuccessfulCreate", "00:21")]) is None


def test_a_stage_changes_with_progress() -> None:
    failed, again = event("FailedCreate", "00:10"), event("FailedCreate", "00:40", message="another name")
    before = status.find_problem([pod()], 3, [failed])
    after = status.find_problem([pod()], 3, [failed, again])
    more = status.find_problem([pod(), pod("job-1-abcde")], 3, [failed, again])
    assert before
    assert after
    assert more
    assert before.stage == after.stage != more.stage


def test_pod_security_has_a_remedy_of_its_own() -> None:
    said = 'pods "job-0-x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true'
    problem = status.find_problem([], 1, [event("FailedCreate", "00:10", message=said)])
    assert problem
    assert "--run-as-user 1000" in problem.remedy
