"""Isolation of PCIe devices by ports (ACS) and the IOMMU, which sends transfers between devices through the CPU."""

import re
from collections.abc import Iterator

from busbw.doctor.model import Absent, Evidence, Finding, Machine, NotApplicable, Unreadable, check, require
from busbw.doctor.parts.pci import DEVICES, PciDevice, bridges_above, gpus, rdma_devices
from busbw.doctor.parts.platform import is_arm, is_virtual

_COMMAND = ("lspci", "-D", "-vvv", "-d", "*:*:0604")
_REDIRECTS = re.compile(r"ACSCtl:.*(?:ReqRedir|CmpltRedir|UpstreamFwd)\+")


def _devices(machine: Machine) -> tuple[PciDevice, ...]:
    """Returns the GPUs and RDMA devices that need no isolation."""
    if is_arm(machine) or is_virtual(machine):
        raise NotApplicable("Grace needs its IOMMU, and virtual machines need ACS together with ATS")
    return (*gpus(machine), *rdma_devices(machine))


@check(
    reads="`lspci -vvv` of the PCIe ports above GPUs and RDMA devices; without root their IOMMU groups",
    rule="On bare metal, no port redirects requests or completions between devices. SrcValid+ alone is harmless.",
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    cost="GPUDirect runs through the CPU at a fraction of its rate, or NCCL hangs (NVIDIA/nccl#2079).",
    fix="setpci -s PORT ECAP_ACS+0x6.w=0000 for each port after each boot; or disable ACS in the BIOS",
    needs_root=True,
)
def pcie_acs(machine: Machine) -> Iterator[Finding]:
    devices = _devices(machine)
    bridges = {device.bus_id: bridges_above(machine, device.bus_id) for device in devices}
    ports = {bus_id: above[-1] for bus_id, above in bridges.items() if above}
    require(ports and rdma_devices(machine), "no RDMA device and GPU below PCIe ports")
    try:
        output = machine.output(*_COMMAND)
    except Absent:
        output = "<access denied>"
    if "<access denied>" in output:
        if _share_groups(machine, ports):
            return
        raise Unreadable("permission of root to read the ACS control of PCIe ports with lspci")
    sections = dict(re.findall(r"^(\S+) (.*(?:\n(?!\S).*)*)", output, re.MULTILINE))
    redirecting = [port for port in sorted(set(ports.values())) if _REDIRECTS.search(sections.get(port, ""))]
    if redirecting:
        line = next(line for line in sections[redirecting[0]].splitlines() if "ACSCtl" in line)
        problem = f"ACS redirects transfers between devices on {len(redirecting)} PCIe ports above GPUs and NICs"
        yield Finding("slow", problem, (Evidence(f"lspci -vvv -s {redirecting[0]}", line.strip()),))


def _share_groups(machine: Machine, ports: dict[str, str]) -> bool:
    """True if each device shares its IOMMU group with the port above it, which the kernel does only without ACS."""
    try:
        return all(
            machine.target(f"{DEVICES}/{bus_id}/iommu_group") == machine.target(f"{DEVICES}/{port}/iommu_group")
            for bus_id, port in ports.items()
        )
    except Absent:
        return False


@check(
    reads="/sys/kernel/iommu_groups/*/type of GPUs and RDMA devices",
    rule="On bare metal with processors other than ARM, the IOMMU is off or passes addresses through (identity).",
    source="NVIDIA/nccl#257",
    cost="Transfers between PCIe devices take up to twice as long, and some machines hang (NVIDIA/nccl#631).",
    fix="add iommu=pt to the kernel's arguments in /etc/default/grub, run update-grub, and reboot",
)
def iommu_mode(machine: Machine) -> Iterator[Finding]:
    devices = _devices(machine)
    require(len(devices) > 1, "no two GPUs or RDMA devices that exchange data")
    groups = {device.label: f"{DEVICES}/{device.bus_id}/iommu_group" for device in devices}
    # Without a group the IOMMU is off.
    types = {label: f"{machine.target(group)}/type" for label, group in groups.items() if machine.has(group)}
    translated = {label: path for label, path in types.items() if machine.word(path).startswith("DMA")}
    if translated:
        label, path = next(iter(translated.items()))
        problem = f"the IOMMU translates all transfers of {len(translated)} GPUs and RDMA devices, such as {label}"
        yield Finding("slow" if rdma_devices(machine) else "risk", problem, (machine.evidence(path),))
