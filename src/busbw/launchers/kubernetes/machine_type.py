"""Applies a machine type to a Kubernetes target. Settings of the user override it."""

from collections.abc import Sequence
from dataclasses import replace

from busbw.launchers.kubernetes.target import KubernetesTarget, Toleration
from busbw.launchers.machine_types.machine_type import MachineType


def with_machine_type(target: KubernetesTarget, machine_type: MachineType) -> KubernetesTarget:
    """Returns the target with the settings of the machine type added. Existing settings of the target win.

    Tolerations and capabilities of both apply.
    """
    resources = {resource.name: str(resource.count) for resource in machine_type.resources}
    if machine_type.huge_pages:
        resources[f"hugepages-{machine_type.huge_pages.page}"] = machine_type.huge_pages.amount
    if machine_type.memory:
        resources["memory"] = machine_type.memory.value
    labels = {label.name: label.value for label in machine_type.node_labels}
    tolerations = [Toleration(entry.key, entry.value or "", entry.effect) for entry in machine_type.tolerations]
    capabilities = [capability.name for capability in machine_type.capabilities]
    return replace(
        target,
        resources=_merge(resources, target.resources),
        node_selector=_merge(labels, target.node_selector),
        tolerations=tuple(dict.fromkeys([*tolerations, *target.tolerations])),
        capabilities=tuple(dict.fromkeys([*capabilities, *target.capabilities])),
        shm=target.shm or (machine_type.shm.value if machine_type.shm else ""),
    )


def _merge(defaults: dict[str, str], overrides: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Merges names with values. An override with an empty value or 0 removes its name."""
    return tuple((name, value) for name, value in {**defaults, **dict(overrides)}.items() if value not in ("", "0"))
