"""Width and speed of the PCIe links of GPUs, RDMA devices and the bridges above them."""

from collections.abc import Iterator, Sequence
from typing import Literal

from busbw.doctor.model import Damage, Evidence, Finding, Machine, check, require
from busbw.doctor.parts.job import is_virtual
from busbw.doctor.parts.nics import rdma_gbit
from busbw.doctor.parts.pci import DEVICES, PciDevice, PciLink, gpus, links_above, rdma_devices

_PAYLOAD_SHARE = 0.85
"""Share of a link's rate that GPUDirect reaches: 400 Gbit/s NICs move 26 to 28 GB/s through 31.5 GB/s (Gen5 x8)."""


def _examine(machine: Machine, name: Literal["width", "speed"], unit: str) -> Iterator[Finding]:
    """Yields the links with a lower width or speed than possible."""
    nics = rdma_devices(machine)
    # The speed of a link to a GPU drops while the GPU is idle; its width does not.
    devices = (*nics, *gpus(machine)) if name == "width" else nics
    # By the bus id of a link's lower end: the link, a device at or below this end, and the depth. The depth is the
    # number of links between the device and this link: 0 for the device's own link.
    links: dict[str, tuple[PciLink, PciDevice, int]] = {}
    for device in devices:
        for depth, link in enumerate(links_above(machine, device.bus_id)):
            links.setdefault(link.lower, (link, device, depth))
    require(links, "no GPU or RDMA device below a PCIe port")
    best: dict[tuple[str, int], float] = {}  # highest value by the model of the device and the depth
    for link, device, depth in links.values():
        best[device.model, depth] = max(getattr(link, name) or 0.0, best.get((device.model, depth), 0.0))
    is_physical = not is_virtual(machine)
    for link, device, depth in links.values():
        now, possible = getattr(link, name), getattr(link, f"max_{name}")
        if now is None or possible is None:
            continue
        # A slot can be narrower by design. A low value is a defect if the same link of an equal device has more, or on
        # the own link of a NIC on bare metal.
        is_link_of_nic = depth == 0 and device in nics
        is_defect = now < best[device.model, depth] or (is_link_of_nic and is_physical)
        if now < possible and is_defect:
            label = device.label if depth == 0 else f"the bridge {link.lower} above {device.label}"
            yield Finding(
                "slow",
                f"the PCIe {name} of {label} is {now:g}{unit} instead of {possible:g}{unit}",
                (
                    machine.evidence(f"{DEVICES}/{link.lower}/current_link_{name}"),
                    Evidence("what both ends of the link support", f"{possible:g}"),
                ),
                subject=label,
                # GPUDirect between devices below one switch does not use the links above it, so their cost is unknown.
                damage=_damage(machine, link, device, nics) if depth == 0 else None,
            )


def _damage(machine: Machine, link: PciLink, device: PciDevice, nics: Sequence[PciDevice]) -> Damage | None:
    """Returns the damage of a slow link relative to its NIC, or for a GPU to the fastest NIC. None if unknown."""
    rates_gbit = [rdma_gbit(machine, nic.label) for nic in (device, *nics)]
    nic_gbit = rates_gbit[0] or max(rates_gbit)  # a GPU has no rate
    if not nic_gbit or link.gbps is None:
        return None
    link_gbit = 8 * _PAYLOAD_SHARE * link.gbps  # 8: `gbps` is in GB/s
    return Damage(nic_share=min(1.0, link_gbit / nic_gbit))


@check(
    reads="/sys/bus/pci/devices/*/{current,max}_link_width of GPUs, RDMA devices and the bridges above them",
    rule="Each link has the width that equal devices have; for NICs, also the width that both ends support.",
    source="NVIDIA/NVSentinel#890",
    cost="Half of the lanes halve the rate of the device: a 400 Gbit/s NIC on Gen5 x8 moves 26 to 28 of 49 GB/s.",
    fix="reseat the card; if it remains, check the retimer's firmware and the BIOS's bifurcation of the slot",
)
def pcie_width(machine: Machine) -> Iterator[Finding]:
    yield from _examine(machine, "width", " lanes")


@check(
    reads="/sys/bus/pci/devices/*/{current,max}_link_speed of RDMA devices and the bridges above them",
    rule="Each link has the speed that equal devices have; for NICs, also the speed that both ends support. "
    "GPUs are not judged.",
    source="NVIDIA/NVSentinel#890",
    cost="A 400 Gbit/s NIC on Gen4 x16 moves about 25 of 49 GB/s, on Gen3 about 13.",
    fix="reseat the card; set the speed of the slot to automatic in the BIOS; update the retimer's firmware",
)
def pcie_speed(machine: Machine) -> Iterator[Finding]:
    yield from _examine(machine, "speed", " GT/s")
