"""Why a job does not run yet, said while it is waited for; and when waiting is in vain."""

from collections.abc import Sequence
from time import monotonic

from busbw.errors import BusbwError
from busbw.launchers.job.job import LaunchCallbacks
from busbw.launchers.kubernetes import objects, status
from busbw.launchers.kubernetes.kubectl import KubectlClient, RefusedError
from busbw.launchers.kubernetes.manifests import Manifests
from busbw.launchers.kubernetes.target import KubernetesTarget

_NODES_AGAIN_S = 30.0
_NO_POD_S = 10.0
"""A workload without any pod for so long is one that nobody looks after."""


class WaitExplainer:
    """Explains what the pods of one job are at, and keeps in mind since when."""

    def __init__(self, where: KubernetesTarget, made: Manifests, calls: KubectlClient, watch: LaunchCallbacks) -> None:
        self._where = where
        self._made = made
        self._calls = calls
        self._watch = watch
        self._trouble_since_s: float | None = None
        self._stage = ""
        self._no_pod_since_s: float | None = None
        self._nodes_at_s = 0.0
        self._never_fits: status.PodProblem | None = None
        self._may_see_nodes = True
        self._may_see_events = True

    def explain(self, pods: Sequence[objects.Pod], remark: str = "") -> None:
        """Says what is waited for, or that nothing is.

        Args:
            pods: Of the job.
            remark: What to say when all of them run.

        Raises:
            BusbwError: It does not heal by waiting, for as long as the patience lasts.
        """
        events = self._events(pods)
        words = status.waiting_message(pods, self._made.pods, events) or remark
        if self._where.queue and not pods:
            words = f"the queue {self._where.queue} has not let it start"
        self._watch.on_status(f"waiting: {words}" if words else "")
        trouble = (
            status.find_problem(pods, self._made.pods, events)
            or self._unschedulable(pods, events)
            or self._operator_problem(pods)
        )
        if trouble is None:
            self._trouble_since_s = None
            return
        if self._trouble_since_s is None or trouble.stage != self._stage:
            self._trouble_since_s, self._stage = monotonic(), trouble.stage
        patience_s = self._where.pending_limit_s
        if trouble.is_certain or (patience_s and monotonic() > self._trouble_since_s + patience_s):
            raise BusbwError(trouble.words, remedy=trouble.remedy)

    def _operator_problem(self, pods: Sequence[objects.Pod]) -> status.PodProblem | None:
        """A kind whose operator does not run is accepted, and then nothing happens."""
        kind = self._made.workload["kind"]
        if pods or self._where.queue or kind == "Job":
            self._no_pod_since_s = None
            return None
        self._no_pod_since_s = self._no_pod_since_s or monotonic()
        if monotonic() < self._no_pod_since_s + _NO_POD_S:
            return None
        return status.PodProblem(
            f"the cluster took the {kind} and made no pod of it",
            "have its operator started, or use --workload-kind job",
        )

    def _unschedulable(self, pods: Sequence[objects.Pod], events: Sequence[objects.Event]) -> status.PodProblem | None:
        waiting = [pod for pod in pods if status.is_unschedulable(pod)]
        if not waiting or not self._may_see_nodes:
            return None
        if monotonic() > self._nodes_at_s:
            self._nodes_at_s = monotonic() + _NODES_AGAIN_S
            try:
                nodes = self._calls.get(objects.NodeList, "nodes").items
            except RefusedError:
                self._may_see_nodes = False  # not everybody may; then the scheduler's words must do
                return None
            self._never_fits = status.never_fits(
                self._made.requests,
                dict(self._where.node_selector),
                nodes,
                wanted=1 if self._where.share_nodes else self._made.pods - (self._where.kind == "mpijob"),
                scheduler=status.why_pending(waiting[0])[1],
                events=events,
            )
        return self._never_fits

    def _events(self, pods: Sequence[objects.Pod]) -> tuple[objects.Event, ...]:
        """What is said of the workload while pods are missing, and of one pod that is not running."""
        if not self._may_see_events:
            return ()
        pending = [pod.metadata.name for pod in pods if status.is_pending(pod)]
        names = pending[:1] + ([self._made.workload["metadata"]["name"]] if len(pods) < self._made.pods else [])
        found: list[objects.Event] = []
        try:
            for name in names:
                words = ("--field-selector", f"involvedObject.name={name}")
                found += self._calls.get(objects.EventList, "events", *words).items
        except RefusedError:
            self._may_see_events = False
        return tuple(found)
