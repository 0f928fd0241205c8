"""Applies a machine type to a Kubernetes target. Settings of the user override it."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TypeVar

from busbw.launchers.kubernetes.target import KubernetesTarget, Toleration
from busbw.launchers.machine_types.machine_type import MachineType

_Value = TypeVar("_Value", bound=Hashable)


def with_machine_type(target: KubernetesTarget, machine_type: MachineType) -> KubernetesTarget:
    """Returns the target with the settings of the machine type added. Existing settings of the target win."""
    resources = {one.name: str(one.count) for one in machine_type.resources}
    if machine_type.huge_pages:
        resources[f"hugepages-{machine_type.huge_pages.page}"] = machine_type.huge_pages.amount
    if machine_type.memory:
        resources["memory"] = machine_type.memory.value
    labels = {label.name: label.value for label in machine_type.node_labels}
    tolerations = [Toleration(one.key, one.value or "", one.effect) for one in machine_type.tolerations]
    return replace(
        target,
        resources=_merged(resources, target.resources),
        node_selector=_merged(labels, target.node_selector),
        tolerations=_unique([*tolerations, *target.tolerations]),
        capabilities=_unique([*(one.name for one in machine_type.capabilities), *target.capabilities]),
        shm=target.shm or (machine_type.shm.value if machine_type.shm else ""),
    )


def _merged(first: dict[str, str], overrides: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Merges the pairs. An override with an empty value or 0 removes a name."""
    return tuple((name, value) for name, value in {**first, **dict(overrides)}.items() if value not in ("", "0"))


def _unique(values: Sequence[_Value]) -> tuple[_Value, ...]:
    return tuple(dict.fromkeys(values))
