"""What the API answers: the fields of its objects that this launcher looks at, and no others."""

import msgspec


class Terminated(msgspec.Struct, rename="camel", frozen=True):
    """How a container ended."""

    exit_code: int
    reason: str = ""
    message: str = ""


class Waiting(msgspec.Struct, rename="camel", frozen=True):
    """Why a container does not run yet."""

    reason: str = ""
    message: str = ""


class ContainerState(msgspec.Struct, rename="camel", frozen=True):
    """One of three, or none of them."""

    waiting: Waiting | None = None
    running: dict[str, str] | None = None
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, rename="camel", frozen=True):
    """What the kubelet says of a container."""

    name: str
    state: ContainerState = msgspec.field(default_factory=ContainerState)


class Condition(msgspec.Struct, rename="camel", frozen=True):
    """One of the things that may be true of a pod or a job."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


class Metadata(msgspec.Struct, rename="camel", frozen=True):
    """What every object has."""

    name: str
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    deletion_timestamp: str | None = None


class PodSpec(msgspec.Struct, rename="camel", frozen=True):
    """Where a pod runs."""

    node_name: str = ""


class PodStatus(msgspec.Struct, rename="camel", frozen=True):
    """How far a pod has got."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(msgspec.Struct, rename="camel", frozen=True):
    """A pod, as far as this launcher looks."""

    metadata: Metadata
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class PodList(msgspec.Struct, rename="camel", frozen=True):
    """What `kubectl get pods -o json` answers."""

    items: tuple[Pod, ...]


class InvolvedObject(msgspec.Struct, rename="camel", frozen=True):
    """What an event is about."""

    kind: str = ""
    name: str = ""


class Event(msgspec.Struct, rename="camel", frozen=True):
    """One remark of a controller, the scheduler or a kubelet."""

    reason: str | None = None
    message: str | None = None
    type: str | None = None
    involved_object: InvolvedObject = msgspec.field(default_factory=InvolvedObject)
    last_timestamp: str | None = None
    event_time: str | None = None

    def when(self) -> str:
        """For sorting; both are times of the same form."""
        return self.last_timestamp or self.event_time or ""


class EventList(msgspec.Struct, rename="camel", frozen=True):
    """What `kubectl get events -o json` answers."""

    items: tuple[Event, ...]


class NodeStatus(msgspec.Struct, rename="camel", frozen=True):
    """What a node has."""

    allocatable: dict[str, str] = {}


class Node(msgspec.Struct, rename="camel", frozen=True):
    """A node, as far as this launcher looks."""

    metadata: Metadata
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


class NodeList(msgspec.Struct, rename="camel", frozen=True):
    """What `kubectl get nodes -o json` answers."""

    items: tuple[Node, ...]
