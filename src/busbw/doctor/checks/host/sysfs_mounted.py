"""The PCI tree in /sys, from which NCCL derives the topology."""

from collections.abc import Iterator

from busbw.doctor.model import Evidence, Finding, Machine, check, require
from busbw.doctor.parts.pci import DEVICES, DRIVER_GPUS


@check(
    reads="/sys/bus/pci/devices, /proc/driver/nvidia/gpus",
    rule="/sys shows each GPU that the driver has.",
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    cost="NCCL assumes a flat topology: ranks use NICs of other GPUs, and GPUDirect is off.",
    fix="mount the /sys of the host in the container; with another sandbox set NCCL_TOPO_FILE",
)
def sysfs_mounted(machine: Machine) -> Iterator[Finding]:
    bus_ids = machine.names_or_empty(DRIVER_GPUS)
    require(bus_ids, "no GPU of NVIDIA with a driver")
    listed = machine.names_or_empty(DEVICES)
    missing = [bus_id for bus_id in bus_ids if bus_id not in listed]
    if missing:
        problem = f"/sys does not show {len(missing)} of {len(bus_ids)} GPUs, so NCCL does not know the topology"
        yield Finding("slow", problem, (Evidence(f"/{DEVICES}/{missing[0]}", "does not exist"),))
