"""Explains why a job does not run yet, and ends the wait if a problem does not resolve."""

from collections.abc import Sequence
from time import monotonic

from busbw.errors import BusbwError
from busbw.launchers.job.job import LaunchCallbacks
from busbw.launchers.kubernetes import objects, status
from busbw.launchers.kubernetes.kubectl import KubectlClient, RefusedError
from busbw.launchers.kubernetes.manifests import Manifests
from busbw.launchers.kubernetes.target import KubernetesTarget

_NODE_LIST_INTERVAL_S = 30.0
"""Interval between lists of the cluster's nodes, which may be long."""
_NO_POD_LIMIT_S = 10.0
"""Time after which a workload without pods shows that the operator of its kind does not run."""


class WaitExplainer:
    """Explains the state of one job's pods and tracks how long a problem lasts."""

    def __init__(
        self, target: KubernetesTarget, job_manifests: Manifests, client: KubectlClient, callbacks: LaunchCallbacks
    ) -> None:
        self._target = target
        self._job_manifests = job_manifests
        self._client = client
        self._callbacks = callbacks
        self._problem_since_s: float | None = None
        self._stage = ""
        """Stage of the last problem. `_problem_since_s` is the beginning of this stage."""
        self._no_pod_since_s: float | None = None
        """Time since which a JobSet or MPIJob has no pod. None if it has pods or waits in a queue."""
        self._next_node_list_s = 0.0
        self._fit_problem: status.PodProblem | None = None
        """Problem according to the last list of the nodes."""
        self._may_list_nodes = True
        self._may_list_events = True

    def explain(self, pods: Sequence[objects.Pod], remark: str = "") -> None:
        """Shows the reason of the wait as a status, and ends a wait that cannot succeed.

        Args:
            pods: Pods of the job.
            remark: Status text if all pods run.

        Raises:
            BusbwError: A problem is certain, or lasted longer than the target's `pending_limit_s`.
        """
        events = self._list_events(pods)
        text = status.waiting_message(pods, self._job_manifests.pod_count, events) or remark
        if self._target.queue and not pods:
            text = f"the queue {self._target.queue} has not started it yet"
        self._callbacks.on_status(f"waiting: {text}" if text else "")
        problem = (
            status.find_problem(pods, self._job_manifests.pod_count, events)
            or self._find_fit_problem(pods, events)
            or self._find_operator_problem(pods)
        )
        if problem is None:
            self._problem_since_s = None
            return
        if self._problem_since_s is None or problem.stage != self._stage:
            self._problem_since_s, self._stage = monotonic(), problem.stage
        pending_limit_s = self._target.pending_limit_s
        is_limit_over = pending_limit_s > 0 and monotonic() > self._problem_since_s + pending_limit_s
        if problem.is_certain or is_limit_over:
            raise BusbwError(problem.text, remedy=problem.remedy)

    def _find_operator_problem(self, pods: Sequence[objects.Pod]) -> status.PodProblem | None:
        """Problem of a workload that the cluster accepted although the operator of its kind does not run."""
        kind = self._job_manifests.workload["kind"]
        needs_operator = kind != "Job"
        if pods or self._target.queue or not needs_operator:
            self._no_pod_since_s = None
            return None
        self._no_pod_since_s = self._no_pod_since_s or monotonic()
        if monotonic() < self._no_pod_since_s + _NO_POD_LIMIT_S:
            return None
        return status.PodProblem(
            f"the cluster accepted the {kind} but created no pod",
            "start the operator of this kind, or use --workload-kind job",
        )

    def _find_fit_problem(
        self, pods: Sequence[objects.Pod], events: Sequence[objects.Event]
    ) -> status.PodProblem | None:
        """Problem of pods that no node can hold. None if there is no such pod, or if the user may not list nodes."""
        unschedulable = [pod for pod in pods if status.is_unschedulable(pod)]
        if not unschedulable or not self._may_list_nodes:
            return None
        if monotonic() > self._next_node_list_s:
            self._next_node_list_s = monotonic() + _NODE_LIST_INTERVAL_S
            try:
                nodes = self._client.get(objects.NodeList, "nodes").items
            except RefusedError:
                self._may_list_nodes = False  # rely on the scheduler
                return None
            launcher_pods = 1 if self._target.kind == "mpijob" else 0
            measuring_pods = self._job_manifests.pod_count - launcher_pods
            self._fit_problem = status.find_fit_problem(
                self._job_manifests.requests,
                dict(self._target.node_selector),
                nodes,
                node_count=1 if self._target.share_nodes else measuring_pods,
                scheduler_message=status.pending_reason(unschedulable[0])[1],
                events=events,
            )
        return self._fit_problem

    def _list_events(self, pods: Sequence[objects.Pod]) -> tuple[objects.Event, ...]:
        """Events of one pending pod, and of the workload while pods are missing. Empty if listing is forbidden."""
        if not self._may_list_events:
            return ()
        names = [pod.metadata.name for pod in pods if status.is_pending(pod)][:1]
        if len(pods) < self._job_manifests.pod_count:
            names.append(self._job_manifests.workload["metadata"]["name"])
        events: list[objects.Event] = []
        try:
            for name in names:
                selector = ("--field-selector", f"involvedObject.name={name}")
                events += self._client.get(objects.EventList, "events", *selector).items
        except RefusedError:
            self._may_list_events = False
        return tuple(events)
