"""What the cluster says of a job's pods, in its own words: what is waited for, and whether waiting helps."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from busbw.errors import UsageError
from busbw.launchers.kubernetes.objects import ContainerState, Event, InvolvedObject, Node, Pod
from busbw.launchers.kubernetes.pods import CONTAINER
from busbw.launchers.kubernetes.target import quantity

INDEX = "batch.kubernetes.io/job-completion-index"
"""The annotation in which an Indexed Job tells a pod its number."""

_ROLE = "training.kubeflow.org/job-role"
_NO_NEWS = {"Scheduled", "FailedScheduling", "NotTriggerScaleUp"}
"""Events of a pod that say nothing once it has a node."""
_HEALTHY_REASONS = {"ContainersNotReady", "PodCompleted", "PodFailed", "ReadinessGatesNotReady"}
"""Reasons of the kubelet for a pod that is not ready."""
_SCHEDULER_TAIL = re.compile(r"[.,]?\s*(?:no new claims to deallocate|preemption: ).*", re.DOTALL)
"""What the scheduler adds about pods that it could throw out for ours."""
_PULL = "check the name and tag of --image, and that the nodes may pull it (--image-pull-secret)"
_ALLOWED = "ask for what the namespace allows, or choose another with --namespace"
_RESTRICTED = "give --run-as-user 1000, and neither --capability nor --host-network, or choose another --namespace"
_FIT = (
    "ask for less, for fewer nodes, or correct --node-selector and --toleration; --pending-timeout 0 waits all the same"
)


@dataclass(frozen=True)
class PodProblem:
    """Something that does not heal by waiting, as far as anybody can know."""

    words: str
    remedy: str
    is_certain: bool = False
    """Nothing but a new job helps; no need for patience."""
    stage: str = ""
    """What changes when things get on all the same; patience then begins anew."""


_TROUBLES = {
    "ErrImagePull": (_PULL, False),
    "ImagePullBackOff": (_PULL, False),
    "ErrImageNeverPull": (f"the image is not on the node and may not be pulled; {_PULL}", True),
    "InvalidImageName": ("correct --image", True),
    "CreateContainerConfigError": ("a Secret or an account that the pod names is not as it should be", False),
    "CreateContainerError": ("the container runtime of the node refuses it; its log says more", False),
    "RunContainerError": ("the container runtime of the node refuses it; its log says more", False),
}


def is_pending(pod: Pod) -> bool:
    """Whether its program has not been started."""
    return pod.status.phase in ("", "Pending") and not has_started(pod)


def has_started(pod: Pod) -> bool:
    """Whether there is a log to read."""
    state = _program(pod)
    return state.running is not None or state.terminated is not None


def has_ended(pod: Pod) -> bool:
    """Whether its program runs no more; what was injected beside it may run for ever."""
    return pod.status.phase in ("Succeeded", "Failed") or _program(pod).terminated is not None


def exit_code(pod: Pod) -> int | None:
    """Its program's; None where none is known: it runs, never ran, or its node is lost."""
    ended_message = _program(pod).terminated
    return ended_message.exit_code if ended_message else None


def why_pending(pod: Pod) -> tuple[str, str]:
    """Reason and message: of the container, of one beside it that is in trouble, or of the scheduler."""
    is_pending = [status.state.waiting for status in pod.status.container_statuses if status.state.waiting]
    own = _program(pod).waiting
    for waiting in [one for one in is_pending if one.reason in _TROUBLES] + ([own] if own else []) + is_pending:
        return waiting.reason, waiting.message
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.reason, condition.message
    where = f"starting on {pod.spec.node_name}" if pod.spec.node_name else "not yet scheduled"
    return pod.status.reason or where, pod.status.message


def is_unschedulable(pod: Pod) -> bool:
    """Whether the scheduler has tried and found no node."""
    return is_pending(pod) and why_pending(pod)[0] == "Unschedulable"


def index_of(pod: Pod) -> int | None:
    """Its process's number; None for an MPI launcher."""
    text = pod.metadata.annotations.get(INDEX) or pod.metadata.labels.get(INDEX, "")
    return int(text) if text.isdecimal() else None


def leader_pod(pods: Sequence[Pod]) -> Pod | None:
    """The pod whose output is the job's: that of process 0, or the one in which mpirun runs."""
    heads = [pod for pod in pods if index_of(pod) == 0 or pod.metadata.labels.get(_ROLE) == "launcher"]
    return heads[-1] if heads else None


def waiting_message(pods: Sequence[Pod], wanted: int, events: Sequence[Event] = ()) -> str:
    """One line on what is waited for; empty when every pod has started."""
    parts = []
    if len(pods) < wanted:
        remark = _latest_warning(events, {"Job", "JobSet", "MPIJob"})
        parts.append(f"{wanted - len(pods)} of {wanted} pods not yet created" + (f" ({remark})" if remark else ""))
    reasons = Counter(_pending_words(*_explained(pod, events)) for pod in pods if is_pending(pod))
    parts.extend(f"{count} of {wanted} pods pending ({words})" for words, count in reasons.items())
    return "; ".join(parts)


def find_problem(pods: Sequence[Pod], wanted: int, events: Sequence[Event] = ()) -> PodProblem | None:
    """The first thing that does not heal by itself; the scheduler's are another matter (`never_fits`)."""
    for pod in pods:
        reason, message = why_pending(pod) if is_pending(pod) else ("", "")
        if reason in _TROUBLES:
            remedy, is_certain = _TROUBLES[reason]
            return PodProblem(f"pod {pod.metadata.name}: {_words(reason, message)}", remedy, is_certain)
    for event in _unresolved_events(events):
        words, stage = _one_line(event.message or ""), f"{event.reason} with {len(pods)} pods"
        if event.reason == "FailedCreate" and len(pods) < wanted:
            remedy = _RESTRICTED if "PodSecurity" in words else _ALLOWED
            return PodProblem(f"the cluster creates no pod: {words}", remedy, stage=stage)
        if event.reason == "FailedMount" and any(is_pending(pod) for pod in pods):
            return PodProblem(f"pod {event.involved_object.name}: {words}", "see the message", stage=stage)
    return None


def _unresolved_events(events: Sequence[Event]) -> list[Event]:
    """Events stay for an hour; that an object got over one is told by a later one of it."""
    latest: dict[InvolvedObject, str] = {}
    for event in events:
        latest[event.involved_object] = max(latest.get(event.involved_object, ""), event.when())
    return [event for event in events if event.when() == latest[event.involved_object]]


def never_fits(
    requests: Mapping[str, str],
    selector: Mapping[str, str],
    nodes: Sequence[Node],
    *,
    wanted: int,
    scheduler: str,
    events: Sequence[Event] = (),
) -> PodProblem | None:
    """Whether the pods would not fit the cluster even if it were empty; None when they would, or when it is growing.

    Taints, affinity and nodes that take no pods for now are left to the scheduler: this errs on the side of waiting.

    Args:
        requests: What a pod asks for.
        selector: The labels that its node must have.
        nodes: All of the cluster.
        wanted: How many nodes the pods take, each one of its own; 1 where they may share one.
        scheduler: The scheduler's own words.
        events: What has been said of the pods.
    """
    if any(event.reason in ("TriggeredScaleUp", "Nominated") for event in events):
        return None  # an autoscaler is bringing nodes
    labelled = [node for node in nodes if selector.items() <= node.metadata.labels.items()]
    fitting = [node for node in labelled if _holds(node.status.allocatable, requests)]
    if len(fitting) >= wanted:
        return None
    chosen = " with " + ", ".join(f"{name}={value}" for name, value in selector.items()) if selector else ""
    asked = " and ".join(f"{amount} {name}" for name, amount in requests.items()) or "what a pod asks for"
    found = f"{len(fitting)} of the {len(labelled)} nodes{chosen} could ever hold {asked}, and {wanted} are needed"
    return PodProblem(f"{found} (scheduler: {_one_line(scheduler)})", _FIT)


def never_ran(pod: Pod) -> PodProblem | None:
    """Why the program could not be started although the container could; None where it was started."""
    ended = _program(pod).terminated
    if ended is None or ended.reason not in ("StartError", "ContainerCannotRun"):
        return None
    return PodProblem(
        f"pod {pod.metadata.name}: {_words(ended.reason, ended.message)}",
        "the image must hold the program (deploy/Dockerfile); --program-path says where it lies in it",
        is_certain=True,
    )


def end_message(pod: Pod) -> str:
    """How a pod ended, where that was no plain exit: evicted, out of memory, its node lost. Empty otherwise."""
    ended = _program(pod).terminated
    if ended and ended.reason not in ("", "Completed", "Error"):
        return _words(ended.reason, ended.message)
    return _words(pod.status.reason, pod.status.message) if pod.status.reason else ""


def unreachable_message(pod: Pod) -> str:
    """Why its node seems not to answer any more; empty while nothing speaks for that.

    When a node is silent the node controller makes its pods not ready, and leaves the rest of their status as the
    kubelet last wrote it. A pod that is not ready for the sake of one of its containers is alive.
    """
    conditions = {one.type: one for one in pod.status.conditions}
    ready, containers = conditions.get("Ready"), conditions.get("ContainersReady")
    node = f"node {pod.spec.node_name}"
    if is_node_lost(pod) or pod.status.phase == "Unknown":
        return f"{node} does not answer ({_words(pod.status.reason or 'Unknown', pod.status.message)})"
    if ready is None or ready.status == "True" or ready.reason in _HEALTHY_REASONS:
        return ""
    if ready.status == "False" and containers is not None and containers.status == "False":
        return ""
    said = f": {_words(ready.reason, ready.message)}" if ready.reason else ""
    return f"{node} does not answer (Ready is {ready.status}{said})"


def is_node_lost(pod: Pod) -> bool:
    """Whether the cluster itself has given up the pod's node."""
    return pod.status.reason == "NodeLost"


def _program(pod: Pod) -> ContainerState:
    """What the kubelet says of our container; the cluster may have put others beside it."""
    states = (status.state for status in pod.status.container_statuses if status.name == CONTAINER)
    return next(states, ContainerState())


def _explained(pod: Pod, events: Sequence[Event]) -> tuple[str, str]:
    """A container that is being created says no more than that: what the node does, and cannot do, is in the events."""
    reason, message = why_pending(pod)
    mine = [
        event
        for event in events
        if event.involved_object.name == pod.metadata.name and event.reason not in _NO_NEWS and event.message
    ]
    latest = max(mine, key=Event.when, default=None)
    return (reason, message) if message or latest is None or not pod.spec.node_name else (reason, latest.message or "")


def _latest_warning(events: Sequence[Event], kinds: set[str]) -> str:
    warnings = [event for event in events if event.type == "Warning" and event.involved_object.kind in kinds]
    latest = max(warnings, key=Event.when, default=None)
    return _one_line(latest.message or "") if latest else ""


def _holds(allocatable: Mapping[str, str], requests: Mapping[str, str]) -> bool:
    return all(_suffices(allocatable.get(name), asked) for name, asked in requests.items())


def _suffices(there: str | None, asked: str) -> bool:
    try:
        return quantity(there or "0") >= quantity(asked)
    except UsageError:
        return True  # an amount in a form that is not read here: the scheduler may judge


def _pending_words(reason: str, message: str) -> str:
    """The scheduler's message says that there is no node, and its reason only that again."""
    return _one_line(message) if reason == "Unschedulable" and message else _words(reason, message)


def _words(reason: str, message: str) -> str:
    return f"{reason}: {_one_line(message)}" if message else reason


def _one_line(text: str) -> str:
    return " ".join(_SCHEDULER_TAIL.sub("", text).split()).rstrip(".")
