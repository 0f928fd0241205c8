"""What an expectation is: routes over wires, and for each size what a healthy system reaches."""

from typing import Literal

from msgspec import Struct

from busbw.system import System

Protocol = Literal["LL", "LL128", "Simple"]
"""NCCL's ways to send: LL puts a flag beside every 4 bytes, LL128 one in 128 bytes, Simple waits for whole chunks."""


class Scenario(Struct, kw_only=True, frozen=True):
    """What is run: one collective over ranks on nodes."""

    collective: str
    ranks: int
    ranks_per_node: int
    node_ranks: tuple[int, ...] = ()
    """How many each node has, where a log lists them; empty: `ranks_per_node` on each."""
    groups: int = 1
    """How many groups like this one run at once and share a node's NICs (NCCL_TESTS_SPLIT)."""
    dtype: str | None = None
    nvls: bool = True
    """Whether the switch may reduce (NCCL_NVLS_ENABLE)."""
    gpus_per_thread: int | None = 1
    """How many GPUs one thread launches one after the other (-g); 1 in a CUDA graph; None where it is not known."""
    algorithm: str | None = None
    """The only one that is allowed (NCCL_ALGO), in lower case: 'ring', 'tree', 'nvls', 'nvlstree'."""


class Efficiency(Struct, kw_only=True, frozen=True):
    """The share of a route's limit that its data reach when messages are large."""

    low: float
    """A healthy system is not below."""
    typical: float
    high: float
    """Nobody has published more."""
    source: str


class Limit(Struct, kw_only=True, frozen=True):
    """What one kind of wire allows on one route."""

    wire: str
    """'NVLink', 'PCIe', 'NIC', ..."""
    per: Literal["GPU", "node"]
    capacity_gbps: float
    """What the wire of one GPU, or the wires of one node, carry each way."""
    traffic: float
    """GB/s on that wire for each GB/s of busbw; below 1 busbw exceeds the wire."""
    outside_s_per_gb: float = 0.0
    """Seconds for each GB of busbw in which this wire waits for steps over others."""
    why: str
    source: str

    @property
    def busbw_gbps(self) -> float:
        """The busbw at which the wire is full."""
        return self.capacity_gbps / (self.traffic + self.outside_s_per_gb * self.capacity_gbps)


class Route(Struct, kw_only=True, frozen=True):
    """One algorithm, the wires that its data cross, and what it costs."""

    name: str
    limits: tuple[Limit, ...]
    efficiency: Efficiency
    latency_us: dict[Protocol, float]
    """Before the first byte is done, per protocol that it has."""
    share: dict[Protocol, float]
    """Of the route's bandwidth, per protocol; at most 1."""
    cap_gbps: dict[Protocol, float] = {}
    """Busbw that a protocol does not exceed."""
    source: str = ""
    """Of latency and shares."""

    @property
    def binding(self) -> Limit:
        """The wire that is full first."""
        return min(self.limits, key=lambda limit: limit.busbw_gbps)

    @property
    def limit_gbps(self) -> float:
        """The busbw that no run on this route exceeds."""
        return self.binding.busbw_gbps


class ExpectedRange(Struct, kw_only=True, frozen=True):
    """A figure with the range that a healthy system stays in."""

    low: float
    typical: float
    high: float


class Estimate(Struct, kw_only=True, frozen=True):
    """What to expect of one size."""

    size_bytes: int
    time_us: ExpectedRange
    busbw_gbps: ExpectedRange
    route: str
    protocol: Protocol
    wire: str
    """The one that would be full first."""
    wire_gbps: float
    """What crosses that wire at the typical busbw."""


class Expectation(Struct, kw_only=True, frozen=True):
    """What to expect of one job on one system."""

    job: Scenario
    system: System
    nodes: int
    """NVLink domains, where these are larger than nodes."""
    routes: tuple[Route, ...] = ()
    best: Route | None = None
    """The one that wins for large messages."""
    floor_us: float | None = None
    """The shortest time that the library's own model gives for any size."""
    estimates: tuple[Estimate, ...] = ()
    unknown: str | None = None
    """Why there is no expectation, and what to do; then all of the above is empty."""
    notes: tuple[str, ...] = ()

    def at(self, size_bytes: int) -> Estimate | None:
        """The estimate of that size, where it was asked for."""
        return next((estimate for estimate in self.estimates if estimate.size_bytes == size_bytes), None)
