"""NICs whose PCIe slot carries less than their port."""

import re
from collections.abc import Iterator

from busbw.doctor.model.check import Check, Finding, NotApplicable
from busbw.doctor.model.damage import Damage
from busbw.doctor.model.machine import Machine
from busbw.doctor.parts.nics import PCI, compute_ports

_ENCODING = 128 / 130
"""Share of the bits of PCIe 3 to 5 that carry data."""


def _examine(machine: Machine) -> Iterator[Finding]:
    is_known = False
    for port in compute_ports(machine):
        bus_id = port.location.bus_id
        bridge = port.location.chain[-2]
        link_gbit = _link_gbit(machine, bus_id, "current")
        possible_gbit = min(_link_gbit(machine, bus_id, "max"), _link_gbit(machine, bridge, "max") or float("inf"))
        is_known = is_known or link_gbit > 0
        # A link below what both ends can do is a fault of the link, not of the slot.
        if port.is_active and possible_gbit <= link_gbit < port.rate_gbit:
            folder = f"{PCI}/{bus_id}"
            yield Finding(
                severity="slow",
                subject=port.label,
                problem=f"{port.label} has a port of {port.rate_gbit:g} Gb/s in a PCIe slot of {link_gbit:.0f} Gb/s",
                evidence=tuple(machine.evidence(f"{folder}/current_link_{name}") for name in ("width", "speed")),
                damage=Damage(nic_share=link_gbit / port.rate_gbit),
            )
    if not is_known:
        raise NotApplicable("virtual functions do not state their PCIe link")


def _link_gbit(machine: Machine, bus_id: str, which: str) -> float:
    """Returns the rate of a PCIe link. 0 if the device does not state it, as virtual functions."""
    speed = re.match(r"\d{1,3}(?:\.\d)?(?= GT/s)", machine.optional(f"{PCI}/{bus_id}/{which}_link_speed") or "")
    width = machine.optional(f"{PCI}/{bus_id}/{which}_link_width") or ""
    return float(speed[0]) * int(width) * _ENCODING if speed and width in {"1", "2", "4", "8", "16"} else 0.0


CHECK = Check(
    name="port-speed-vs-slot",
    area="nic",
    reads="/sys/class/infiniband/NIC/ports/1/rate; current_link_width, current_link_speed in /sys/bus/pci/devices/BDF",
    rule="The PCIe slot of a compute NIC carries at least the rate of its port.",
    source="https://github.com/scitix/sichek",
    cost="PCIe limits the NIC: 400 Gb/s in a slot with x8 at 32 GT/s or x16 at 16 GT/s reaches at most 252 Gb/s.",
    fix="move the NIC to a slot with x16 of its generation; check bifurcation and slot generation in the BIOS",
    examine=_examine,
)
