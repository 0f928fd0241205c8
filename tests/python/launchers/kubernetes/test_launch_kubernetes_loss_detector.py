"""Signs of a lost node, and the time until it counts as lost."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from busbw.launchers.kubernetes import objects
from busbw.launchers.kubernetes.loss_detector import LossDetector, suspicion_text


def pod(*, reason: str = "", phase: str = "Running", deleted: bool = False, **conditions: str) -> objects.Pod:
    said = [
        dict(zip(("status", "reason"), one.split("/"), strict=False), type=name) for name, one in conditions.items()
    ]
    body = {
        "metadata": {"name": "p"} | ({"deletionTimestamp": "2026-11-21T10:00:00Z"} if deleted else {}),
        "spec": {"nodeName": "n"},
        "status": {
            "phase": phase,
            "reason": reason,
            "conditions": said,
            "containerStatuses": [{"name": "busbw", "state": {"running": {}}}],
        },
    }
    return msgspec.convert(body, objects.Pod)


def reading(failures: int) -> Any:
    return SimpleNamespace(failures=failures, is_connected=False, error_text="no route to host")


def lost_after_s(one: objects.Pod, failures: int = 0, pending_limit_s: int = 60) -> int | None:
    """The first second at which it counts as lost, of 200."""
    loss = LossDetector(pending_limit_s)
    return next((second for second in range(200) if loss.lost_reason(one, reading(failures), 1000.0 + second)), None)


@pytest.mark.parametrize(
    ("one", "failures", "after_s"),
    [
        (pod(), 99, None),
        (pod(Ready="True", ContainersReady="True"), 99, None),
        (pod(reason="NodeLost"), 0, 0),
        (pod(phase="Unknown"), 0, 61),
        (pod(Ready="Unknown", ContainersReady="True"), 0, 61),
        (pod(Ready="Unknown/NodeStatusUnknown", ContainersReady="False"), 0, 61),
        (pod(Ready="False", ContainersReady="True"), 0, 61),
        (pod(Ready="False"), 0, 61),
        (pod(Ready="False/ContainersNotReady", ContainersReady="False/ContainersNotReady"), 0, None),
        (pod(Ready="False/ReadinessGatesNotReady", ContainersReady="True"), 0, None),
        (pod(deleted=True), 2, None),
        (pod(deleted=True), 3, 0),
        (pod(phase="Failed", reason="NodeLost"), 3, None),  # it has ended, which is judged elsewhere
    ],
)
def test_the_time_until_a_pod_is_lost(one: objects.Pod, failures: int, after_s: int | None) -> None:
    assert lost_after_s(one, failures) == after_s


def test_limit_0_waits_for_a_silent_node() -> None:
    assert lost_after_s(pod(Ready="Unknown"), pending_limit_s=0) is None
    assert lost_after_s(pod(reason="NodeLost"), pending_limit_s=0) == 0


def test_a_new_line_or_a_returning_node_restarts_the_limit() -> None:
    silent = pod(Ready="Unknown")
    loss = LossDetector(60)
    assert not loss.lost_reason(silent, None, 0.0)
    loss.on_line()
    assert not loss.lost_reason(silent, None, 61.0)
    assert not loss.lost_reason(pod(Ready="True"), None, 90.0)
    assert not loss.lost_reason(silent, None, 122.0)
    assert loss.lost_reason(silent, None, 183.0)


def test_status_text_meanwhile() -> None:
    assert suspicion_text(None, None) == ""
    assert suspicion_text(pod(), reading(0)) == ""
    assert suspicion_text(pod(), reading(1)) == "the log of pod p cannot be read: no route to host"
    assert suspicion_text(pod(deleted=True), None) == "pod p is being deleted"
    assert suspicion_text(pod(Ready="Unknown/NodeStatusUnknown"), reading(1)) == (
        "pod p: node n does not answer (Ready is Unknown: NodeStatusUnknown)"
    )
