"""Selects the system description of an examined machine, for the costs of findings."""

from contextlib import suppress

from busbw.doctor.model import Machine, NotApplicable, Unreadable
from busbw.doctor.parts.nics import rdma_ports
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
    ports: list[NetworkPort] = []
    with suppress(Unreadable, NotApplicable):
        ports += [NetworkPort(name=each.device, kind=each.kind, gbit=each.rate_gbit) for each in rdma_ports(machine)]
    detected = DetectedMachine(
        gpus=gpus, ports=tuple(ports), processor=None, processors=None, numa_nodes=None, memory_bytes=None
    )
    system, _ = system_of_machine(detected)
    return system if system.generation != "host" else None
