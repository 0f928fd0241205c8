"""What a kind of machine needs, as a pod asks for it; what the user says stands above it."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TypeVar

from busbw.launchers.kubernetes.target import KubernetesTarget, Toleration
from busbw.launchers.machine_types.machine_type import MachineType

_Value = TypeVar("_Value", bound=Hashable)


def with_machine_type(where: KubernetesTarget, system: MachineType) -> KubernetesTarget:
    """The place with what the machine type adds: where both say something, the place wins."""
    resources = {one.name: str(one.count) for one in system.resources}
    if system.huge_pages:
        resources[f"hugepages-{system.huge_pages.page}"] = system.huge_pages.amount
    if system.memory:
        resources["memory"] = system.memory.value
    labels = {label.name: label.value for label in system.node_labels}
    tolerated = [Toleration(one.key, one.value or "", one.effect) for one in system.tolerations]
    return replace(
        where,
        resources=_merged(resources, where.resources),
        node_selector=_merged(labels, where.node_selector),
        tolerations=_unique([*tolerated, *where.tolerations]),
        capabilities=_unique([*(one.name for one in system.capabilities), *where.capabilities]),
        shm=where.shm or (system.shm.value if system.shm else ""),
    )


def _merged(first: dict[str, str], over: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The pairs of both; an empty value or 0 takes a name away."""
    return tuple((name, value) for name, value in {**first, **dict(over)}.items() if value not in ("", "0"))


def _unique(values: Sequence[_Value]) -> tuple[_Value, ...]:
    return tuple(dict.fromkeys(values))
