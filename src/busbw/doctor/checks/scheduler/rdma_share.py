"""RDMA devices that a pod got, in proportion to its GPUs."""

import re
from collections.abc import Iterator

from busbw.doctor.facts.device_nodes import DeviceNodes
from busbw.doctor.model.check import Check, Evidence, Finding, NotApplicable
from busbw.doctor.model.machine import Machine
from busbw.doctor.parts.gpus import pci_gpus
from busbw.doctor.parts.job import variables_of_container

_MIN_SHARE = 0.4


def _examine(machine: Machine) -> Iterator[Finding]:
    variables_of_container(machine)
    usable = machine.fact(DeviceNodes).usable
    gpus = sum(re.fullmatch(r"nvidia\d+", name) is not None for name in usable)
    nics = sum(name.startswith("infiniband/uverbs") for name in usable)
    all_gpus, all_nics = len(pci_gpus(machine)), len(machine.names_or_none("sys/class/infiniband"))
    if not (gpus and nics and all_gpus and all_nics):
        raise NotApplicable("no GPUs and RDMA devices in this container")
    # Devices for storage may be left out: up to half of all, as in a tray of GB200.
    if nics / all_nics < _MIN_SHARE * gpus / all_gpus:
        yield Finding(
            severity="slow",
            problem=f"this container has {gpus} of {all_gpus} GPUs of the node, but {nics} of {all_nics} RDMA devices",
            evidence=(Evidence(source="/dev/infiniband/uverbs*", value=str(nics)),),
        )


CHECK = Check(
    name="k8s-rdma-resources",
    area="scheduler",
    reads="/dev/nvidia* and /dev/infiniband/uverbs* in a container, PCI devices, /sys/class/infiniband",
    rule="The container's share of the node's RDMA devices is at least 40 % of its share of the GPUs.",
    source="NVIDIA/nccl#733",
    cost="All GPUs of the container share its few RDMA devices.",
    fix="request the RDMA resource for each NIC in resources.limits, such as rdma/ib or vpc.amazonaws.com/efa",
    examine=_examine,
)
