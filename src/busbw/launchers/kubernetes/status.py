"""Interprets the status of a job's pods: reasons for waiting, and problems that waiting cannot solve.

The kubelet is the cluster's agent on each node. It starts the containers and reports their states.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from busbw.errors import UsageError
from busbw.launchers.kubernetes.objects import ContainerState, Event, InvolvedObject, Node, Pod
from busbw.launchers.kubernetes.pods import CONTAINER
from busbw.launchers.kubernetes.target import parse_quantity

INDEX_ANNOTATION = "batch.kubernetes.io/job-completion-index"
"""Annotation and label with a pod's index in an Indexed Job."""

_ROLE_LABEL = "training.kubeflow.org/job-role"
_ROUTINE_EVENTS = {"Scheduled", "FailedScheduling", "NotTriggerScaleUp"}
"""Events that do not explain a wait once the pod has a node."""
_LIVE_KUBELET_REASONS = {"ContainersNotReady", "PodCompleted", "PodFailed", "ReadinessGatesNotReady"}
"""Reasons from a live kubelet for a pod that is not ready."""
_SCHEDULER_TAIL = re.compile(r"[.,]?\s*(?:no new claims to deallocate|preemption: ).*", re.DOTALL)
"""End of a scheduler message that is not shown: details about preemption and resource claims.

Example: "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes ..." is shown up to "cpu".
"""
_PULL_REMEDY = "check the name and tag of --image, and the nodes' access to it (--image-pull-secret)"
_QUOTA_REMEDY = "request what the namespace allows, or use another --namespace"
_POD_SECURITY_REMEDY = "use --run-as-user 1000 without --capability and --host-network, or another --namespace"
_ROOT_REMEDY = "use an image with a numeric user, --run-as-user 1000, or --run-as-user 0 for root"
_FIT_REMEDY = "request fewer resources or nodes, correct --node-selector, or wait with --pending-timeout 0"


@dataclass(frozen=True)
class PodProblem:
    """A problem that probably does not resolve by waiting."""

    text: str
    remedy: str
    is_certain: bool = False
    """True if waiting cannot help, so that the job ends at once."""
    stage: str = ""
    """Marker of progress. If it changes, the time limit begins again."""


_PROBLEMS = {
    "ErrImagePull": (_PULL_REMEDY, False),
    "ImagePullBackOff": (_PULL_REMEDY, False),
    "ErrImageNeverPull": (f"load the image on the node, or allow pulling; {_PULL_REMEDY}", True),
    "InvalidImageName": ("correct --image", True),
    "CreateContainerConfigError": ("check the Secrets and the service account of the pod", False),
    "CreateContainerError": ("check the log of the node's container runtime", False),
    "RunContainerError": ("check the log of the node's container runtime", False),
}
"""For each reason of a waiting container: the remedy, and true if waiting cannot help."""


def is_pending(pod: Pod) -> bool:
    """True if the pod's program has not started."""
    return pod.status.phase in ("", "Pending") and not has_started(pod)


def has_started(pod: Pod) -> bool:
    """True if the program has started, so that it has a log."""
    state = _program_state(pod)
    return state.running is not None or state.terminated is not None


def has_ended(pod: Pod) -> bool:
    """True if the program has ended. Injected sidecar containers may still run."""
    return pod.status.phase in ("Succeeded", "Failed") or _program_state(pod).terminated is not None


def exit_code(pod: Pod) -> int | None:
    """Exit code of the program. None if it still runs, never ran, or its node is lost."""
    terminated = _program_state(pod).terminated
    return terminated.exit_code if terminated else None


def pending_reason(pod: Pod) -> tuple[str, str]:
    """Reason and message for a pending pod.

    Both describe the first of these that exists: a container with a known problem, the program's container, any other
    waiting container, the scheduler, the pod.
    """
    waiting_states = [status.state.waiting for status in pod.status.container_statuses if status.state.waiting]
    if waiting_states:
        with_problem = next((waiting for waiting in waiting_states if waiting.reason in _PROBLEMS), None)
        waiting = with_problem or _program_state(pod).waiting or waiting_states[0]
        return waiting.reason, waiting.message
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.reason, condition.message
    stage = f"starting on {pod.spec.node_name}" if pod.spec.node_name else "not yet scheduled"
    return pod.status.reason or stage, pod.status.message


def is_unschedulable(pod: Pod) -> bool:
    """True if the scheduler found no node for the pod."""
    return is_pending(pod) and pending_reason(pod)[0] == "Unschedulable"


def index_of(pod: Pod) -> int | None:
    """Process number of the pod. None for the launcher pod of an MPIJob."""
    text = pod.metadata.annotations.get(INDEX_ANNOTATION) or pod.metadata.labels.get(INDEX_ANNOTATION, "")
    return int(text) if text.isdecimal() else None


def leader_pod(pods: Sequence[Pod]) -> Pod | None:
    """The leader pod: that of process 0, or the one that runs mpirun. None if it is not listed."""
    leaders = [pod for pod in pods if index_of(pod) == 0 or pod.metadata.labels.get(_ROLE_LABEL) == "launcher"]
    return leaders[-1] if leaders else None


def waiting_message(pods: Sequence[Pod], pod_count: int, events: Sequence[Event] = ()) -> str:
    """One line with the reasons for waiting. Empty if all `pod_count` pods have started."""
    parts = []
    missing_count = pod_count - len(pods)
    if missing_count > 0:
        warning = _latest_warning(events, kinds={"Job", "JobSet", "MPIJob"})
        reason_text = f" ({warning})" if warning else ""
        parts.append(f"{missing_count} of {pod_count} pods not yet created{reason_text}")
    reasons = Counter(_pending_text(*_detailed_pending_reason(pod, events)) for pod in pods if is_pending(pod))
    parts.extend(f"{count} of {pod_count} pods pending ({text})" for text, count in reasons.items())
    return "; ".join(parts)


def find_problem(pods: Sequence[Pod], pod_count: int, events: Sequence[Event] = ()) -> PodProblem | None:
    """The first problem that probably does not resolve by itself, or None. Scheduling is left to `find_fit_problem`."""
    pending = [pod for pod in pods if is_pending(pod)]
    for pod in pending:
        reason, message = pending_reason(pod)
        if reason in _PROBLEMS:
            remedy, is_certain = _PROBLEMS[reason]
            if "runAsNonRoot" in message:
                remedy, is_certain = _ROOT_REMEDY, True
            return PodProblem(f"pod {pod.metadata.name}: {_reason_text(reason, message)}", remedy, is_certain)
    for event in _unresolved_events(events):
        text = _one_line(event.message or "")
        stage = f"{event.reason} with {len(pods)} pods"  # a new pod is progress
        if event.reason == "FailedCreate" and len(pods) < pod_count:
            remedy = _POD_SECURITY_REMEDY if "PodSecurity" in text else _QUOTA_REMEDY
            return PodProblem(f"the cluster creates no pod: {text}", remedy, stage=stage)
        if event.reason == "FailedMount" and pending:
            return PodProblem(
                f"pod {event.involved_object.name}: {text}", "correct the volume in the message", stage=stage
            )
    return None


def _unresolved_events(events: Sequence[Event]) -> list[Event]:
    """The latest events of each object. Kubernetes keeps events for an hour, and a later one supersedes a problem."""
    latest_times: dict[InvolvedObject, str] = {}
    for event in events:
        latest_times[event.involved_object] = max(latest_times.get(event.involved_object, ""), event.time())
    return [event for event in events if event.time() == latest_times[event.involved_object]]


def find_fit_problem(
    requests: Mapping[str, str],
    selector: Mapping[str, str],
    nodes: Sequence[Node],
    *,
    node_count: int,
    scheduler_message: str,
    events: Sequence[Event] = (),
) -> PodProblem | None:
    """Returns a problem if the pods would not fit even into the empty cluster. None if they fit or the cluster grows.

    Taints, affinity and unschedulable nodes are ignored, so in doubt the job waits.

    Args:
        requests: Resource requests of a pod.
        selector: Labels that a node must have.
        nodes: All nodes of the cluster.
        node_count: Number of nodes that the pods need; 1 if they may share nodes.
        scheduler_message: Reason of the scheduler for a pending pod.
        events: Events of the pods.
    """
    if any(event.reason in ("TriggeredScaleUp", "Nominated") for event in events):
        return None  # an autoscaler is adding nodes
    selected = [node for node in nodes if selector.items() <= node.metadata.labels.items()]
    fitting = [node for node in selected if _has_capacity(node.status.allocatable, requests)]
    if len(fitting) >= node_count:
        return None
    selector_text = ""
    if selector:
        selector_text = " with " + ", ".join(f"{name}={value}" for name, value in selector.items())
    requests_text = " and ".join(f"{amount} {name}" for name, amount in requests.items()) or "what a pod requests"
    fitting_text = f"{len(fitting)} of the {len(selected)} nodes{selector_text} could ever hold {requests_text}"
    text = f"{fitting_text}, and {node_count} are needed (scheduler: {_one_line(scheduler_message)})"
    return PodProblem(text, _FIT_REMEDY)


def find_start_problem(pod: Pod) -> PodProblem | None:
    """Problem of the pod if its program could not start. None if it started."""
    ended = _program_state(pod).terminated
    if ended is None or ended.reason not in ("StartError", "ContainerCannotRun"):
        return None
    return PodProblem(
        f"pod {pod.metadata.name}: {_reason_text(ended.reason, ended.message)}",
        "add the program to the image (deploy/Dockerfile), or set --program-path",
        is_certain=True,
    )


def deadline_message(events: Sequence[Event], name: str) -> str:
    """Message that a job exceeded its time limit. Empty if no event states this.

    An event counts if the name of its object begins with `name`, the name of the job. So pods of the job count, too.
    """
    for event in events:
        if event.reason == "DeadlineExceeded" and event.involved_object.name.startswith(name):
            return "the job exceeded its time limit; raise --active-deadline"
    return ""


def end_message(pod: Pod) -> str:
    """Reason for an abnormal end: evicted, out of memory, node lost. Empty after a plain exit."""
    ended = _program_state(pod).terminated
    if ended and ended.reason not in ("", "Completed", "Error"):
        return _reason_text(ended.reason, ended.message)
    return _reason_text(pod.status.reason, pod.status.message) if pod.status.reason else ""


def unreachable_message(pod: Pod) -> str:
    """Message that the pod's node does not answer. Empty if the pod's status does not show this.

    The node controller marks the pods of a silent node as not ready. The rest of their status stays as the kubelet last
    wrote it. A pod that is not ready because of one of its containers is alive.
    """
    conditions = {condition.type: condition for condition in pod.status.conditions}
    ready, containers = conditions.get("Ready"), conditions.get("ContainersReady")
    node = f"node {pod.spec.node_name}"
    if is_node_lost(pod) or pod.status.phase == "Unknown":
        return f"{node} does not answer ({_reason_text(pod.status.reason or 'Unknown', pod.status.message)})"
    if ready is None or ready.status == "True" or ready.reason in _LIVE_KUBELET_REASONS:
        return ""
    if ready.status == "False" and containers is not None and containers.status == "False":
        return ""
    reason = f": {_reason_text(ready.reason, ready.message)}" if ready.reason else ""
    return f"{node} does not answer (Ready is {ready.status}{reason})"


def is_node_lost(pod: Pod) -> bool:
    """True if the cluster has declared the pod's node lost."""
    return pod.status.reason == "NodeLost"


def _program_state(pod: Pod) -> ContainerState:
    """State of the program's container. The cluster may have injected other containers."""
    states = (status.state for status in pod.status.container_statuses if status.name == CONTAINER)
    return next(states, ContainerState())


def _detailed_pending_reason(pod: Pod, events: Sequence[Event]) -> tuple[str, str]:
    """Reason and message for a pending pod. While a container is being created, only the pod's events have details."""
    reason, message = pending_reason(pod)
    pod_events = [
        event
        for event in events
        if event.involved_object.name == pod.metadata.name and event.reason not in _ROUTINE_EVENTS and event.message
    ]
    latest = max(pod_events, key=Event.time, default=None)
    if not message and latest is not None and pod.spec.node_name:
        message = latest.message or ""
    return reason, message


def _latest_warning(events: Sequence[Event], kinds: set[str]) -> str:
    warnings = [event for event in events if event.type == "Warning" and event.involved_object.kind in kinds]
    latest = max(warnings, key=Event.time, default=None)
    return _one_line(latest.message or "") if latest else ""


def _has_capacity(allocatable: Mapping[str, str], requests: Mapping[str, str]) -> bool:
    return all(_is_enough(allocatable.get(name), requested) for name, requested in requests.items())


def _is_enough(available: str | None, requested: str) -> bool:
    try:
        return parse_quantity(available or "0") >= parse_quantity(requested)
    except UsageError:
        return True  # unknown syntax: leave the decision to the scheduler


def _pending_text(reason: str, message: str) -> str:
    """Omits the reason "Unschedulable", because the scheduler's message already contains it."""
    return _one_line(message) if reason == "Unschedulable" and message else _reason_text(reason, message)


def _reason_text(reason: str, message: str) -> str:
    return f"{reason}: {_one_line(message)}" if message else reason


def _one_line(text: str) -> str:
    return " ".join(_SCHEDULER_TAIL.sub("", text).split()).rstrip(".")
