"""Bonds of the network interfaces of RoCE NICs, which share the load as long as all of their ports have a link."""

from collections.abc import Iterator

from busbw.doctor.model import Damage, Finding, Machine, check
from busbw.doctor.parts.nics import NETWORK, compute_ports


@check(
    reads="/sys/class/net/BOND/bonding/slaves, /sys/class/net/INTERFACE/bonding_slave/mii_status",
    rule="Each interface of a bond of a RoCE compute NIC has a link.",
    source="https://docs.kernel.org/networking/bonding.html",
    cost="The NIC has the rate of the links that remain, and a ring runs at the rate of its slowest NIC.",
    fix="ip -details link show INTERFACE; check its cable and switch port",
)
def nic_bond(machine: Machine) -> Iterator[Finding]:
    own = {name for port in compute_ports(machine, "RoCE") for name in port.interfaces}
    for bond in machine.names(NETWORK):
        members = (machine.optional(f"{NETWORK}/{bond}/bonding/slaves") or "").split()
        paths = {each: f"{NETWORK}/{each}/bonding_slave/mii_status" for each in members} if own & {*members} else {}
        down = [each for each, path in paths.items() if machine.word(path) == "down"]
        for each in down if len(down) < len(members) else ():  # nic-state reports a NIC without any link
            is_spare = (machine.optional(f"{NETWORK}/{bond}/bonding/mode") or "").startswith("active-backup")
            yield Finding(
                "risk" if is_spare else "slow",
                f"{each} has no link; {bond} has {len(members) - len(down)} of {len(members)} links",
                (machine.evidence(paths[each]),),
                subject=each,
                fix=f"ip -details link show {each}; check its cable and switch port",
                damage=None if is_spare else Damage(nic_share=1 - len(down) / len(members)),
            )
