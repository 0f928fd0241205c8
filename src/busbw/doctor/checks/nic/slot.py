"""NICs in a PCIe slot that carries less than their port."""

from collections.abc import Iterator

from busbw.doctor.model.check import Check, Finding
from busbw.doctor.model.damage import Damage
from busbw.doctor.model.machine import Machine
from busbw.doctor.parts.nics import compute_ports
from busbw.doctor.parts.pci import DEVICES, links_above


def _examine(machine: Machine) -> Iterator[Finding]:
    for port in compute_ports(machine):
        for link in links_above(machine, port.bus_id)[:1]:
            gbit = 8 * link.gbps
            # pcie-width and pcie-speed report a link below what both ends can do.
            is_slot = link.width >= link.max_width and link.speed >= link.max_speed
            if port.is_active and is_slot and 0 < gbit < port.rate_gbit:
                folder = f"{DEVICES}/{port.bus_id}"
                yield Finding(
                    severity="slow",
                    subject=port.label,
                    problem=f"{port.label} has a port of {port.rate_gbit:g} Gb/s in a PCIe slot of {gbit:.0f} Gb/s",
                    evidence=tuple(machine.evidence(f"{folder}/current_link_{name}") for name in ("width", "speed")),
                    damage=Damage(nic_share=gbit / port.rate_gbit),
                )


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
