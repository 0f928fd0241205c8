"""Ports of InfiniBand without subnet manager, or with a partition key that reaches few other ports."""

from collections.abc import Iterator

from busbw.doctor.model.check import Check, Finding
from busbw.doctor.model.machine import Machine
from busbw.doctor.parts.nccl_settings import read_settings
from busbw.doctor.parts.nics import compute_ports

_FULL_MEMBER = 0x8000


def _examine_subnet_manager(machine: Machine) -> Iterator[Finding]:
    for port in compute_ports(machine, "InfiniBand"):
        is_active_without = port.is_active and int(machine.word(f"{port.folder}/sm_lid"), 0) == 0
        if port.lacks_subnet_manager or is_active_without:
            yield Finding(
                severity="broken",
                subject=port.label,
                problem=f"{port.label} has a link, but no subnet manager configures it ({port.state})",
                evidence=(machine.evidence(f"{port.folder}/state"), machine.evidence(f"{port.folder}/sm_lid")),
            )


def _examine_partition(machine: Machine) -> Iterator[Finding]:
    setting = read_settings(machine).get("NCCL_IB_PKEY")
    index = setting.value if setting and setting.value.isdecimal() else "0"
    for port in compute_ports(machine, "InfiniBand"):
        path = f"{port.folder}/pkeys/{index}"
        if port.is_active and not int(machine.word(path), 0) & _FULL_MEMBER:
            yield Finding(
                severity="risk",
                subject=port.label,
                problem=f"partition key {index} of {port.label} is {machine.word(path)}, not that of a full member",
                evidence=(machine.evidence(path),),
            )


CHECKS = (
    Check(
        name="ib-subnet-manager",
        area="nic",
        reads="/sys/class/infiniband/NIC/ports/1/state, phys_state, sm_lid",
        rule="A subnet manager configures each port of InfiniBand with a link.",
        source="https://github.com/facebookresearch/gcm",
        cost="The port stays INIT and carries no data: NCCL leaves it out, or jobs end with error 12.",
        fix="start the subnet manager of the fabric (opensm, UFM, or on the switch); sminfo shows it",
        examine=_examine_subnet_manager,
    ),
    Check(
        name="ib-pkey",
        area="nic",
        reads="/sys/class/infiniband/NIC/ports/1/pkeys/N with N from NCCL_IB_PKEY",
        rule="The partition key that NCCL uses is that of a full member (bit 15 set).",
        source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
        cost="Limited members cannot reach each other: initialization hangs, or jobs end with error 12.",
        fix="grep . /sys/class/infiniband/*/ports/1/pkeys/*; export NCCL_IB_PKEY=INDEX of a key 0x8000 or above",
        examine=_examine_partition,
    ),
)
