"""Devices of GPUs and NICs that a container got from Docker, Podman or Kubernetes."""

from collections.abc import Iterator
from fractions import Fraction

from busbw.doctor.facts.process import DeviceNodes
from busbw.doctor.model import Evidence, Finding, Machine, check, require
from busbw.doctor.parts.gpus import pci_gpus
from busbw.doctor.parts.job import nvidia_gpu_nodes, variables_of_container
from busbw.doctor.parts.pci import rdma_devices, without_virtual_functions

_CONTROL = ("nvidiactl", "nvidia-uvm")
_MIN_SHARE = Fraction(2, 5)
"""Minimum share of the RDMA devices, relative to the share of the GPUs.

Devices for storage may be left out: up to half of all, as in a tray of GB200. The minimum leaves a margin below
1/2: 4 of 9 RDMA devices are enough for all GPUs.
"""


def _device_nodes(machine: Machine) -> tuple[DeviceNodes, list[str]]:
    """Returns all device nodes of the container, and the names of the device nodes of its GPUs."""
    variables_of_container(machine)  # raises outside of a container
    device_nodes = machine.fact(DeviceNodes)
    gpus = nvidia_gpu_nodes((*device_nodes.usable, *device_nodes.denied))
    require(gpus, "no NVIDIA GPU in this container")
    return device_nodes, gpus


@check(
    reads="access to /dev/nvidia* in a container",
    rule="A container may open the device nodes of GPUs that it has.",
    source="NVIDIA/nvidia-container-toolkit#48",
    cost="CUDA and NVML fail with `Unknown Error`; often since `systemctl daemon-reload` on the host.",
    fix="restart the container; to prevent it, create the links in /dev/char with nvidia-ctk system "
    "create-dev-char-symlinks --create-all, or use CDI",
)
def cgroup_devices(machine: Machine) -> Iterator[Finding]:
    device_nodes, gpus = _device_nodes(machine)
    # A container with all of the host's /dev has device nodes of all GPUs, but may open only the nodes of its own GPUs.
    lost = [name for name in _CONTROL if name in device_nodes.denied]
    if set(gpus).isdisjoint(device_nodes.usable):
        lost = [*gpus, *lost]
    if lost:
        problem = f"this container may not open /dev/{', /dev/'.join(lost)}, although it has the device nodes"
        yield Finding("broken", problem, (Evidence("access(2)", "EPERM or EACCES"),))


@check(
    reads="/dev/nvidia* and /dev/infiniband/uverbs* in a container, PCI devices, /sys/class/infiniband",
    rule="The container's share of the node's RDMA devices is at least 40 % of its share of the GPUs.",
    source="NVIDIA/nccl#733",
    cost="All GPUs of the container share its few RDMA devices.",
    fix="request the RDMA resource for each NIC in resources.limits, such as rdma/ib or vpc.amazonaws.com/efa",
)
def k8s_rdma_resources(machine: Machine) -> Iterator[Finding]:
    device_nodes, gpu_names = _device_nodes(machine)
    gpus = len(set(gpu_names) & set(device_nodes.usable))
    nics = sum(name.startswith("infiniband/uverbs") for name in device_nodes.usable)
    # A NIC can have many virtual functions, and a container gets one of each.
    devices = without_virtual_functions(machine, rdma_devices(machine))
    all_gpus, all_nics = len(pci_gpus(machine)), len(devices)
    require(gpus and nics and all_gpus and all_nics, "no GPUs and RDMA devices in this container")
    nic_share = Fraction(nics, all_nics) / Fraction(gpus, all_gpus)
    if nic_share < _MIN_SHARE:
        problem = f"this container has {gpus} of {all_gpus} GPUs of the node, but {nics} of {all_nics} RDMA devices"
        yield Finding("slow", problem, (Evidence("/dev/infiniband/uverbs*", str(nics)),))
