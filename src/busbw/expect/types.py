"""Types of an expectation: scenario, routes with their limits, and estimates per size.

A route is an algorithm of NCCL with the links that its data cross. Field names are keys of `busbw expect --json`.
"""

import math
from typing import Literal, TypeAlias

import numpy as np
from msgspec import Struct

from busbw.system import System

TUNING_SOURCE = "NCCL src/graph/tuning.cc"
"""Source of NCCL's cost model."""

Protocol = Literal["LL", "LL128", "Simple"]
"""NCCL's protocols. LL sends a flag with every 4 bytes, LL128 one flag per 128 bytes, Simple waits for whole chunks."""


class Scenario(Struct, kw_only=True, frozen=True):
    """One collective over a number of ranks on nodes, with the settings that affect its speed."""

    collective: str
    ranks: int
    ranks_per_node: int
    node_ranks: tuple[int, ...] = ()
    """Number of ranks on each node, if a log lists them. Empty if each node has `ranks_per_node`."""
    groups: int = 1
    """Number of equal groups that run at once and share a node's NICs (NCCL_TESTS_SPLIT)."""
    dtype: str | None = None
    """Element type, which does not change the expectation. None if unknown."""
    nvls: bool = True
    """True if the NVLink switch may reduce (NCCL_NVLS_ENABLE)."""
    gpus_per_thread: int | None = 1
    """Number of GPUs that one thread launches in sequence (-g). 1 in a CUDA graph; None if unknown."""
    is_in_graph: bool = True
    """False if the CPU launches each operation, or if the launch mode is unknown. Launching then bounds small sizes."""
    shares_gpus: bool = False
    """True if a log lists several ranks on one GPU, or on MIG instances of one GPU."""
    algorithm: str | None = None
    """The only algorithm that NCCL_ALGO allows: 'ring', 'tree', 'nvls', 'nvlstree' or 'collnet'. None for all."""


class Efficiency(Struct, kw_only=True, frozen=True):
    """Fraction of a route's limit that large messages reach."""

    low: float
    """Minimum of a healthy system."""
    typical: float
    high: float
    """Maximum of the published figures."""
    source: str
    """Source of the fractions, such as "published ring plateaus are 0.95 to 0.99 of it".

    "It" is the route's limit, and a plateau is the busbw of large messages."""


class Limit(Struct, kw_only=True, frozen=True):
    """Limit of one link type on one route."""

    wire: str
    """Link type: 'NVLink', 'PCIe', 'NIC', ..."""
    per: Literal["GPU", "node"]
    """The next two fields are for the links of one GPU, or of one node. A rack joined by NVLink is a node here."""
    capacity_gbps: float
    """Bandwidth of these links together, in each direction, in GB/s."""
    traffic: float
    """GB/s on these links for each GB/s of busbw. If it is below 1, busbw can exceed the capacity.

    The links are busy for the fraction busbw * traffic / capacity_gbps of the time."""
    outside_s_per_gb: float = 0.0
    """The links are idle for the fraction busbw * outside_s_per_gb of the time, in steps that use only other links.

    Example: NICs are idle in the steps of a hypercube that move data over NVLink only."""
    why: str
    """Explanation of the traffic, with the capacity."""
    source: str

    @property
    def busbw_gbps(self) -> float:
        """Busbw at which the link is saturated."""
        # A saturated link has no other idle time, so its busy and its idle fraction add up to 1.
        return self.capacity_gbps / (self.traffic + self.outside_s_per_gb * self.capacity_gbps)


Fractions: TypeAlias = tuple[tuple[int, float], ...]
"""Message sizes in bytes, in ascending order, each with a fraction of the plateau."""


class Route(Struct, kw_only=True, frozen=True):
    """One algorithm with the limits of its links, its latency and its protocols."""

    name: str
    limits: tuple[Limit, ...]
    efficiency: Efficiency
    latency_us: dict[Protocol, float]
    """Time of an operation without the transfer of its bytes, for each available protocol."""
    share: dict[Protocol, float]
    """Fraction of the route's bandwidth that each protocol reaches, at most 1."""
    cap_gbps: dict[Protocol, float] = {}
    """Maximum busbw of a protocol, in GB/s. Protocols without a maximum are missing."""
    source: str = TUNING_SOURCE
    """Source of latencies and shares."""
    fractions: Fractions = ()
    """Fractions of the plateau by message size, for a route that reaches its plateau late. Empty: 1 at all sizes."""

    @property
    def binding_limit(self) -> Limit:
        """Limit with the lowest busbw, which bounds the route."""
        return min(self.limits, key=lambda limit: limit.busbw_gbps)

    @property
    def limit_gbps(self) -> float:
        """Maximum busbw of this route."""
        return self.binding_limit.busbw_gbps

    @property
    def plateau_gbps(self) -> float:
        """Busbw that large messages usually reach."""
        return self.limit_gbps * self.efficiency.typical

    def fraction_at(self, size_bytes: int) -> float:
        """Fraction of the plateau at a size, interpolated over the logarithm of the size."""
        if not self.fractions:
            return 1.0
        sizes_bytes, fractions = zip(*self.fractions, strict=True)
        return float(np.interp(math.log(size_bytes or 1), np.log(sizes_bytes), fractions))


class ExpectedRange(Struct, kw_only=True, frozen=True):
    """Typical value with the range of a healthy system."""

    low: float
    typical: float
    high: float


class Estimate(Struct, kw_only=True, frozen=True):
    """Expected time and busbw of one size."""

    size_bytes: int
    time_us: ExpectedRange
    """Time of one operation in microseconds. `low` is the fastest."""
    busbw_gbps: ExpectedRange
    """Bandwidth in GB/s. `high` belongs to the lowest time."""
    route: str
    """Algorithm, such as 'Ring' or 'NVLS', that gives the typical time."""
    protocol: Protocol
    wire: str
    """Link type that limits large messages on this route."""
    wire_gbps: float
    """Traffic on that link at the typical busbw."""


class Expectation(Struct, kw_only=True, frozen=True):
    """Expectation of one scenario on one system."""

    job: Scenario
    """Collective, ranks and nodes that the expectation is for."""
    system: System
    nodes: int
    """Number of nodes, or of NVLink domains if these are larger than nodes."""
    routes: tuple[Route, ...] = ()
    """Algorithms with the links that they use."""
    best: Route | None = None
    """Fastest route for large messages."""
    floor_us: float | None = None
    """Lowest latency of all routes: the time of the smallest messages. None if the expectation is unknown."""
    estimates: tuple[Estimate, ...] = ()
    """One per size."""
    unknown: str | None = None
    """Reason for a missing expectation, with a remedy. Routes and estimates are empty then."""
    notes: tuple[str, ...] = ()
    """Notes of the system description."""

    def at(self, size_bytes: int) -> Estimate | None:
        """Returns the estimate of a size. None if the expectation does not include that size."""
        return next((estimate for estimate in self.estimates if estimate.size_bytes == size_bytes), None)
