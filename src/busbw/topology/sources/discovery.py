"""This machine's topology: what the driver says of GPUs and the kernel of everything else, put together."""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from msgspec.structs import replace

from busbw.topology.sources import nvml, sysfs
from busbw.topology.sources.gpu_paths import nvlinks_between, undecided, with_ends
from busbw.topology.sources.nics import nics
from busbw.topology.sources.nvml_functions import Nvml
from busbw.topology.sources.pci_paths import PciLocation, level
from busbw.topology.types import THIS_MACHINE, Gpu, PcieLevel, Topology
from busbw.topology.types import DevicePath as Joined
from busbw.units import count_text


def discover(driver: Nvml | None, root: Path = Path("/"), *, virtual_too: bool = False) -> Topology:
    """This machine, or what a fake driver and a tree of files say of another one.

    Args:
        driver: NVML, or None where its package is not installed.
        root: Of the file tree.
        virtual_too: Also network interfaces that stand on no device.
    """
    return combine(nvml.snapshot(driver), root, virtual_too=virtual_too)


def combine(seen: nvml.NvmlSnapshot, root: Path = Path("/"), *, virtual_too: bool = False) -> Topology:
    """What the driver has said, with what the kernel says."""
    host = sysfs.host(root)
    network = nics(root, virtual_too=virtual_too)
    on_the_bus = sysfs.gpu_bus_ids(root)
    gpus, notes = _gpus(seen, on_the_bus, root)
    nodes = None if host.numa_nodes is None else {node.index for node in host.numa_nodes}
    places = {gpu.label: sysfs.place_of(root, gpu.bus_id) for gpu in gpus}
    places.update({nic.label: place for nic, place in network})
    between_gpus, unclear = _gpu_paths(seen, gpus, places, nodes)
    others = [
        _pcie_path(one, other, level(places[one], places[other], nodes))
        for one, other in combinations(places, 2)
        if not (one.startswith("GPU") and other.startswith("GPU"))
    ]
    return Topology(
        source=THIS_MACHINE,
        host=host,
        driver=seen.driver,
        gpus=None if seen.gpus is None and not gpus else tuple(gpus),
        nics=tuple(nic for nic, _ in network),
        paths=(*between_gpus, *others),
        notes=(*seen.notes, *notes, *((undecided(unclear),) if unclear else ())),
    )


def _gpus(seen: nvml.NvmlSnapshot, on_the_bus: Sequence[str], root: Path) -> tuple[list[Gpu], list[str]]:
    """The driver's GPUs; without a driver those that the bus shows, with what the bus says of them."""
    if seen.gpus is None:
        found = [
            Gpu(label=f"GPU{index}", bus_id=bus_id, pcie=sysfs.pcie(root, bus_id))
            for index, bus_id in enumerate(on_the_bus)
        ]
        if not found:
            return [], []
        return found, [f"{count_text(len(found), 'NVIDIA GPU')} on the bus, of which only the bus speaks"]
    gpus = [
        replace(with_ends(gpu, ends, seen.gpus), pcie=gpu.pcie or sysfs.pcie(root, gpu.bus_id))
        for gpu, ends in zip(seen.gpus, seen.links or [()] * len(seen.gpus), strict=True)
    ]
    hidden = len(on_the_bus) - len(gpus)
    if hidden <= 0:
        return gpus, []
    return gpus, [
        f"the bus shows {count_text(hidden, 'NVIDIA GPU')} more, which the driver does not give to this process"
    ]


def _gpu_paths(
    seen: nvml.NvmlSnapshot, gpus: Sequence[Gpu], places: dict[str, PciLocation | None], nodes: set[int] | None
) -> tuple[list[Joined], int]:
    """The paths, and for how many of them the driver does not say whether NVLinks join the two."""
    paths, unclear = [], 0
    for one, other in combinations(range(len(gpus)), 2):
        left, right = gpus[one], gpus[other]
        access = seen.access.get((one, other))
        pcie = seen.levels.get((one, other)) or level(places[left.label], places[right.label], nodes)
        links: int | None = 0
        if seen.links:
            over_nvlink = access.nvlink if access else None
            links = nvlinks_between(left, seen.links[one], right, seen.links[other], over_nvlink, gpus)
        unclear += links is None
        connection = f"NV{links}" if links else pcie if links == 0 else None
        paths.append(Joined(of=left.label, to=right.label, connection=connection, pcie=pcie, peer_access=access))
    return paths, unclear


def _pcie_path(one: str, other: str, pcie: PcieLevel | None) -> Joined:
    return Joined(of=one, to=other, connection=pcie, pcie=pcie)
