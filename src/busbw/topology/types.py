"""What a machine's parts are and how they are joined. None is what nobody said; it is never zero and never "no"."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

SCHEMA_VERSION = "1.0"

THIS_MACHINE = "this machine"
"""The source of what was not read from a text."""

PcieLevel = Literal["PIX", "PXB", "PHB", "NODE", "SYS"]
"""How far apart two devices are on PCIe, from near to far, in the words of `nvidia-smi topo`."""

LEVELS: tuple[PcieLevel, ...] = ("PIX", "PXB", "PHB", "NODE", "SYS")

Connection = Annotated[str, Meta(pattern=r"^(NV[1-9][0-9]*|PIX|PXB|PHB|NODE|SYS)$")]
"""What `nvidia-smi topo -m` writes into a cell: NV and the number of links, or the level of PCIe."""

Access = Literal[
    "ok", "chipset not supported", "GPU not supported", "topology not supported", "disabled by setting", "not supported"
]
"""What the driver says of one GPU's access to another one's memory."""

NicKind = Literal["InfiniBand", "RoCE", "EFA", "iWARP", "RDMA", "Ethernet", "virtual"]
"""RDMA is an RDMA device that does not say which; virtual is what stands on no device."""


class Pcie(Struct, kw_only=True, frozen=True):
    """A device's PCIe link: what it runs at now, and at most. An idle GPU lowers its generation by itself."""

    generation: int | None = None
    width: int | None = None
    max_generation: int | None = None
    max_width: int | None = None
    max_gbps: float | None = None
    """Of max_generation and max_width, one way, after line coding and before packet headers."""


class NvLinks(Struct, kw_only=True, frozen=True):
    """The NVLinks of one GPU."""

    active: int
    """Links that are up; 0 where the driver says of every link that it is down."""
    version: str | None = None
    """Of the active links: 4.0."""
    link_gbps: float | None = None
    """Of one link, one way, as data sheets give it for this version (`rates.py` names them)."""
    line_gbps: float | None = None
    """Of one link, one way, as the driver says it: the line's rate, which includes coding."""
    to_switch: int | None = None
    """Active links that lead to a switch."""
    to_gpus: dict[str, int] = {}
    """Active links that lead straight to another GPU, by its label."""


class Gpu(Struct, kw_only=True, frozen=True):
    """One GPU."""

    label: str
    """As in the matrix: GPU0. The number is the driver's index, which CUDA_VISIBLE_DEVICES may renumber."""
    name: str | None = None
    bus_id: str | None = None
    """domain:bus:device.function, as the kernel writes it: 0000:18:00.0."""
    memory_bytes: int | None = None
    pcie: Pcie | None = None
    nvlinks: NvLinks | None = None
    """None where the driver does not say: the GPU has none, or hides them."""
    cpu_affinity: str | None = None
    """CPUs that are near, as ranges: 0-47,96-143."""
    numa_affinity: str | None = None
    """NUMA nodes whose memory is near, as ranges."""
    gpu_numa_id: int | None = None
    """The NUMA node that the GPU's own memory is, on machines where it is one."""
    mig_mode: Literal["enabled", "disabled"] | None = None


class Port(Struct, kw_only=True, frozen=True):
    """One port of a NIC."""

    number: int
    state: str | None = None
    """ACTIVE, DOWN, INIT, ARMED for RDMA devices; up, down, unknown and so on for Ethernet, as the kernel says."""
    physical_state: str | None = None
    rate_gbit: float | None = None
    link_layer: str | None = None


class Nic(Struct, kw_only=True, frozen=True):
    """One network device."""

    label: str
    """As in the matrix: NIC0."""
    name: str | None = None
    """Of the RDMA device where there is one, else of the interface: mlx5_0, eth0."""
    kind: NicKind | None = None
    driver: str | None = None
    bus_id: str | None = None
    board_id: str | None = None
    ports: tuple[Port, ...] = ()
    interfaces: tuple[str, ...] = ()
    """The kernel's network interfaces on the same device."""
    pcie: Pcie | None = None
    numa_node: int | None = None
    cpu_affinity: str | None = None
    is_virtual_function: bool = False


class NumaNode(Struct, kw_only=True, frozen=True):
    """CPUs and the memory beside them."""

    index: int
    cpus: str
    """As ranges; empty for a node of memory alone, such as that of a GPU."""
    memory_bytes: int | None = None


class Host(Struct, kw_only=True, frozen=True):
    """The machine without its GPUs and NICs."""

    name: str | None = None
    processor: str | None = None
    sockets: int | None = None
    cpus: str | None = None
    """Those that are online, as ranges."""
    memory_bytes: int | None = None
    numa_nodes: tuple[NumaNode, ...] | None = None


class PeerAccess(Struct, kw_only=True, frozen=True):
    """Whether programs may reach the memory of `Path.to` from `Path.of`, as the driver says."""

    read: Access | None = None
    write: Access | None = None
    atomics: Access | None = None
    nvlink: Access | None = None


class DevicePath(Struct, kw_only=True, frozen=True):
    """What joins two devices; each pair stands here once."""

    of: str
    to: str
    """Labels."""
    connection: Connection | None
    """None where nobody says."""
    pcie: PcieLevel | None = None
    """The level of PCIe, also where NVLink joins them."""
    peer_access: PeerAccess | None = None


class Driver(Struct, kw_only=True, frozen=True):
    """What the driver says of itself."""

    version: str | None = None
    cuda_version: str | None = None


class Topology(Struct, kw_only=True, frozen=True):
    """One machine."""

    schema_version: str = SCHEMA_VERSION
    source: str
    """'this machine', or the name of the text that was read."""
    host: Host | None = None
    driver: Driver | None = None
    gpus: tuple[Gpu, ...] | None = None
    """Empty where the driver says that there is none; None where no driver says anything."""
    nics: tuple[Nic, ...] | None = None
    """None where the text says nothing of NICs."""
    paths: tuple[DevicePath, ...] = ()
    notes: tuple[str, ...] = ()
    """What could not be known, and why."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Of all devices, in the matrix's order."""
        return (*(gpu.label for gpu in self.gpus or ()), *(nic.label for nic in self.nics or ()))

    def path(self, one: str, other: str) -> DevicePath | None:
        """What joins two devices, or None where nothing is known of them."""
        return next((path for path in self.paths if {path.of, path.to} == {one, other}), None)

    def connection(self, one: str, other: str) -> str | None:
        """A cell of the matrix."""
        path = self.path(one, other)
        return path.connection if path else None
