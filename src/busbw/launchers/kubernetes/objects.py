"""Kubernetes API objects, reduced to the fields that this launcher reads."""

import msgspec


class Terminated(msgspec.Struct, rename="camel", frozen=True):
    """State of a terminated container."""

    exit_code: int
    reason: str = ""
    message: str = ""


class Waiting(msgspec.Struct, rename="camel", frozen=True):
    """State of a container that does not run yet."""

    reason: str = ""
    message: str = ""


class ContainerState(msgspec.Struct, rename="camel", frozen=True):
    """State of a container. At most one of the three fields is set."""

    waiting: Waiting | None = None
    running: dict[str, str] | None = None
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, rename="camel", frozen=True):
    """Status of a container, as the kubelet reports it."""

    name: str
    state: ContainerState = msgspec.field(default_factory=ContainerState)


class Condition(msgspec.Struct, rename="camel", frozen=True):
    """A condition of a pod or a job."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


class Metadata(msgspec.Struct, rename="camel", frozen=True):
    """Metadata of an object."""

    name: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    deletion_timestamp: str | None = None


class PodSpec(msgspec.Struct, rename="camel", frozen=True):
    """Specification of a pod: its node."""

    node_name: str = ""


class PodStatus(msgspec.Struct, rename="camel", frozen=True):
    """Status of a pod."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(msgspec.Struct, rename="camel", frozen=True):
    """A pod."""

    metadata: Metadata
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class PodList(msgspec.Struct, rename="camel", frozen=True):
    """Output of `kubectl get pods -o json`."""

    items: tuple[Pod, ...]


class InvolvedObject(msgspec.Struct, rename="camel", frozen=True):
    """The object that an event refers to."""

    kind: str = ""
    name: str = ""


class EventSeries(msgspec.Struct, rename="camel", frozen=True):
    """Repetitions of an event. The cluster counts them in the object of the first one."""

    last_observed_time: str | None = None


class Event(msgspec.Struct, rename="camel", frozen=True):
    """An event of a controller, the scheduler or a kubelet."""

    reason: str | None = None
    message: str | None = None
    type: str | None = None
    involved_object: InvolvedObject = msgspec.field(default_factory=InvolvedObject)
    last_timestamp: str | None = None
    event_time: str | None = None
    series: EventSeries | None = None

    def time(self) -> str:
        """Time of the last occurrence in UTC, as a sort key that is exact to a second. Empty if unknown."""
        repeated = self.series.last_observed_time if self.series else None
        # `eventTime` has microseconds and `lastTimestamp` has not: "41.5Z" would be before "41Z".
        return (repeated or self.last_timestamp or self.event_time or "")[: len("2026-11-21T08:16:41")]


class EventList(msgspec.Struct, rename="camel", frozen=True):
    """Output of `kubectl get events -o json`."""

    items: tuple[Event, ...]


class NodeStatus(msgspec.Struct, rename="camel", frozen=True):
    """Status of a node: its allocatable resources."""

    allocatable: dict[str, str] = {}


class Node(msgspec.Struct, rename="camel", frozen=True):
    """A node."""

    metadata: Metadata
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


class NodeList(msgspec.Struct, rename="camel", frozen=True):
    """Output of `kubectl get nodes -o json`."""

    items: tuple[Node, ...]
