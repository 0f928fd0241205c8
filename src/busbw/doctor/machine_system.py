"""Selects the system description of an examined machine, for the costs of findings."""

from contextlib import suppress

from busbw.doctor.model.check import Unreadable
from busbw.doctor.model.machine import Machine
from busbw.doctor.parts.pci import INFINIBAND, rate_gbit
from busbw.doctor.parts.traits import gpu_names
from busbw.system import System
from busbw.system.detect import DetectedMachine, NetworkPort, system_of_machine


def system_of(machine: Machine) -> System | None:
    """Returns the system with the machine's own NICs at their highest rate. None without a known GPU."""
    try:
        gpus = gpu_names(machine)
    except Unreadable:
        return None
    if not gpus:
        return None
    detected = DetectedMachine(
        gpus=gpus, ports=_rdma_ports(machine), processor=None, processors=None, numa_nodes=None, memory_bytes=None
    )
    system, _ = system_of_machine(detected)
    return system if system.generation != "host" else None


def _rdma_ports(machine: Machine) -> tuple[NetworkPort, ...]:
    ports: list[NetworkPort] = []
    with suppress(Unreadable):
        for device in machine.names_or_empty(INFINIBAND):
            for port in machine.names_or_empty(f"{INFINIBAND}/{device}/ports"):
                gbit = rate_gbit(machine.optional(f"{INFINIBAND}/{device}/ports/{port}/rate") or "")
                kind = "EFA" if device.startswith(("efa", "rdmap")) else "InfiniBand"
                ports.append(NetworkPort(name=device, kind=kind, gbit=gbit))
    return tuple(ports)
