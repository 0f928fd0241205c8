"""Device files through which programs use RDMA."""

import re
from collections.abc import Iterator

from busbw.doctor.model.check import Check, Evidence, Finding, NotApplicable
from busbw.doctor.model.machine import Machine
from busbw.doctor.parts.nics import compute_ports

_FOLDER = "dev/infiniband"


def _examine(machine: Machine) -> Iterator[Finding]:
    ports = compute_ports(machine)
    if any(name.startswith("uverbs") for name in machine.names_or_none(_FOLDER)):
        return
    if len([name for name in machine.names("dev") if re.fullmatch(r"nvidia\d+", name)]) == 1:
        raise NotApplicable("a container with one GPU")
    yield Finding(
        severity="slow",
        problem=f"{_FOLDER} has no device for verbs, but the machine has {len(ports)} compute NICs",
        evidence=(Evidence(source=f"/{_FOLDER}/uverbs*", value="does not exist"),),
    )


CHECK = Check(
    name="ib-verbs-char-devices",
    area="nic",
    reads="/dev/infiniband",
    rule="If the machine has compute NICs, /dev/infiniband has a uverbs device.",
    source="https://github.com/NVIDIA/NVSentinel/blob/main/docs/configuration/nic-health-monitor.md",
    cost='NCCL prints "NET/IB : No device found" and uses sockets.',
    fix="modprobe ib_uverbs; container: --device=/dev/infiniband, or request the NICs from the device plugin",
    examine=_examine,
)
