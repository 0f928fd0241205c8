"""PCIe position of NICs: slots that carry less than the port, and GPUs without a near NIC."""

from collections.abc import Iterator, Mapping, Sequence

from busbw.doctor.model import Damage, Evidence, Finding, Machine, check, require
from busbw.doctor.parts.nccl_settings import read_settings
from busbw.doctor.parts.nics import Port, all_rdma_ports, compute_ports, rdma_ports
from busbw.doctor.parts.pci import DEVICES, INFINIBAND, PciDevice, gpus, links_above, location
from busbw.topology.sources.pci_paths import PciLocation, pcie_level

_MAX_GBIT = 400
"""Faster NICs (ConnectX-8) reach the GPUs through a PCIe switch of their own, so the slot does not limit them."""
_BELOW_SWITCH = {"PIX", "PXB"}
"""Levels of two devices with a common PCIe switch above them."""


@check(
    reads="/sys/class/infiniband/NIC/ports/1/rate, sys_image_guid; current_link_{width,speed} of the NIC on PCIe",
    rule=f"The PCIe slots of a compute NIC of up to {_MAX_GBIT} Gb/s carry at least the rate of its port.",
    source="https://github.com/scitix/sichek",
    cost="PCIe limits the NIC: 400 Gb/s in a slot with x8 at 32 GT/s or x16 at 16 GT/s reaches at most 252 Gb/s.",
    fix="move the NIC to a slot with x16 of its generation; check bifurcation and slot generation in the BIOS",
)
def port_speed_vs_slot(machine: Machine) -> Iterator[Finding]:
    ports = compute_ports(machine)
    links = {port: above[0] for port in ports if (above := links_above(machine, port.bus_id))}
    # A card in several slots, such as in DGX Spark, appears once for each slot, and its port uses all these slots.
    cards = {port: machine.text_or_none(f"{INFINIBAND}/{port.device}/sys_image_guid") or port.bus_id for port in links}
    for port, link in links.items():
        rates_gbps = [links[other].gbps for other in links if cards[other] == cards[port]]
        if None in rates_gbps:
            continue
        gbit = 8 * sum(filter(None, rates_gbps))
        # pcie-width and pcie-speed report a link that is slower than both ends permit.
        is_limited_by_slot = link.max_gbps is None or link.gbps == link.max_gbps
        if port.is_active and is_limited_by_slot and gbit < port.rate_gbit <= _MAX_GBIT:
            folder = f"{DEVICES}/{port.bus_id}"
            problem = f"{port.label} has a port of {port.rate_gbit:g} Gb/s in a PCIe slot of {gbit:.0f} Gb/s"
            evidence = tuple(machine.evidence(f"{folder}/current_link_{name}") for name in ("width", "speed"))
            yield Finding("slow", problem, evidence, subject=port.label, damage=Damage(nic_share=gbit / port.rate_gbit))


@check(
    reads="paths of GPUs and NICs in /sys/bus/pci/devices; NCCL_IB_HCA",
    rule="If most GPUs have a NIC below their PCIe switch, all have one that NCCL_IB_HCA permits.",
    source="NVIDIA/nccl#1412",
    cost="Data of this GPU crosses the CPU without GPUDirect: 33 instead of 93 GB/s on one cluster.",
    fix="see `lspci -tv`: permit the NIC in NCCL_IB_HCA, reseat it, or move it to a slot of the GPU's switch",
)
def nic_numa_gpu_map(machine: Machine) -> Iterator[Finding]:
    ports = rdma_ports(machine)
    locations = {gpu: location(machine, gpu.bus_id) for gpu in gpus(machine)}
    near = _gpus_near(machine, ports, locations)
    near_any = _gpus_near(machine, all_rdma_ports(machine), locations)
    require(near_any, "no GPU shares a PCIe switch with a NIC")
    if 2 * len(near_any) <= len(locations):
        return
    damage = Damage(nic_share=len(near) / len(locations))
    setting = read_settings(machine).get("NCCL_IB_HCA")
    if setting is not None and 2 * len(near) <= len(locations):
        problem = f"{setting.text} permits a NIC below the PCIe switch of {len(near)} of {len(locations)} GPUs"
        names = ", ".join(port.label for port in ports)
        evidence = (setting.evidence, Evidence(f"/{INFINIBAND}", f"permitted: {names}"))
        yield Finding("slow", problem, evidence, subject=setting.name, damage=damage, fix=setting.fix)
        return
    for gpu in locations:
        if gpu not in near:
            yield Finding(
                "slow",
                f"{gpu.label} ({gpu.bus_id}) has no NIC below its PCIe switch; {len(near)} other GPUs have one",
                (Evidence(f"/{DEVICES}/{gpu.bus_id}", machine.target(f"{DEVICES}/{gpu.bus_id}")),),
                subject=gpu.label,
                damage=damage,
            )


def _gpus_near(
    machine: Machine, ports: Sequence[Port], locations: Mapping[PciDevice, PciLocation | None]
) -> set[PciDevice]:
    """Returns the GPUs that have one of the ports below their PCIe switch."""
    nics = [location(machine, port.bus_id) for port in ports]
    return {gpu for gpu, own in locations.items() if any(pcie_level(own, nic, None) in _BELOW_SWITCH for nic in nics)}
