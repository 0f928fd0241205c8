"""Settings of a Kubernetes launch in addition to the job: cluster, placement and resources of the pods."""

import re
from dataclasses import dataclass
from typing import Literal

from busbw.errors import UsageError

Kind = Literal["job", "jobset", "mpijob"]
"""Workload kind: the kind of the object that creates the pods."""

DEFAULT_PORT = 29555
"""Port on which process 0 listens. Each pod has its own address, so jobs do not conflict."""

_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
"""Label of RFC 1123, such as team-a: the form of a namespace."""
_DOTTED_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
"""Subdomain of RFC 1123, such as gpu.team-a: the form of the names of most objects."""
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(m|[kKMGTP]|[KMGTP]i)?")
_UNIT_FACTORS = {"": 1.0, "m": 1e-3, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15} | {
    f"{letter}i": 1024.0**power for power, letter in enumerate("KMGTP", start=1)
}


@dataclass(frozen=True)
class Toleration:
    """A toleration of the pods for a taint."""

    key: str
    value: str = ""
    """Empty: every value of the taint."""
    effect: str = ""
    """Empty: every effect of the taint."""

    def manifest(self) -> dict[str, str]:
        """The toleration in the form of a pod specification."""
        manifest = {"key": self.key, "operator": "Equal" if self.value else "Exists"}
        optional = {"value": self.value, "effect": self.effect}
        return manifest | {name: text for name, text in optional.items() if text}


@dataclass(frozen=True)
class KubernetesTarget:
    """The cluster and the settings of the pods. A pod runs one process; a worker of an MPIJob can run several."""

    image: str
    kind: Kind = "job"
    context: str = ""
    """Context of the kubeconfig. Empty: the current one."""
    namespace: str = ""
    """Empty: the namespace of the context."""
    resources: tuple[tuple[str, str], ...] = ()
    """Requests and limits of each pod that measures: `("nvidia.com/gpu", "8")`, `("hugepages-2Mi", "5120Mi")`.
    The amount 0 removes a default request."""
    node_selector: tuple[tuple[str, str], ...] = ()
    """Names and values of the labels that a node must have."""
    tolerations: tuple[Toleration, ...] = ()
    shm: str = ""
    """Size of /dev/shm. Empty: 1 GiB."""
    capabilities: tuple[str, ...] = ()
    """Linux capabilities such as IPC_LOCK, which InfiniBand needs if the limit of locked memory is small. They apply
    only to processes of root."""
    pull_policy: str = ""
    pull_secret: str = ""
    service_account: str = ""
    priority_class: str = ""
    queue: str = ""
    """Local queue of Kueue, which decides when the job starts."""
    run_as_user: int | None = None
    """User ID of the processes. None: the user of the image, which must not be root."""
    host_network: bool = False
    share_nodes: bool = False
    """True if several pods of the job may share a node."""
    port: int = DEFAULT_PORT
    active_limit_s: int = 86400
    """How long the job may run, including the wait for nodes, before the cluster ends it."""
    pending_limit_s: int = 60
    """How long a problem that probably does not resolve by waiting may last before the job ends. 0: no limit."""
    keep: bool = False
    """True to keep the job in the cluster after its end."""
    ssh_folder: str = "/home/busbw/.ssh"
    """Folder for ssh keys in the image; used only by MPIJob. The default is that of this project's image."""

    def __post_init__(self) -> None:
        """Checks the names.

        Raises:
            UsageError: A name has a form that Kubernetes refuses, or that would break the manifest.
        """
        _require_name("--namespace", self.namespace, _NAME)
        _require_name("--image-pull-secret", self.pull_secret, _DOTTED_NAME)
        _require_name("--service-account", self.service_account, _DOTTED_NAME)
        _require_name("--priority-class", self.priority_class, _DOTTED_NAME)
        _require_name("--queue", self.queue, _DOTTED_NAME)


def _require_name(option: str, name: str, form: re.Pattern[str]) -> None:
    if name and not form.fullmatch(name):
        dot_text = ", dots" if form is _DOTTED_NAME else ""
        raise UsageError(
            f'{option}: "{name}" is not a name of Kubernetes',
            remedy=f"write lower-case letters, digits{dot_text} and inner hyphens",
        )


def has_fixed_content(image: str) -> bool:
    """True if the image has a digest, or a tag other than `latest`, which registries move to each new image."""
    name = image.rpartition("/")[2]  # the host before it may have a port
    tag = name.partition(":")[2]
    return "@" in name or tag not in ("", "latest")


def parse_quantity(text: str) -> float:
    """Parses a Kubernetes quantity such as `8`, `500m` or `5120Mi`.

    Raises:
        UsageError: The text is not a quantity.
    """
    match = _QUANTITY.fullmatch(text)
    if not match:
        raise UsageError(
            f'"{text}" is not a quantity', remedy="write a number with an optional unit, such as 8, 500m or 32Gi"
        )
    return float(match[1]) * _UNIT_FACTORS[match[2] or ""]


def parse_toleration(text: str) -> Toleration:
    """Parses `key`, `key=value`, `key:Effect` or `key=value:Effect`.

    Raises:
        UsageError: The text has another format.
    """
    body, colon, effect = text.partition(":")
    key, equals, value = body.partition("=")
    lacks_value = bool(equals) and not value
    has_unknown_effect = bool(colon) and effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute")
    if not key or lacks_value or has_unknown_effect:
        raise UsageError(
            f'"{text}" is not a toleration',
            remedy="write KEY, KEY=VALUE or KEY=VALUE:EFFECT with NoSchedule, PreferNoSchedule or NoExecute",
        )
    return Toleration(key, value, effect)


def parse_pair(text: str, example: str) -> tuple[str, str]:
    """Parses `NAME=VALUE`.

    Raises:
        UsageError: The text has another format.
    """
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f'"{text}" is not NAME=VALUE', remedy=f"write it like {example}")
    return name, value
