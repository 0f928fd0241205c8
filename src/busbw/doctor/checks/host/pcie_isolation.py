"""Isolation of PCIe devices by ports (ACS) and by the IOMMU. Isolated devices exchange data only through the CPU."""

import re
from collections.abc import Iterator, Mapping

from busbw.doctor.model import Absent, Evidence, Finding, Machine, NotApplicable, Unreadable, check, require
from busbw.doctor.parts.job import is_arm, is_virtual
from busbw.doctor.parts.pci import DEVICES, PciDevice, bridges_above, gpus, rdma_devices

_COMMAND = ("lspci", "-D", "-vvv", "-d", "*:*:0604")
"""Prints the capabilities of all PCI bridges (class 0604), which include PCIe ports."""
_DENIED = "<access denied>"
"""Text that lspci prints instead of a port's ACS control to users other than root."""
_REDIRECTS = re.compile(r"ACSCtl:.*(?:ReqRedir|CmpltRedir|UpstreamFwd)\+")
_SECTION = re.compile(r"^(\S+) (.*(?:\n(?!\S).*)*)", re.MULTILINE)
"""Section of one device in the output of lspci: a line with the bus id, then indented lines."""


def _require_optional_isolation(machine: Machine) -> None:
    """Raises NotApplicable on machines that need isolation."""
    if is_arm(machine) or is_virtual(machine):
        raise NotApplicable("Grace needs its IOMMU, and virtual machines need ACS together with ATS")


def _gpus_and_rdma_devices(machine: Machine) -> tuple[PciDevice, ...]:
    return (*gpus(machine), *rdma_devices(machine))


@check(
    reads="`lspci -vvv` of the PCIe port next to each GPU and RDMA device; without root their IOMMU groups",
    rule="On bare metal, these ports redirect no requests or completions between devices. SrcValid+ alone is harmless.",
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    cost="GPUDirect runs through the CPU at a fraction of its rate, or NCCL hangs (NVIDIA/nccl#2079).",
    fix="setpci -s PORT ECAP_ACS+0x6.w=0000 for each port after each boot; or disable ACS in the BIOS",
    needs_root=True,
)
def pcie_acs(machine: Machine) -> Iterator[Finding]:
    _require_optional_isolation(machine)
    devices = _gpus_and_rdma_devices(machine)
    ports_from_root = {device.bus_id: bridges_above(machine, device.bus_id) for device in devices}
    nearest_ports = {bus_id: ports[-1] for bus_id, ports in ports_from_root.items() if ports}
    require(nearest_ports and rdma_devices(machine), "no RDMA device, or no GPU or RDMA device below a PCIe port")
    try:
        output = machine.output(*_COMMAND)
    except Absent:  # without lspci, the ACS control is as unknown as without root
        output = _DENIED
    if _DENIED in output:
        if _share_groups(machine, nearest_ports):
            return  # shared groups show that the ports redirect nothing
        raise Unreadable("permission of root to read the ACS control of PCIe ports with lspci")
    sections = dict(_SECTION.findall(output))
    redirecting = [port for port in sorted(set(nearest_ports.values())) if _REDIRECTS.search(sections.get(port, ""))]
    if redirecting:
        line = next(line for line in sections[redirecting[0]].splitlines() if "ACSCtl" in line)
        problem = f"ACS redirects transfers between devices on {len(redirecting)} PCIe ports above GPUs and NICs"
        yield Finding("slow", problem, (Evidence(f"lspci -vvv -s {redirecting[0]}", line.strip()),))


def _share_groups(machine: Machine, nearest_ports: Mapping[str, str]) -> bool:
    """True if each device is in the IOMMU group of its port. The kernel puts both in one group only without ACS."""
    try:
        return all(
            machine.target(f"{DEVICES}/{bus_id}/iommu_group") == machine.target(f"{DEVICES}/{port}/iommu_group")
            for bus_id, port in nearest_ports.items()
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
    _require_optional_isolation(machine)
    devices = _gpus_and_rdma_devices(machine)
    require(len(devices) > 1, "no two GPUs or RDMA devices that exchange data")
    groups = {device.label: f"{DEVICES}/{device.bus_id}/iommu_group" for device in devices}
    # Without a group the IOMMU is off.
    types = {label: f"{machine.target(group)}/type" for label, group in groups.items() if machine.has(group)}
    translated = {label: path for label, path in types.items() if machine.word(path).startswith("DMA")}
    if translated:
        label, path = next(iter(translated.items()))
        problem = f"the IOMMU translates all transfers of {len(translated)} GPUs and RDMA devices, such as {label}"
        yield Finding("slow" if rdma_devices(machine) else "risk", problem, (machine.evidence(path),))
