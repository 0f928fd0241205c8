"""System of a machine, and traits: properties on which the effect of a setting or of a library depends."""

import re
from collections.abc import Callable
from contextlib import suppress

from busbw.doctor.facts.process import Limits
from busbw.doctor.model import Machine, NotApplicable, Unreadable
from busbw.doctor.parts.job import is_virtual
from busbw.doctor.parts.nics import rdma_ports
from busbw.doctor.parts.pci import DRIVER_GPUS, MELLANOX, gpus, links_above
from busbw.system import System, find_in_text
from busbw.system.detect import DetectedMachine, NetworkPort, system_of_machine

_PCIE_EFFICIENCY = 0.82
"""Share of the raw rate that copies reach: 52 GB/s of 63 GB/s at 32 GT/s (oracle-quickstart/oci-hpc)."""


def gpu_names(machine: Machine) -> tuple[str, ...]:
    """Returns the product names of the GPUs that the NVIDIA driver lists."""
    texts = [machine.text(f"{DRIVER_GPUS}/{bus_id}/information") for bus_id in machine.names_or_empty(DRIVER_GPUS)]
    models = [re.search(r"^Model:\s*(.+)$", text, re.MULTILINE) for text in texts]
    return tuple(model[1].strip() for model in models if model)


def rdma_kinds(machine: Machine) -> set[str]:
    """Returns the kinds of the RDMA devices of Mellanox and Amazon that NCCL uses: efa, infiniband, roce."""
    with suppress(NotApplicable):
        ports = rdma_ports(machine)
        return {port.kind.lower() for port in ports if port.kind == "EFA" or port.model.startswith(MELLANOX)}
    return set()


def pcie_gbps(machine: Machine) -> float | None:
    """Returns the bandwidth in GB/s between host memory and the GPU in the slowest slot. None if unknown."""
    with suppress(Unreadable):
        links = [links_above(machine, gpu.bus_id) for gpu in gpus(machine)]
        known_gbps = [above[0].max_gbps for above in links if above and above[0].max_gbps]
        return min(known_gbps) * _PCIE_EFFICIENCY if known_gbps else None
    return None


def _system_of_gpus(machine: Machine) -> System | None:
    """Returns the system with the product name of the machine's GPUs. None if it is unknown, or if the GPUs differ."""
    names = set(gpu_names(machine))
    return find_in_text(names.pop()) if len(names) == 1 else None


def _has_nvlink(machine: Machine) -> bool:
    """True if NVLink joins several GPUs of a node: in systems with NVLink, and if all GPUs are on boards (SXM)."""
    names, system = gpu_names(machine), _system_of_gpus(machine)
    is_known = system is not None and system.is_joined_by_nvlink
    return len(names) > 1 and (is_known or all("SXM" in name for name in names))


def _has_nvls(machine: Machine) -> bool:
    """True for several GPUs at switches that reduce."""
    system = _system_of_gpus(machine)
    if system is None or system.nvls is None:
        return False
    # Two GPUs of a rack suffice: its switches are outside the boards. Elsewhere, switches are on boards with all GPUs.
    min_gpus = 2 if system.rack_ranks else system.ranks_per_node
    return len(gpu_names(machine)) >= min_gpus


def _is_vendor(machine: Machine, vendor: str) -> bool:
    return vendor in (machine.text_or_none("sys/class/dmi/id/sys_vendor") or "")


TRAITS: dict[str, Callable[[Machine], bool]] = {
    "NVLink": _has_nvlink,
    "NVLS": _has_nvls,
    "MNNVL": lambda machine: (system := _system_of_gpus(machine)) is not None and system.rack_ranks is not None,
    "several PCIe GPUs": lambda machine: len(gpu_names(machine)) > 1 and not _has_nvlink(machine),
    "GPUs": lambda machine: bool(gpu_names(machine)),
    "RDMA": lambda machine: bool(rdma_kinds(machine)),
    "InfiniBand or RoCE": lambda machine: bool(rdma_kinds(machine) & {"infiniband", "roce"}),
    "InfiniBand": lambda machine: "infiniband" in rdma_kinds(machine),
    # Only RoCE, because a machine with InfiniBand uses its Ethernet NICs for storage.
    "RoCE": lambda machine: rdma_kinds(machine) == {"roce"},
    "EFA": lambda machine: "efa" in rdma_kinds(machine),
    "virtual machine": is_virtual,
    "unlimited stack": lambda machine: machine.fact(Limits).stack_bytes is None,
    "proprietary driver": lambda machine: "Open Kernel" not in machine.text("proc/driver/nvidia/version"),
    "only nvidia_peermem": lambda machine: (
        machine.has("sys/module/nvidia_peermem") and not machine.names_or_empty("sys/kernel/mm/memory_peers")
    ),
    "no nvidia_peermem": lambda machine: not machine.has("sys/module/nvidia_peermem"),
    "other than Google Cloud": lambda machine: not _is_vendor(machine, "Google"),
    "other than Azure": lambda machine: not _is_vendor(machine, "Microsoft"),
}
"""Predicates by name, for the tables of variables and of NCCL's defects. A predicate may raise Unreadable."""


def has_traits(machine: Machine, traits: str) -> bool:
    """True if the machine has all traits of a text, with commas between them. True if the text is empty."""
    return all(TRAITS[trait](machine) for trait in traits.split(", ") if trait)


def system_of(machine: Machine) -> System | None:
    """Returns the system of the GPUs with the machine's own NICs. None if the GPUs are unknown or differ."""
    names: tuple[str, ...] = ()
    ports: list[NetworkPort] = []
    with suppress(Unreadable, NotApplicable):
        names = gpu_names(machine)
        ports += [NetworkPort(name=port.device, has_rdma=True, gbit=port.rate_gbit) for port in rdma_ports(machine)]
    system, _ = system_of_machine(DetectedMachine(gpus=names, ports=tuple(ports)))
    return system if system.generation != "host" else None
