"""Links of compute NICs: links that are down, InfiniBand links without a subnet manager, and bonds."""

from collections.abc import Iterator

from busbw.doctor.model import Damage, Finding, Machine, Unreadable, check
from busbw.doctor.parts.job import has_just_booted, node_count
from busbw.doctor.parts.nics import NETWORK, compute_ports
from busbw.doctor.parts.pci import gpus

_MIN_CLUSTER_NICS = 4
"""Minimum number of compute NICs of a node that needs links. With fewer, it may be a workstation without cables."""


@check(
    reads="/sys/class/infiniband/NIC/ports/1/state, phys_state",
    rule="If most compute NICs have a link, all have one. A node of a cluster has at least one link.",
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    cost="NCCL leaves out ports that are not ACTIVE without a message; GPUs then share the remaining NICs.",
    fix="check cable and switch port (Polling: no signal; Disabled: sudo mlxlink -d DEVICE -a UP)",
)
def nic_state(machine: Machine) -> Iterator[Finding]:
    ports = compute_ports(machine)
    inactive = [port for port in ports if not port.is_active]
    # ib_subnet_manager reports the other inactive ports.
    down = [port for port in inactive if not port.lacks_subnet_manager]
    has_cluster_size = len(ports) >= _MIN_CLUSTER_NICS
    if len(down) == len(ports) and has_cluster_size and gpus(machine):
        yield Finding(
            # A single node, such as a DGX for development, needs no cables.
            severity="slow" if (node_count(machine) or 1) > 1 else "risk",
            problem=f"none of {len(ports)} compute NICs is ACTIVE",
            evidence=tuple(machine.evidence(f"{port.folder}/state") for port in ports),
        )
    are_most_active = 2 * len(inactive) < len(ports)
    if are_most_active:
        for port in down:
            yield Finding(
                "slow",
                f"{port.label} is {port.state} ({port.physical_state}); "
                f"{len(ports) - len(inactive)} of {len(ports)} equal NICs are ACTIVE",
                (machine.evidence(f"{port.folder}/state"), machine.evidence(f"{port.folder}/phys_state")),
                subject=port.label,
                damage=Damage(nic_share=1 - 1 / len(ports)),
            )


@check(
    reads="/sys/class/infiniband/NIC/ports/1/state, phys_state, sm_lid; /proc/uptime",
    rule="A subnet manager configures each port of InfiniBand with a link.",
    source="https://github.com/facebookresearch/gcm",
    cost="The port stays INIT and carries no data: NCCL leaves it out, or jobs end with error 12.",
    fix="start the subnet manager of the fabric (opensm, UFM, or on the switch); sminfo shows it",
)
def ib_subnet_manager(machine: Machine) -> Iterator[Finding]:
    ports = compute_ports(machine, "InfiniBand")
    if any(port.lacks_subnet_manager for port in ports) and has_just_booted(machine):
        raise Unreadable("the final state of the ports; the node has just booted")
    for port in ports:
        subnet_manager = int(machine.word(f"{port.folder}/sm_lid"), base=0)  # an address such as 0x1; 0x0: none
        is_active_without_manager = port.is_active and subnet_manager == 0
        if port.lacks_subnet_manager or is_active_without_manager:
            problem = f"{port.label} has a link, but no subnet manager configures it ({port.state})"
            evidence = (machine.evidence(f"{port.folder}/state"), machine.evidence(f"{port.folder}/sm_lid"))
            yield Finding("broken", problem, evidence, subject=port.label)


@check(
    reads="/sys/class/net/BOND/bonding/slaves, /sys/class/net/INTERFACE/bonding_slave/mii_status",
    rule="Each interface of a bond of a RoCE compute NIC has a link.",
    source="https://docs.kernel.org/networking/bonding.html",
    cost="The NIC has the rate of the links that remain, and a ring runs at the rate of its slowest NIC.",
    fix="ip -details link show INTERFACE; check its cable and switch port",
)
def nic_bond(machine: Machine) -> Iterator[Finding]:
    roce_interfaces = {name for port in compute_ports(machine, "RoCE") for name in port.interfaces}
    for bond in machine.names(NETWORK):
        members = (machine.text_or_none(f"{NETWORK}/{bond}/bonding/slaves") or "").split()
        if roce_interfaces.isdisjoint(members):
            continue
        paths = {member: f"{NETWORK}/{member}/bonding_slave/mii_status" for member in members}
        down = [member for member, path in paths.items() if machine.word(path) == "down"]
        if len(down) == len(members):
            continue  # nic-state reports a NIC without any link
        for member in down:
            is_spare = (machine.text_or_none(f"{NETWORK}/{bond}/bonding/mode") or "").startswith("active-backup")
            yield Finding(
                "risk" if is_spare else "slow",
                f"{member} has no link; {bond} has {len(members) - len(down)} of {len(members)} links",
                (machine.evidence(paths[member]),),
                subject=member,
                fix=f"ip -details link show {member}; check its cable and switch port",
                damage=None if is_spare else Damage(nic_share=1 - len(down) / len(members)),
            )
