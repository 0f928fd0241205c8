"""How long a trouble may last while a job does not run yet, with a cluster that says one thing after the other."""

from collections.abc import Sequence

import msgspec
import pytest

from busbw.errors import BusbwError
from busbw.launchers.job.job import LaunchCallbacks
from busbw.launchers.kubernetes import objects, wait_explainer
from busbw.launchers.kubernetes.manifests import Manifests
from busbw.launchers.kubernetes.target import KubernetesTarget


class Cluster:
    """Stands for `Calls`."""

    def __init__(self) -> None:
        self.events: Sequence[objects.Event] = ()

    def get(self, form: type[objects.EventList], *_words: str) -> objects.EventList:
        return form(tuple(self.events))


def failed(at_s: int) -> objects.Event:
    about = {"kind": "Job", "name": "job"}
    when = f"2026-11-21T17:{at_s // 60:02}:{at_s % 60:02}Z"
    return msgspec.convert({"reason": "FailedCreate", "lastTimestamp": when, "involvedObject": about}, objects.Event)


def pods(count: int) -> list[objects.Pod]:
    running = {"phase": "Running", "containerStatuses": [{"name": "busbw", "state": {"running": {}}}]}
    return [
        msgspec.convert({"metadata": {"name": f"job-{one}"}, "status": running}, objects.Pod) for one in range(count)
    ]


def test_the_limit_restarts_with_every_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, now_s = Cluster(), 1000.0
    monkeypatch.setattr(wait_explainer, "monotonic", lambda: now_s)
    job_manifests = Manifests(
        workload={"kind": "Job", "metadata": {"name": "job"}},
        owned=(),
        starts_suspended=False,
        pod_count=4,
        requests={},
    )
    where = KubernetesTarget(image="x", pending_limit_s=60)
    callbacks = LaunchCallbacks(lambda _line: None, lambda: None)
    explains = wait_explainer.WaitExplainer(where, job_manifests, cluster, callbacks)  # type: ignore[arg-type]
    for count in range(4):  # a slow start with progress
        for _ in range(5):
            cluster.events = [failed(int(now_s))]
            explains.explain(pods(count))
            now_s += 10
    now_s += 20
    with pytest.raises(BusbwError, match="the cluster creates no pod"):
        explains.explain(pods(3))
