"""Discovers the topology of this machine: combines GPU data from the driver with all other data from the kernel."""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from msgspec.structs import replace

from busbw.topology.sources import nvml, sysfs
from busbw.topology.sources.gpu_paths import nvlinks_between, with_remote_devices
from busbw.topology.sources.nics import nics
from busbw.topology.sources.pci_paths import PciLocation, pcie_level
from busbw.topology.types import DevicePath, Gpu, Topology
from busbw.units import count_text


def combine(snapshot: nvml.NvmlSnapshot, root: Path = Path("/"), *, virtual_too: bool = False) -> Topology:
    """Combines the driver's data with the kernel's data.

    Args:
        snapshot: Data of the driver.
        root: Root of the kernel's file tree.
        virtual_too: Include network interfaces without a hardware device.
    """
    host = sysfs.read_host(root)
    located_nics = nics(root, virtual_too=virtual_too)
    gpus, gpu_notes = _gpus(snapshot, sysfs.gpu_bus_ids(root), root)
    numa_nodes = None if host.numa_nodes is None else {node.index for node in host.numa_nodes}
    locations = {gpu.label: sysfs.location_of_bus_id(root, gpu.bus_id) for gpu in gpus}
    locations.update({nic.label: location for nic, location in located_nics})
    gpu_paths, unknown_pairs = _gpu_paths(snapshot, gpus, locations, numa_nodes)
    path_notes = []
    if unknown_pairs:
        path_notes.append(
            "NVLinks are up, but the driver does not report their remote devices: the NVLinks of "
            f"{count_text(unknown_pairs, 'pair')} of GPUs are unknown"
        )
    nic_paths = []
    for first, second in combinations(locations, 2):
        has_nic = not (first.startswith("GPU") and second.startswith("GPU"))
        if has_nic:
            pcie = pcie_level(locations[first], locations[second], numa_nodes)
            nic_paths.append(DevicePath(of=first, to=second, connection=pcie, pcie=pcie))
    are_gpus_known = snapshot.gpus is not None or bool(gpus)
    return Topology(
        source="this machine",
        host=host,
        driver=snapshot.driver,
        gpus=tuple(gpus) if are_gpus_known else None,
        nics=tuple(nic for nic, _ in located_nics),
        paths=(*gpu_paths, *nic_paths),
        notes=(*snapshot.notes, *gpu_notes, *path_notes),
    )


def _gpus(snapshot: nvml.NvmlSnapshot, bus_ids: Sequence[str], root: Path) -> tuple[list[Gpu], list[str]]:
    """Returns the GPUs and notes about them. `bus_ids` lists the NVIDIA GPUs on the PCIe bus.

    The GPUs are those that the driver reports, or without a driver those on the bus.
    """
    if snapshot.gpus is None:
        gpus = [
            Gpu(label=f"GPU{index}", bus_id=bus_id, pcie=sysfs.pcie(root, bus_id))
            for index, bus_id in enumerate(bus_ids)
        ]
        if not gpus:
            return [], []
        return gpus, [f"{count_text(len(gpus), 'NVIDIA GPU')} on the bus; the rest is unknown without a driver"]
    links_by_gpu = snapshot.links or [()] * len(snapshot.gpus)
    gpus = [
        replace(with_remote_devices(gpu, links, snapshot.gpus), pcie=gpu.pcie or sysfs.pcie(root, gpu.bus_id))
        for gpu, links in zip(snapshot.gpus, links_by_gpu, strict=True)
    ]
    hidden_count = len(bus_ids) - len(gpus)
    if hidden_count <= 0:
        return gpus, []
    return gpus, [
        f"the bus has {count_text(hidden_count, 'NVIDIA GPU')} more, which the driver does not show to this process"
    ]


def _gpu_paths(
    snapshot: nvml.NvmlSnapshot,
    gpus: Sequence[Gpu],
    locations: dict[str, PciLocation | None],
    numa_nodes: set[int] | None,
) -> tuple[list[DevicePath], int]:
    """Returns the paths between GPUs, and the number of pairs with unknown NVLinks."""
    paths: list[DevicePath] = []
    unknown_pairs = 0
    for pair in combinations(range(len(gpus)), 2):
        first, second = (gpus[index] for index in pair)
        access = snapshot.access.get(pair)
        pcie = snapshot.levels.get(pair) or pcie_level(locations[first.label], locations[second.label], numa_nodes)
        link_count: int | None = 0
        if snapshot.links:
            first_links, second_links = (snapshot.links[index] for index in pair)
            nvlink_access = access.nvlink if access else None
            link_count = nvlinks_between(first, first_links, second, second_links, nvlink_access, gpus)
        connection: str | None = pcie
        if link_count is None:
            connection = None
            unknown_pairs += 1
        elif link_count > 0:
            connection = f"NV{link_count}"
        paths.append(DevicePath(of=first.label, to=second.label, connection=connection, pcie=pcie, peer_access=access))
    return paths, unknown_pairs
