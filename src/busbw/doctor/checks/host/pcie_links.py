"""Width and speed of the PCIe links of GPUs, RDMA devices and the bridges above them."""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from busbw.doctor.model import Damage, Evidence, Finding, Machine, check, require
from busbw.doctor.parts.pci import DEVICES, PciDevice, PciLink, gpus, links_above, rdma_devices, rdma_gbit
from busbw.doctor.parts.platform import is_virtual

_PAYLOAD_SHARE = 0.85
"""Share of a link's rate that GPUDirect reaches: 400 Gbit/s NICs move 26 to 28 GB/s through 31.5 GB/s (Gen5 x8)."""


class _LinkPosition(NamedTuple):
    """A link, and its position above a device."""

    link: PciLink
    device: PciDevice
    """First device that is at or below the lower end of the link."""
    depth: int
    """Number of links between the device and this link. 0: the link of the device itself."""

    @property
    def label(self) -> str:
        """The device or bridge at the lower end, for findings."""
        return self.device.label if self.depth == 0 else f"the bridge {self.link.lower} above {self.device.label}"


def _links(machine: Machine, devices: Sequence[PciDevice]) -> list[_LinkPosition]:
    """Returns each link above the devices once."""
    links: dict[str, _LinkPosition] = {}
    for device in reversed(devices):  # so that the first device of a shared link replaces the others
        for depth, link in enumerate(links_above(machine, device.bus_id)):
            links[link.lower] = _LinkPosition(link, device, depth)
    return list(links.values())


def _examine(machine: Machine, name: Literal["width", "speed"], unit: str) -> Iterator[Finding]:
    """Yields the links with a lower width or speed than possible."""
    nics = rdma_devices(machine)
    # The speed of a link to a GPU drops while the GPU is idle; its width does not.
    devices = (*nics, *gpus(machine)) if name == "width" else nics
    links = _links(machine, devices)
    require(links, "no GPU or RDMA device below a PCIe port")
    best: dict[tuple[str, int], float] = {}  # by the model of the device and the depth
    for link, device, depth in links:
        best[device.model, depth] = max(getattr(link, name), best.get((device.model, depth), 0.0))
    is_physical = not is_virtual(machine)
    for position in links:
        link, device, depth = position
        now, possible = getattr(link, name), getattr(link, f"max_{name}")
        # A slot can be narrower by design. A low value is a defect if an equal device has more, or on a physical NIC.
        is_link_of_nic = depth == 0 and device in nics
        is_defect = now < best[device.model, depth] or (is_link_of_nic and is_physical)
        if 0 < now < possible and is_defect:
            yield Finding(
                "slow",
                f"the PCIe {name} of {position.label} is {now:g}{unit} instead of {possible:g}{unit}",
                (
                    machine.evidence(f"{DEVICES}/{link.lower}/current_link_{name}"),
                    Evidence("what both ends of the link support", f"{possible:g}"),
                ),
                subject=position.label,
                damage=_damage(machine, position, nics),
            )


def _damage(machine: Machine, position: _LinkPosition, nics: Sequence[PciDevice]) -> Damage | None:
    """Returns the damage of a slow link to the rate of the device's NIC, or of the fastest NIC for a GPU."""
    # The cost of a link above a bridge is unknown: GPUDirect between devices below one switch does not use that link.
    if position.depth > 0:
        return None
    rates_gbit = [rdma_gbit(machine, nic.label) for nic in nics]
    nic_gbit = rdma_gbit(machine, position.device.label) or max(rates_gbit, default=0.0)
    if not nic_gbit:
        return None
    link_gbit = 8 * _PAYLOAD_SHARE * position.link.gbps  # 8: `gbps` is in GB/s
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
