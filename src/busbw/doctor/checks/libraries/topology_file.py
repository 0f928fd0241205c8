"""Topology file that replaces what NCCL detects about GPUs, NICs and PCIe."""

import re
from collections.abc import Iterator

from busbw.doctor.model import Absent, Evidence, Finding, Machine, NotApplicable, check
from busbw.doctor.parts.gpus import require_gpus
from busbw.doctor.parts.nccl_settings import read_settings
from busbw.doctor.parts.pci import DRIVER_GPUS

_DEFAULT = "/var/run/nvidia-topologyd/virtualTopology.xml"
_GPU = re.compile(r'<pci\b(?=[^<>]*\bclass="0x030[02])[^<>]*\bbusid="([^"<>]*)"')
"""Element of a GPU in the file, such as `<pci busid="0000:1b:00.0" class="0x030200">`."""


@check(
    reads=f"the file that NCCL_TOPO_FILE names, else {_DEFAULT}",
    rule="The file exists, and has all GPUs of this machine.",
    source="Azure/azurehpc-health-checks#142",
    cost="NCCL builds rings for another machine: 15 of 480 GB/s on one node with the file of another shape.",
    fix="unset NCCL_TOPO_FILE on bare metal; in a virtual machine, name the file of its shape",
)
def topo_file(machine: Machine) -> Iterator[Finding]:
    require_gpus(machine)
    setting = read_settings(machine).get("NCCL_TOPO_FILE")
    path = setting.value if setting else _DEFAULT
    try:
        text = machine.text(path.lstrip("/"))
    except Absent as error:
        if setting is None:
            raise NotApplicable("no topology file") from error
        problem = f"{setting.text} does not exist, so NCCL detects the topology itself"
        yield Finding("risk", problem, (setting.evidence,), fix=setting.fix)
        return
    listed = {bus_id.lower() for bus_id in _GPU.findall(text)}
    missing = [bus_id for bus_id in machine.names(DRIVER_GPUS) if bus_id.lower() not in listed]
    if listed and missing:
        problem = f"{path} describes another machine: it lacks the GPUs {', '.join(missing)[:120]}"
        evidence = (Evidence(path, f"GPUs {', '.join(sorted(listed))[:120]}"),)
        yield Finding("slow", problem, evidence, fix=setting.fix if setting else None)
