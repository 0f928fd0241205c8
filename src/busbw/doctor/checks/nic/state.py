"""Compute NICs without a link, among others of the same model that have one."""

from collections.abc import Iterator

from busbw.doctor.model.check import Check, Finding
from busbw.doctor.model.damage import Damage
from busbw.doctor.model.machine import Machine
from busbw.doctor.parts.nics import compute_ports
from busbw.doctor.parts.pci import gpus

_MIN_PORTS = 4
"""Number of NICs from which on a node with GPUs is one of a cluster, and not a workstation without a cable."""


def _examine(machine: Machine) -> Iterator[Finding]:
    ports = compute_ports(machine)
    inactive = [port for port in ports if not port.is_active]
    down = [port for port in inactive if not port.lacks_subnet_manager]
    if len(down) == len(ports) >= _MIN_PORTS and gpus(machine):
        yield Finding(
            severity="slow",
            problem=f"none of {len(ports)} compute NICs is ACTIVE",
            evidence=tuple(machine.evidence(f"{port.folder}/state") for port in ports),
        )
    if 2 * len(inactive) < len(ports):
        for port in down:
            yield Finding(
                severity="slow",
                subject=port.label,
                problem=f"{port.label} is {port.state} ({port.physical_state}); "
                f"{len(ports) - len(inactive)} of {len(ports)} equal NICs are ACTIVE",
                evidence=(machine.evidence(f"{port.folder}/state"), machine.evidence(f"{port.folder}/phys_state")),
                damage=Damage(nic_share=1 - 1 / len(ports)),
            )


CHECK = Check(
    name="nic-state",
    area="nic",
    reads="/sys/class/infiniband/NIC/ports/1/state, phys_state",
    rule="No compute NIC lacks a link while most others of its model have one; a node of a cluster has links.",
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    cost="NCCL leaves out ports that are not ACTIVE without a message; two GPUs then share a NIC.",
    fix="check cable and switch port (Polling: no signal; Disabled: mlxlink -d DEVICE -a UP); RoCE: ip link set IF up",
    examine=_examine,
)
