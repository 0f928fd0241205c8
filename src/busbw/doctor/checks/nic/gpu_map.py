"""GPUs without a NIC below their PCIe switch, although most other GPUs have one."""

from collections.abc import Iterator

from busbw.doctor.model.check import Check, Evidence, Finding, NotApplicable
from busbw.doctor.model.damage import Damage
from busbw.doctor.model.machine import Machine
from busbw.doctor.parts.nics import gpu_locations, rdma_ports
from busbw.topology.sources.pci_paths import pcie_level


def _examine(machine: Machine) -> Iterator[Finding]:
    nics = [port.location for port in rdma_ports(machine)]
    gpus = gpu_locations(machine)
    far = [gpu for gpu in gpus if all(pcie_level(gpu, nic, None) not in {"PIX", "PXB"} for nic in nics)]
    near_count = len(gpus) - len(far)
    if near_count == 0:
        raise NotApplicable("no GPU shares a PCIe switch with a NIC")
    for gpu in far if near_count > len(far) else ():
        yield Finding(
            severity="slow",
            subject=gpu.bus_id,
            problem=f"the GPU at {gpu.bus_id} has no NIC below its PCIe switch; {near_count} other GPUs have one",
            evidence=(Evidence(source=f"/sys/bus/pci/devices/{gpu.bus_id}", value="/".join(gpu.chain)),),
            damage=Damage(nic_share=near_count / len(gpus)),
        )


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
