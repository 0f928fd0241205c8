"""Topology of this machine: combines GPU data from the driver with all other data from the kernel."""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from msgspec.structs import replace

from busbw.topology.sources import nvml, sysfs
from busbw.topology.sources.gpu_paths import nvlinks_between, unknown_links_note, with_remote_devices
from busbw.topology.sources.nics import nics
from busbw.topology.sources.nvml_functions import Nvml
from busbw.topology.sources.pci_paths import PciLocation, level
from busbw.topology.types import THIS_MACHINE, DevicePath, Gpu, PcieLevel, Topology
from busbw.units import count_text


def discover(driver: Nvml | None, root: Path = Path("/"), *, virtual_too: bool = False) -> Topology:
    """Returns the topology of this machine, or of a test's fake driver and file tree.

    Args:
        driver: NVML; None if its package is not installed.
        root: Root of the file tree.
        virtual_too: Include network interfaces without a hardware device.
    """
    return combine(nvml.snapshot(driver), root, virtual_too=virtual_too)


def combine(snapshot: nvml.NvmlSnapshot, root: Path = Path("/"), *, virtual_too: bool = False) -> Topology:
    """Combines a snapshot of the driver with the kernel's data."""
    host = sysfs.host(root)
    network = nics(root, virtual_too=virtual_too)
    on_the_bus = sysfs.gpu_bus_ids(root)
    gpus, notes = _gpus(snapshot, on_the_bus, root)
    nodes = None if host.numa_nodes is None else {node.index for node in host.numa_nodes}
    places = {gpu.label: sysfs.place_of(root, gpu.bus_id) for gpu in gpus}
    places.update({nic.label: place for nic, place in network})
    between_gpus, unclear = _gpu_paths(snapshot, gpus, places, nodes)
    others = [
        _pcie_path(one, other, level(places[one], places[other], nodes))
        for one, other in combinations(places, 2)
        if not (one.startswith("GPU") and other.startswith("GPU"))
    ]
    return Topology(
        source=THIS_MACHINE,
        host=host,
        driver=snapshot.driver,
        gpus=None if snapshot.gpus is None and not gpus else tuple(gpus),
        nics=tuple(nic for nic, _ in network),
        paths=(*between_gpus, *others),
        notes=(*snapshot.notes, *notes, *((unknown_links_note(unclear),) if unclear else ())),
    )


def _gpus(snapshot: nvml.NvmlSnapshot, on_the_bus: Sequence[str], root: Path) -> tuple[list[Gpu], list[str]]:
    """Returns the driver's GPUs and notes. Without a driver, returns the GPUs on the PCIe bus."""
    if snapshot.gpus is None:
        found = [
            Gpu(label=f"GPU{index}", bus_id=bus_id, pcie=sysfs.pcie(root, bus_id))
            for index, bus_id in enumerate(on_the_bus)
        ]
        if not found:
            return [], []
        return found, [f"{count_text(len(found), 'NVIDIA GPU')} on the bus; the rest is unknown without a driver"]
    gpus = [
        replace(with_remote_devices(gpu, ends, snapshot.gpus), pcie=gpu.pcie or sysfs.pcie(root, gpu.bus_id))
        for gpu, ends in zip(snapshot.gpus, snapshot.links or [()] * len(snapshot.gpus), strict=True)
    ]
    hidden = len(on_the_bus) - len(gpus)
    if hidden <= 0:
        return gpus, []
    return gpus, [
        f"the bus has {count_text(hidden, 'NVIDIA GPU')} more, which the driver does not show to this process"
    ]


def _gpu_paths(
    snapshot: nvml.NvmlSnapshot, gpus: Sequence[Gpu], places: dict[str, PciLocation | None], nodes: set[int] | None
) -> tuple[list[DevicePath], int]:
    """Returns the paths between GPUs, and the number of pairs with unknown NVLinks."""
    paths, unclear = [], 0
    for one, other in combinations(range(len(gpus)), 2):
        left, right = gpus[one], gpus[other]
        access = snapshot.access.get((one, other))
        pcie = snapshot.levels.get((one, other)) or level(places[left.label], places[right.label], nodes)
        links: int | None = 0
        if snapshot.links:
            over_nvlink = access.nvlink if access else None
            links = nvlinks_between(left, snapshot.links[one], right, snapshot.links[other], over_nvlink, gpus)
        unclear += links is None
        connection = f"NV{links}" if links else pcie if links == 0 else None
        paths.append(DevicePath(of=left.label, to=right.label, connection=connection, pcie=pcie, peer_access=access))
    return paths, unclear


def _pcie_path(one: str, other: str, pcie: PcieLevel | None) -> DevicePath:
    return DevicePath(of=one, to=other, connection=pcie, pcie=pcie)
