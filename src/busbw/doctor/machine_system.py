"""Selects the system description of an examined machine, for the costs of findings."""

import re
from contextlib import suppress

from busbw.doctor.model.check import Unreadable
from busbw.doctor.model.machine import Machine
from busbw.doctor.parts.traits import gpu_names
from busbw.system import System
from busbw.system.detect import DetectedMachine, NetworkPort, system_of_machine

_INFINIBAND = "sys/class/infiniband"


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
        for device in machine.names_or_none(_INFINIBAND):
            for port in machine.names_or_none(f"{_INFINIBAND}/{device}/ports"):
                rate = machine.optional(f"{_INFINIBAND}/{device}/ports/{port}/rate") or ""
                gbit = re.match(r"([0-9]{1,5}(?:\.[0-9]{1,3})?) Gb/sec", rate)
                kind = "EFA" if device.startswith(("efa", "rdmap")) else "InfiniBand"
                ports.append(NetworkPort(name=device, kind=kind, gbit=float(gbit[1]) if gbit else None))
    return tuple(ports)
