"""Number and speed of the NVLinks of GPUs."""

from collections.abc import Iterator, Sequence

from busbw.doctor.facts.gpus import Gpu, NvLinks
from busbw.doctor.model import Damage, Finding, Machine, NotApplicable, Unreadable, check
from busbw.doctor.parts.gpus import gpu_finding, has_nvswitch, judges

_UNREGISTERED, _REGISTERED = (1, 2), 3
"""Fabric states. Links are inactive before the GPU is registered; fabric-state reports that."""


def _links(gpu: Gpu) -> NvLinks:
    return gpu.nvlinks or NvLinks(count=0)


def _state(gpu: Gpu) -> int:
    return gpu.fabric.state if gpu.fabric else 0


def _is_at_switch(gpu: Gpu) -> bool:
    """True if links lead to a switch. Virtual machines hide their ends, but not the registration."""
    return _links(gpu).to_switch or _state(gpu) == _REGISTERED


@check(
    reads="NVML: nvlinks; /proc/driver/nvidia-nvswitch/devices",
    rule="All GPUs of one model at an NVLink switch have the same number of active links.",
    source="https://github.com/Azure/azurehpc-health-checks",
    cost="The GPU loses the share of its missing links, and a ring runs at its speed; without links it uses PCIe.",
    fix="drain the node, then sudo nvidia-smi --gpu-reset; nvidia-smi nvlink -s -i INDEX; replace the GPU or the "
    "baseboard if links stay inactive",
)
@judges("nvlinks")
def nvlink_inactive(machine: Machine, gpus: Sequence[Gpu]) -> Iterator[Finding]:
    # Bridges join only some of the PCIe cards, so inactive links are normal without a switch.
    if not has_nvswitch(machine) and not any(map(_is_at_switch, gpus)):
        raise NotApplicable("no NVLink switch")
    if len(gpus) == 1:
        raise NotApplicable("one GPU, which may be that of a virtual machine without NVLinks")
    for gpu in gpus:
        active = _links(gpu).active
        usual = max(_links(each).active for each in gpus if each.name == gpu.name) or _links(gpu).count
        if active < usual and not gpu.mig and _state(gpu) not in _UNREGISTERED:
            damage = Damage(fabric_share=active / usual) if active else None
            problem = f"has {active} of {usual} NVLinks active"
            yield gpu_finding(gpu, "slow" if active else "broken", problem, "nvlinks", damage=damage)


@check(
    reads="NVML: nvlinks",
    rule="All active links of GPUs of one model have the same speed.",
    source="https://docs.nvidia.com/health-validation/",
    cost="The bandwidth within the node falls in proportion, because the slowest link sets the rate of a ring.",
    fix="drain the node, then sudo nvidia-smi --gpu-reset; nvidia-smi nvlink -s -i INDEX; replace the GPU if its links "
    "stay slow",
)
@judges("nvlinks")
def nvlink_speed(_: Machine, gpus: Sequence[Gpu]) -> Iterator[Finding]:
    if not any(_links(gpu).active for gpu in gpus):
        raise NotApplicable("no active NVLink")
    for gpu in gpus:
        speed = min(_links(gpu).speeds_mbps, default=0)
        usual = max((max(_links(each).speeds_mbps, default=0) for each in gpus if each.name == gpu.name), default=0)
        if 0 < speed < usual:
            problem = f"has NVLinks at {speed / 1000:g} GB/s; the usual speed is {usual / 1000:g} GB/s"
            yield gpu_finding(gpu, "slow", problem, "nvlinks", damage=Damage(fabric_share=speed / usual))
    if unknown := [gpu.label for gpu in gpus if _links(gpu).active and not _links(gpu).speeds_mbps]:
        raise Unreadable(f"the speed of the NVLinks of {unknown[0]}")
