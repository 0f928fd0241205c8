"""Data types of a topology, and of its JSON output.

None means unknown, unless the docstring of a field gives another meaning. It never means zero.

The matrix is the table of `nvidia-smi topo -m`: the connection of each pair of devices.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

SCHEMA_VERSION = "1.0"

PcieLevel = Literal["PIX", "PXB", "PHB", "NODE", "SYS"]
"""Distance of two devices on PCIe, from near to far, in the terms of `nvidia-smi topo` (LEGEND in views/matrix.py)."""

LEVELS: tuple[PcieLevel, ...] = ("PIX", "PXB", "PHB", "NODE", "SYS")

Connection = Annotated[str, Meta(pattern=r"^(NV[1-9][0-9]*|PIX|PXB|PHB|NODE|SYS)$")]
"""Cell of `nvidia-smi topo -m`: NV and the number of links, or the PCIe level."""

Access = Literal[
    "ok", "chipset not supported", "GPU not supported", "topology not supported", "disabled by setting", "not supported"
]
"""Driver status of a GPU's access to another GPU's memory."""

NicKind = Literal["InfiniBand", "RoCE", "EFA", "iWARP", "RDMA", "Ethernet", "virtual"]
"""RDMA: an RDMA device of unknown kind. virtual: an interface without a hardware device."""


class Pcie(Struct, kw_only=True, frozen=True):
    """PCIe link of a device, with its current and maximum speed. An idle GPU lowers its generation automatically."""

    generation: int | None = None
    width: int | None = None
    max_generation: int | None = None
    max_width: int | None = None
    max_gbps: float | None = None
    """GB/s of max_generation and max_width, one way. Line coding is deducted, packet headers are not."""


class NvLinks(Struct, kw_only=True, frozen=True):
    """NVLinks of one GPU."""

    active: int
    """Number of links that are up; 0 if the driver reports every link as down."""
    version: str | None = None
    """Version of the active links, for example 4.0."""
    link_gbps: float | None = None
    """GB/s of one link, one way, from the data sheets for this version (link_rates.py)."""
    line_gbps: float | None = None
    """Line rate of one link in GB/s, one way, from the driver. It includes line coding."""
    to_switch: int | None = None
    """Number of active links to a switch."""
    to_gpus: dict[str, int] = {}
    """Number of active links directly to another GPU, by its label."""


class Gpu(Struct, kw_only=True, frozen=True):
    """One GPU."""

    label: str
    """Label in the matrix, such as GPU0, with the driver's index. CUDA_VISIBLE_DEVICES may change CUDA's index."""
    name: str | None = None
    bus_id: str | None = None
    """domain:bus:device.function in the kernel's format: 0000:18:00.0."""
    memory_bytes: int | None = None
    pcie: Pcie | None = None
    nvlinks: NvLinks | None = None
    """None if the driver does not report NVLinks: the GPU has none or hides them."""
    cpu_affinity: str | None = None
    """Nearest CPUs, as ranges: 0-47,96-143."""
    numa_affinity: str | None = None
    """NUMA nodes with the nearest memory, as ranges."""
    gpu_numa_id: int | None = None
    """NUMA node of the GPU's own memory, on machines with such a node."""
    mig_mode: Literal["enabled", "disabled"] | None = None
    """None if the GPU does not support MIG or the mode is unknown."""


class Port(Struct, kw_only=True, frozen=True):
    """One port of a NIC."""

    number: int
    """From 1 for RDMA devices; 0 for the only port of a network interface."""
    state: str | None = None
    """State from the kernel: ACTIVE, DOWN, INIT or ARMED for RDMA devices; up, down, unknown etc. for Ethernet."""
    physical_state: str | None = None
    rate_gbit: float | None = None
    link_layer: str | None = None


class Nic(Struct, kw_only=True, frozen=True):
    """One network device."""

    label: str
    """Label in the matrix, such as NIC0."""
    name: str | None = None
    """Name of the RDMA device if there is one, otherwise of the interface: mlx5_0, eth0."""
    kind: NicKind | None = None
    driver: str | None = None
    bus_id: str | None = None
    board_id: str | None = None
    ports: tuple[Port, ...] = ()
    interfaces: tuple[str, ...] = ()
    """Network interfaces of the kernel on the same device."""
    pcie: Pcie | None = None
    numa_node: int | None = None
    cpu_affinity: str | None = None
    is_virtual_function: bool = False


class NumaNode(Struct, kw_only=True, frozen=True):
    """A NUMA node: CPUs with their local memory."""

    index: int
    cpus: str
    """CPUs as ranges. Empty for a node with memory only, such as that of a GPU."""
    memory_bytes: int | None = None


class Host(Struct, kw_only=True, frozen=True):
    """The machine without its GPUs and NICs."""

    name: str | None = None
    processor: str | None = None
    sockets: int | None = None
    cpus: str | None = None
    """Online CPUs, as ranges."""
    memory_bytes: int | None = None
    numa_nodes: tuple[NumaNode, ...] | None = None


class PeerAccess(Struct, kw_only=True, frozen=True):
    """Access from `DevicePath.of` to the memory of `DevicePath.to`, as reported by the driver."""

    read: Access | None = None
    write: Access | None = None
    atomics: Access | None = None
    nvlink: Access | None = None


class DevicePath(Struct, kw_only=True, frozen=True):
    """Connection of two devices. Each pair is listed once."""

    of: str
    to: str
    """Labels of the two devices, in the order of the matrix."""
    connection: Connection | None
    """None if unknown."""
    pcie: PcieLevel | None = None
    """PCIe level, also for devices with NVLink."""
    peer_access: PeerAccess | None = None


class Driver(Struct, kw_only=True, frozen=True):
    """Versions of the GPU driver."""

    version: str | None = None
    cuda_version: str | None = None


class Topology(Struct, kw_only=True, frozen=True):
    """Topology of one machine."""

    schema_version: str = SCHEMA_VERSION
    source: str
    """'this machine', or the name of the text with the matrix."""
    host: Host | None = None
    driver: Driver | None = None
    gpus: tuple[Gpu, ...] | None = None
    """Empty if the driver reports no GPU; None if no driver answers."""
    nics: tuple[Nic, ...] | None = None
    """None if the text does not list NICs."""
    paths: tuple[DevicePath, ...] = ()
    notes: tuple[str, ...] = ()
    """Unknown properties, with the reasons."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of all devices, in the order of the matrix."""
        return (*(gpu.label for gpu in self.gpus or ()), *(nic.label for nic in self.nics or ()))
