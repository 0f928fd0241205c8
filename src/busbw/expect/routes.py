"""Routes of a scenario: each algorithm with its links, latency and protocols, after NCCL's cost model.

NCCL chooses algorithm and protocol by estimated time: latency of the steps + bytes / bandwidth. The constants are those
of its src/graph/tuning.cc (2.18 to 2.28), so the estimates follow NCCL's own choices.
"""

import math

from busbw.expect.limits import (
    RING_COLLECTIVES,
    bus_factor,
    domain_ranks,
    fabric_of,
    inter_node_limit,
    intra_domain_limit,
    nics_gbps,
    nics_text,
    node_count,
    one_nic_gbps,
)
from busbw.expect.types import Efficiency, Limit, Protocol, Route, Scenario
from busbw.system import Fabric, System

TUNING = "NCCL src/graph/tuning.cc"

RING = Efficiency(
    low=0.92,
    typical=0.97,
    high=1.02,
    source="published ring plateaus are 0.95 to 0.99 of it: A100 231-235 of 240, H200 367 of 371, B200 682-695 of 722",
)
PCIE = Efficiency(
    low=0.5,
    typical=0.83,
    high=1.0,
    source="NCCL src/graph/topo.h: INTEL_P2P_OVERHEAD, 6/5 of the bytes; half where they go through host memory",
)
NVLS = Efficiency(
    low=0.93, typical=1.0, high=1.06, source="published NVLS plateaus are -4 to +2 % of it: H200, H100, B200, B300"
)
NVLS_RACK = Efficiency(
    low=0.78,
    typical=0.85,
    high=0.95,
    source="published racks stay at 0.8 to 0.9 of the formula: GB200 72 GPUs 820 to 850, GB300 64 GPUs 932",
)
NET_RING = Efficiency(
    low=0.85, typical=0.97, high=1.02, source="published: 46 to 49 GB/s for each 400 Gb/s, 24 for 200, 12 for 100"
)
TREE_PAIR = Efficiency(
    low=0.72,
    typical=0.92,
    high=1.0,
    source=f"{TUNING}: a tree reaches 0.92; published 2-node plateaus spread from 0.74 to 0.96 of it",
)
TREE_NET = Efficiency(low=0.75, typical=0.92, high=1.0, source=f"{TUNING}: a tree reaches 0.92")
PAIRWISE = Efficiency(
    low=0.85, typical=0.95, high=1.03, source="published plateaus of alltoall, gather, scatter and sendrecv on H200"
)
HYPERCUBE = Efficiency(
    low=0.6, typical=0.8, high=0.95, source="published hypercube plateaus on H200: 0.65 of it (8 GPUs), 0.88 (4 GPUs)"
)

# Microseconds: base latency, and latency of each step over NVLink, PCIe and the network.
_BASE: dict[str, dict[Protocol, float]] = {
    "Tree": {"LL": 6.8, "LL128": 14.0, "Simple": 8.4},
    "Ring": {"LL": 6.6, "LL128": 14.0, "Simple": 8.4},
}
_STEP: dict[str, dict[str, dict[Protocol, float]]] = {
    "NVLink": {
        "Tree": {"LL": 0.6, "LL128": 1.25, "Simple": 4.0},
        "Ring": {"LL": 0.6, "LL128": 1.9, "Simple": 3.4},
    },
    "PCIe": {
        "Tree": {"LL": 1.0, "LL128": 1.9, "Simple": 4.0},
        "Ring": {"LL": 1.0, "LL128": 2.5, "Simple": 5.7},
    },
    "NIC": {
        "Tree": {"LL": 5.0, "LL128": 8.5, "Simple": 14.0},
        "Ring": {"LL": 2.7, "LL128": 4.0, "Simple": 14.0},
    },
}
_NVLS_US, _NVLS_NET_US = 23.0, 14.0
_POST_US = 1.0  # CPU time for each message that is posted to a NIC
# Maximum busbw of LL on one node, on two, and on more.
_LL_CAP_GBPS = {
    "volta": (39.0, 39.0, 20.4),
    "ampere": (87.7, 22.5, 19.0),
    "hopper": (141.0, 45.0, 35.0),
    "blackwell": (282.0, 90.0, 70.0),
}
# Factor on a tree's bandwidth at 64 B, 128 B, ...: its chunks do not fill the pipeline at medium sizes.
_TREE_CORRECTION: dict[Protocol, tuple[float, ...]] = {
    "LL": (1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1),
    "LL128": (1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.5, 0.6, 0.6, 0.7, 0.7, 0.8, 0.9, 0.9, 1),
    "Simple": (
        0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.6, 0.6, 0.7, 0.8, 0.9,
    ),
}  # fmt: skip
_PROTOCOLS: tuple[Protocol, ...] = ("LL", "LL128", "Simple")


def routes(job: Scenario, system: System) -> tuple[Route, ...]:
    """Returns all routes that NCCL may choose. Empty if the links are unknown."""
    inner = domain_ranks(job, system)
    fabric = fabric_of(inner, system) if inner > 1 else None  # a single rank on a node uses no links
    nodes = node_count(job, system)
    if inner > 1 and fabric is None:
        return ()
    if nodes > 1 and system.nics is None:
        return ()
    if job.collective not in RING_COLLECTIVES:
        return (_pairwise(job, system, fabric, nodes),)
    found = [_ring(job, system, fabric, nodes)]
    if job.collective == "all_reduce":
        found.append(_tree(job, system, fabric, nodes))
        found += _nvls(job, system, fabric, nodes)
    wanted = [route for route in found if job.algorithm in (None, route.name.lower())]
    return tuple(wanted or found)


def correction(route: str, protocol: Protocol, size_bytes: int) -> float:
    """Factor that NCCL applies to a route's bandwidth at medium sizes."""
    factors = _TREE_CORRECTION[protocol]
    step = max(size_bytes, 64).bit_length() - 7
    return factors[step] if route == "Tree" and step < len(factors) else 1.0


def _protocols(system: System, fabric: Fabric | None) -> tuple[Protocol, ...]:
    """Returns the usable protocols. LL128 needs atomic stores of 128 bytes, which PCIe does not guarantee."""
    with_ll128 = system.generation not in ("cdna", "host") and (fabric is None or fabric.kind == "NVLink")
    return tuple(protocol for protocol in _PROTOCOLS if with_ll128 or protocol != "LL128")


def _inner_step(algorithm: str, protocol: Protocol, fabric: Fabric | None) -> float:
    return _STEP["PCIe" if fabric is not None and fabric.kind == "PCIe" else "NVLink"][algorithm][protocol]


def _outer_step(algorithm: str, protocol: Protocol, system: System) -> float:
    plugin = system.nics.latency_us.value if system.nics and system.nics.latency_us else 0.0
    return _STEP["NIC"][algorithm][protocol] + plugin


def _caps(system: System, nodes: int) -> dict[Protocol, float]:
    caps = _LL_CAP_GBPS.get(system.generation)
    return {"LL": caps[min(nodes, 3) - 1]} if caps else {}


def _ring(job: Scenario, system: System, fabric: Fabric | None, nodes: int) -> Route:
    limits: list[Limit] = []
    if fabric is not None:
        limits.append(
            intra_domain_limit(job, system, fabric, 1.0, "a ring sends every byte of busbw over each GPU's links")
        )
    if nodes > 1 and system.nics is not None:
        limits.append(inter_node_limit(job, system, system.nics, 1.0, "each ring leaves and enters every node once"))
    steps = {"all_reduce": 2 * (job.ranks - 1), "broadcast": 1, "reduce": 1}.get(job.collective, job.ranks - 1)
    crossings = {"all_reduce": 2 * nodes, "broadcast": nodes, "reduce": nodes}.get(job.collective, nodes - 1)
    crossings = crossings if nodes > 1 else 0
    return Route(
        name="Ring",
        limits=tuple(limits),
        efficiency=_ring_efficiency(limits, nodes),
        latency_us={
            protocol: _BASE["Ring"][protocol]
            + max(0, steps - crossings) * _inner_step("Ring", protocol, fabric)
            + crossings * _outer_step("Ring", protocol, system)
            for protocol in _protocols(system, fabric)
        },
        share={"LL": 0.5, "LL128": 0.92, "Simple": 1.0},
        cap_gbps=_caps(system, nodes),
        source=TUNING,
    )


def _ring_efficiency(limits: list[Limit], nodes: int) -> Efficiency:
    """Returns the efficiency of the limiting link. Across nodes all links wait for the network."""
    if min(limits, key=lambda limit: limit.busbw_gbps).wire == "PCIe":
        return PCIE
    return NET_RING if nodes > 1 else RING


def _tree(job: Scenario, system: System, fabric: Fabric | None, nodes: int) -> Route:
    inner = domain_ranks(job, system)
    limits: list[Limit] = []
    if fabric is not None:
        limits.append(
            intra_domain_limit(job, system, fabric, 1.0, "a chain up and down sends twice the data, as a ring does")
        )
    if nodes > 1 and system.nics is not None:
        limits.append(_tree_nics(job, system, nodes))
    return Route(
        name="Tree",
        limits=tuple(limits),
        efficiency=PCIE if nodes == 1 and fabric is not None and fabric.kind == "PCIe" else TREE_NET,
        latency_us={
            protocol: _BASE["Tree"][protocol]
            + 2
            * (
                (inner - 1) * _inner_step("Tree", protocol, fabric)
                + int(math.log2(nodes)) * _outer_step("Tree", protocol, system)
            )
            for protocol in _protocols(system, fabric)
        },
        share={"LL": 1 / 3.8, "LL128": 7 / 9 if nodes == 1 else 120 / 128, "Simple": 1.0},
        cap_gbps=_caps(system, nodes),
        source=TUNING,
    )


def _tree_nics(job: Scenario, system: System, nodes: int) -> Limit:
    assert system.nics is not None
    if nodes == 2:
        reason = "between two nodes a tree sends the data once each way; busbw counts them up to twice"
        return inter_node_limit(job, system, system.nics, 1 / bus_factor("all_reduce", job.ranks), reason)
    return inter_node_limit(job, system, system.nics, 1.0, "a node inside the tree sends up and down")


def _nvls(job: Scenario, system: System, fabric: Fabric | None, nodes: int) -> list[Route]:
    inner = domain_ranks(job, system)
    if (
        system.nvls is None
        or not job.nvls
        or fabric is None
        or fabric.kind != "NVLink"
        or fabric is not system.fabrics[0]
    ):
        return []
    if inner < system.nvls.from_ranks.value:
        return []
    # Each GPU sends its data once and receives the sum once, plus 1/inner of both for the slice that it manages.
    # That is S (1 + 1/inner) each way; busbw counts 2 S (n-1)/n.
    traffic = (1 + 1 / inner) / (2 * (job.ranks - 1) / job.ranks)
    capacity = intra_domain_limit(
        job, system, fabric, traffic, "the switch reduces: each GPU sends its data once and receives the sum once"
    )
    limit = Limit(
        wire=capacity.wire,
        per="GPU",
        capacity_gbps=capacity.capacity_gbps * system.nvls.efficiency.value,
        traffic=traffic,
        why=f"{capacity.why[:-1]} x {system.nvls.efficiency.value:g})",
        source=f"{capacity.source}; {system.nvls.efficiency.source}",
    )
    if nodes == 1:
        efficiency = NVLS if inner <= 8 else NVLS_RACK
        return [_nvls_route("NVLS", (limit,), efficiency, _NVLS_US)]
    efficiency = TREE_PAIR if nodes == 2 and inner <= 8 else TREE_NET if inner <= 8 else NVLS_RACK
    outer = _NVLS_NET_US + (_outer_step("Tree", "Simple", system) - _STEP["NIC"]["Tree"]["Simple"])
    latency = _NVLS_US + 2 * int(math.log2(nodes)) * outer
    return [_nvls_route("NVLSTree", (limit, _tree_nics(job, system, nodes)), efficiency, latency)]


def _nvls_route(name: str, limits: tuple[Limit, ...], efficiency: Efficiency, latency_us: float) -> Route:
    return Route(
        name=name,
        limits=limits,
        efficiency=efficiency,
        latency_us={"Simple": latency_us},
        share={"Simple": 1.0},
        source=TUNING,
    )


def _hypercube_steps(job: Scenario, inner: int, within: list[Limit]) -> tuple[float, float]:
    """Returns the traffic on a GPU's NICs, in GB per GB of busbw, and the seconds per GB of the steps within a node.

    Step k swaps 2^k of the n - 1 parts between ranks that differ in bit k of their number. It stays within a node if
    blocks of 2^(k+1) ranks do. So all but n - b parts stay; b is the largest power of two that divides `inner`.
    """
    block = inner & -inner
    crossing = (job.ranks - block) / (job.ranks - 1)
    links = min((limit.busbw_gbps for limit in within), default=math.inf)
    return crossing, (1 - crossing) / links


def _pairwise(job: Scenario, system: System, fabric: Fabric | None, nodes: int) -> Route:
    """Makes the route of collectives that consist of point-to-point transfers. Each GPU uses its share of the NICs."""
    inner = domain_ranks(job, system)
    limits: list[Limit] = []
    if fabric is not None:
        limits.append(intra_domain_limit(job, system, fabric, 1.0, "every byte of busbw crosses the GPU's links"))
    if nodes > 1 and system.nics is not None:
        capacity_gbps = nics_gbps(job, system, system.nics) / inner
        reason = "each GPU's share of the NICs carries its data for other nodes"
        if job.collective in ("sendrecv", "gather", "scatter"):
            capacity_gbps = max(capacity_gbps, one_nic_gbps(job, system.nics))
            reason = "one GPU of a node sends to others or receives from them, through its own NIC"
        traffic = 1.0 if job.collective == "sendrecv" else (job.ranks - inner) / (job.ranks - 1)
        outside_s_per_gb = 0.0
        if job.collective == "hypercube":
            traffic, outside_s_per_gb = _hypercube_steps(job, inner, limits)
            reason += ", in steps that wait for each other"
        limits.append(
            Limit(
                wire="NIC",
                per="GPU",
                capacity_gbps=capacity_gbps,
                traffic=traffic,
                outside_s_per_gb=outside_s_per_gb,
                why=f"{reason} ({nics_text(job, system, system.nics)})",
                source=inter_node_limit(job, system, system.nics, 1.0, "").source,
            )
        )
    peers = 0 if nodes == 1 else 1 if job.collective == "sendrecv" else job.ranks - inner
    efficiency = HYPERCUBE if job.collective == "hypercube" else PAIRWISE if nodes == 1 else NET_RING
    if nodes == 1 and fabric is not None and fabric.kind == "PCIe":
        efficiency = PCIE
    latency: dict[Protocol, float] = {}
    for protocol, posts in (("LL", 1), ("Simple", 3)):
        kind: Protocol = "LL" if protocol == "LL" else "Simple"
        latency[kind] = _BASE["Ring"][kind] + _inner_step("Ring", kind, fabric)
        if peers:
            latency[kind] += _outer_step("Ring", kind, system) + posts * _POST_US * peers
    return Route(
        name="Pairwise",
        limits=tuple(limits),
        efficiency=efficiency,
        latency_us=latency,
        share={"LL": 0.5, "Simple": 1.0},
        cap_gbps=_caps(system, nodes),
        source=TUNING,
    )
