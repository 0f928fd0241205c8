"""GPUs without a NIC below their PCIe switch, although most other GPUs have one."""

from collections.abc import Iterator
from pathlib import Path

from busbw.doctor.model.check import Check, Evidence, Finding, NotApplicable
from busbw.doctor.model.damage import Damage
from busbw.doctor.model.machine import Machine
from busbw.doctor.parts.nics import rdma_ports
from busbw.doctor.parts.pci import DEVICES, gpus
from busbw.topology.sources.pci_paths import PciLocation, chain_of, pcie_level


def _examine(machine: Machine) -> Iterator[Finding]:
    nics = [_location(machine, port.bus_id) for port in rdma_ports(machine)]
    locations = {gpu: _location(machine, gpu.bus_id) for gpu in gpus(machine)}
    far = [
        gpu for gpu, own in locations.items() if all(pcie_level(own, nic, None) not in {"PIX", "PXB"} for nic in nics)
    ]
    near_count = len(locations) - len(far)
    if near_count == 0:
        raise NotApplicable("no GPU shares a PCIe switch with a NIC")
    for gpu in far if near_count > len(far) else ():
        yield Finding(
            severity="slow",
            subject=gpu.label,
            problem=f"{gpu.label} ({gpu.bus_id}) has no NIC below its PCIe switch; {near_count} other GPUs have one",
            evidence=(Evidence(source=f"/{DEVICES}/{gpu.bus_id}", value=machine.target(f"{DEVICES}/{gpu.bus_id}")),),
            damage=Damage(nic_share=near_count / len(locations)),
        )


def _location(machine: Machine, bus_id: str) -> PciLocation | None:
    chain = chain_of(Path(machine.target(f"{DEVICES}/{bus_id}")))
    return PciLocation(chain=chain, numa_node=None) if chain else None


CHECK = Check(
    name="nic-numa-gpu-map",
    area="nic",
    reads="paths of GPUs and NICs in /sys/bus/pci/devices",
    rule="If most GPUs have a NIC below their PCIe switch, all have one.",
    source="NVIDIA/nccl#1412",
    cost="Data of this GPU crosses the CPU without GPUDirect: 33 instead of 93 GB/s on one cluster.",
    fix="find the missing NIC with `lspci -tv`: reseat it, or move it to the slot of the GPU's switch; NCCL_IB_HCA",
    examine=_examine,
)
