"""Where in a cluster a job runs and what its pods need: what a user says beside the job itself."""

import re
from dataclasses import dataclass
from typing import Literal

from busbw.errors import UsageError

Kind = Literal["job", "jobset", "mpijob"]

DEFAULT_PORT = 29555
"""Where process 0 listens. Each pod has an address of its own, so jobs do not meet there."""

_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(m|[kKMGTP]|[KMGTP]i)?")
_FACTORS = {"": 1.0, "m": 1e-3, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15} | {
    f"{letter}i": 1024.0**power for power, letter in enumerate("KMGTP", start=1)
}


@dataclass(frozen=True)
class Toleration:
    """A taint of nodes that the pods put up with."""

    key: str
    value: str = ""
    effect: str = ""

    def manifest(self) -> dict[str, str]:
        """As a pod's specification says it."""
        found = {"key": self.key, "operator": "Equal" if self.value else "Exists"}
        return found | ({"value": self.value} if self.value else {}) | ({"effect": self.effect} if self.effect else {})


@dataclass(frozen=True)
class KubernetesTarget:
    """The cluster, and what a pod gets there. One pod is one process on one node."""

    image: str
    kind: Kind = "job"
    context: str = ""
    namespace: str = ""
    """Empty: the context's own."""
    resources: tuple[tuple[str, str], ...] = ()
    """What each pod asks for and is limited to: `("nvidia.com/gpu", "8")`, `("hugepages-2Mi", "5120Mi")`."""
    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    shm: str = ""
    """The size of /dev/shm; empty: what the container runtime gives, 64 MiB as a rule."""
    capabilities: tuple[str, ...] = ()
    """Such as IPC_LOCK, which registering memory for InfiniBand takes where the limit of locked memory is small. Only
    processes of root have them."""
    pull_policy: str = ""
    pull_secret: str = ""
    service_account: str = ""
    priority_class: str = ""
    queue: str = ""
    """A local queue of Kueue, which then decides when the job starts."""
    run_as_user: int | None = None
    host_network: bool = False
    share_nodes: bool = False
    """Whether several of the job's pods may share a node."""
    port: int = DEFAULT_PORT
    ttl_s: int = 3600
    """How long the cluster keeps a job that has ended and that nobody removed."""
    pending_limit_s: int = 60
    """How long a state may last that does not heal by waiting."""
    keep: bool = False
    """Whether the job stays in the cluster after its end."""
    ssh_folder: str = "/home/busbw/.ssh"
    """Where the image's ssh and sshd look for keys, here in this project's own image; only with MPIJob."""


def quantity(text: str) -> float:
    """The number that a quantity of Kubernetes stands for: `8`, `500m`, `5120Mi`.

    Raises:
        UsageError: It is none.
    """
    found = _QUANTITY.fullmatch(text)
    if not found:
        raise UsageError(
            f'"{text}" is no amount', remedy="write a number with or without a unit, such as 8, 500m or 32Gi"
        )
    return float(found[1]) * _FACTORS[found[2] or ""]


def toleration(text: str) -> Toleration:
    """Reads `key`, `key=value`, `key:Effect` or `key=value:Effect`.

    Raises:
        UsageError: It is something else.
    """
    body, colon, effect = text.partition(":")
    key, equals, value = body.partition("=")
    if not key or (equals and not value) or (colon and effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute")):
        raise UsageError(
            f'"{text}" is no toleration',
            remedy="write KEY, KEY=VALUE or KEY=VALUE:EFFECT with NoSchedule, PreferNoSchedule or NoExecute",
        )
    return Toleration(key, value, effect)


def pair(text: str, example: str) -> tuple[str, str]:
    """Reads `NAME=VALUE`.

    Raises:
        UsageError: It is something else.
    """
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f'"{text}" is no NAME=VALUE', remedy=f"write it like {example}")
    return name, value
