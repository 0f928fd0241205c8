"""Lists the routes of a scenario: each algorithm with its links, latency and protocols, after NCCL's cost model.

A domain is a node, or a rack whose nodes are joined by NVLink. Data cross a fabric within it, and NICs between domains.

NCCL chooses algorithm and protocol by estimated time: latency of the steps + bytes / bandwidth. The constants are those
of its src/graph/tuning.cc (2.18 to 2.28), so the estimates follow NCCL's own choices.
"""

import math

from busbw.collectives import collectives
from busbw.expect.limits import (
    domain_count,
    domain_ranks,
    fastest_fabric,
    inter_domain_limit,
    intra_domain_limit,
    nics_gbps,
    nics_text,
    one_nic_gbps,
)
from busbw.expect.types import Efficiency, Limit, Protocol, Route, Scenario
from busbw.system import Fabric, Nics, System

_TUNING_SOURCE = "NCCL src/graph/tuning.cc"

# Fractions of their limits that routes reach, with sources. "it" in a source is the limit, a plateau is the busbw of
# large messages.
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
    source=f"{_TUNING_SOURCE}: a tree reaches 0.92; published 2-node plateaus spread from 0.74 to 0.96 of it",
)
TREE_NET = Efficiency(low=0.75, typical=0.92, high=1.0, source=f"{_TUNING_SOURCE}: a tree reaches 0.92")
NVLS_SHARP = Efficiency(
    low=0.66, typical=0.7, high=1.0, source="published: 8 x 8 H100 with InfiniBand SHARP reach 386 of 551"
)
COLLNET = Efficiency(
    low=0.85, typical=0.92, high=1.0, source="published: 8 x 8 H100 with InfiniBand SHARP reach 386 of 417"
)
PAIRWISE = Efficiency(
    low=0.85, typical=0.95, high=1.03, source="published plateaus of alltoall, gather, scatter and sendrecv on H200"
)
HYPERCUBE = Efficiency(
    low=0.6, typical=0.8, high=0.95, source="published hypercube plateaus on H200: 0.65 of it (8 GPUs), 0.88 (4 GPUs)"
)

# Base latency of an operation, and latency of each step over NVLink, PCIe and the network, in microseconds.
_BASE_US: dict[str, dict[Protocol, float]] = {
    "Tree": {"LL": 6.8, "LL128": 14.0, "Simple": 8.4},
    "Ring": {"LL": 6.6, "LL128": 14.0, "Simple": 8.4},
}
_STEP_US: dict[str, dict[str, dict[Protocol, float]]] = {
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
_NVLS_US, _NVLS_NET_US = 23.0, 14.0  # latency of NVLS within a domain, and of each step between domains
# Latency of CollNet within a domain and for each further rank of it; of a network that reduces, for CollNet and NVLS.
_COLLNET_US, _COLLNET_RANK_US, _COLLNET_NET_US, _NVLS_SHARP_NET_US = 3.7, 0.4, 31.0, 18.0
_POST_US = 1.0  # CPU time for each message that is posted to a NIC
# Maximum busbw of LL on one domain, on two, and on more, by GPU generation.
_LL_CAP_GBPS = {
    "volta": (39.0, 39.0, 20.4),
    "ampere": (87.7, 22.5, 19.0),
    "hopper": (141.0, 45.0, 35.0),
    "blackwell": (282.0, 90.0, 70.0),
}
# Factor on the bandwidth of a tree at 64 B, 128 B, ...: at medium sizes its chunks do not fill the pipeline.
_TREE_CORRECTION: dict[Protocol, tuple[float, ...]] = {
    "LL": (1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1),
    "LL128": (1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.5, 0.6, 0.6, 0.7, 0.7, 0.8, 0.9, 0.9, 1),
    "Simple": (
        0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.6, 0.6, 0.7, 0.8, 0.9,
    ),
}  # fmt: skip
_PROTOCOLS: tuple[Protocol, ...] = ("LL", "LL128", "Simple")
_MAX_NODE_GPUS = 8
"""Maximum number of GPUs of a node. Larger domains are racks, for which NCCL has no CollNet."""
_IN_NETWORK_COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter")
"""Collectives for which NCCL uses a network that reduces (src/graph/tuning.cc: CollNet)."""


def list_routes(scenario: Scenario, system: System) -> tuple[Route, ...]:
    """Returns all routes that NCCL may choose. Empty if the links are unknown.

    NCCL_ALGO restricts the routes, unless no route has its algorithm.
    """
    domain_size = domain_ranks(scenario, system)
    fabric = fastest_fabric(domain_size, system) if domain_size > 1 else None  # a single rank uses no fabric
    domains = domain_count(scenario, system)
    if domain_size > 1 and fabric is None:
        return ()
    if domains > 1 and system.nics is None:
        return ()
    if not collectives()[scenario.collective].runs_as_ring:
        return (_pairwise_route(scenario, system, fabric, domains),)
    available = [_ring_route(scenario, system, fabric, domains)]
    if scenario.collective == "all_reduce":
        available.append(_tree_route(scenario, system, fabric, domains))
        available += _nvls_routes(scenario, system, fabric, domains)
    is_reducing = can_reduce_in_network(scenario, system) and domain_size <= _MAX_NODE_GPUS
    if is_reducing and system.nics is not None and system.nics.sharp:
        available.append(_collnet_route(scenario, system, system.nics, fabric))
    allowed = [route for route in available if scenario.algorithm in (None, route.name.lower())]
    return tuple(allowed or available)


def bandwidth_correction(route: str, protocol: Protocol, size_bytes: int) -> float:
    """Factor that NCCL applies to the bandwidth of a tree at medium sizes; 1 for other routes."""
    factors = _TREE_CORRECTION[protocol]
    index = max(size_bytes, 64).bit_length() - 7  # 64 B has index 0
    return factors[index] if route == "Tree" and index < len(factors) else 1.0


def _usable_protocols(system: System, fabric: Fabric | None) -> tuple[Protocol, ...]:
    """Returns the usable protocols. LL128 needs atomic stores of 128 bytes, which PCIe does not guarantee.

    The model assumes LL128 only for NVIDIA GPUs.
    """
    has_ll128 = system.generation not in ("cdna", "host") and (fabric is None or fabric.kind == "NVLink")
    return tuple(protocol for protocol in _PROTOCOLS if has_ll128 or protocol != "LL128")


def _step_within_domain_us(algorithm: str, protocol: Protocol, fabric: Fabric | None) -> float:
    return _STEP_US["PCIe" if fabric is not None and fabric.kind == "PCIe" else "NVLink"][algorithm][protocol]


def _step_between_domains_us(algorithm: str, protocol: Protocol, system: System) -> float:
    nic_latency_us = system.nics.latency_us.value if system.nics and system.nics.latency_us else 0.0
    return _STEP_US["NIC"][algorithm][protocol] + nic_latency_us


def _ll_cap_gbps(system: System, domains: int) -> dict[Protocol, float]:
    """Returns the maximum busbw of LL. Empty if NCCL has none for the GPU generation."""
    caps_gbps = _LL_CAP_GBPS.get(system.generation)
    return {"LL": caps_gbps[min(domains, 3) - 1]} if caps_gbps else {}


def _ring_route(scenario: Scenario, system: System, fabric: Fabric | None, domains: int) -> Route:
    limits: list[Limit] = []
    if fabric is not None:
        limits.append(
            intra_domain_limit(scenario, system, fabric, 1.0, "a ring sends every byte of busbw over each GPU's links")
        )
    if domains > 1 and system.nics is not None:
        limits.append(
            inter_domain_limit(scenario, system, system.nics, 1.0, "each ring leaves and enters every node once")
        )
    # Steps by NCCL's model, and the number of steps that go to another domain. A broadcast is one pipeline.
    steps_around = scenario.ranks - 1
    step_count = {"all_reduce": 2 * steps_around, "broadcast": 1, "reduce": 1}.get(scenario.collective, steps_around)
    crossing_count = 0
    if domains > 1:
        crossing_count = {"all_reduce": 2 * domains, "broadcast": domains, "reduce": domains}.get(
            scenario.collective, domains - 1
        )
    return Route(
        name="Ring",
        limits=tuple(limits),
        efficiency=_ring_efficiency(limits, domains),
        latency_us={
            protocol: _BASE_US["Ring"][protocol]
            + max(0, step_count - crossing_count) * _step_within_domain_us("Ring", protocol, fabric)
            + crossing_count * _step_between_domains_us("Ring", protocol, system)
            for protocol in _usable_protocols(system, fabric)
        },
        share={"LL": 0.5, "LL128": 0.92, "Simple": 1.0},
        cap_gbps=_ll_cap_gbps(system, domains),
        source=_TUNING_SOURCE,
    )


def _ring_efficiency(limits: list[Limit], domains: int) -> Efficiency:
    """Returns the efficiency of the limiting link. Across domains all links wait for the network."""
    if min(limits, key=lambda limit: limit.busbw_gbps).wire == "PCIe":
        return PCIE
    return NET_RING if domains > 1 else RING


def _tree_route(scenario: Scenario, system: System, fabric: Fabric | None, domains: int) -> Route:
    domain_size = domain_ranks(scenario, system)
    limits: list[Limit] = []
    if fabric is not None:
        limits.append(
            intra_domain_limit(
                scenario, system, fabric, 1.0, "a chain up and down sends twice the data, as a ring does"
            )
        )
    if domains > 1 and system.nics is not None:
        limits.append(_tree_nic_limit(scenario, system, domains))
    latency_us: dict[Protocol, float] = {}
    for protocol in _usable_protocols(system, fabric):
        # Along the chain of a domain, then up the tree of domains; the result takes the same steps back.
        chain_us = (domain_size - 1) * _step_within_domain_us("Tree", protocol, fabric)
        tree_us = int(math.log2(domains)) * _step_between_domains_us("Tree", protocol, system)
        latency_us[protocol] = _BASE_US["Tree"][protocol] + 2 * (chain_us + tree_us)
    is_pcie_only = domains == 1 and fabric is not None and fabric.kind == "PCIe"
    return Route(
        name="Tree",
        limits=tuple(limits),
        efficiency=PCIE if is_pcie_only else TREE_NET,
        latency_us=latency_us,
        share={"LL": 1 / 3.8, "LL128": 7 / 9 if domains == 1 else 120 / 128, "Simple": 1.0},
        cap_gbps=_ll_cap_gbps(system, domains),
        source=_TUNING_SOURCE,
    )


def _tree_nic_limit(scenario: Scenario, system: System, domains: int) -> Limit:
    assert system.nics is not None
    if domains == 2:
        reason = "between two nodes a tree sends the data once each way; busbw counts them up to twice"
        return inter_domain_limit(
            scenario, system, system.nics, 1 / collectives()["all_reduce"].bus_factor_of(scenario.ranks), reason
        )
    return inter_domain_limit(scenario, system, system.nics, 1.0, "a node inside the tree sends up and down")


def can_reduce_in_network(scenario: Scenario, system: System) -> bool:
    """True if NCCL would use a network that reduces for this scenario. The network itself may not be able to."""
    if scenario.collective not in _IN_NETWORK_COLLECTIVES or domain_count(scenario, system) == 1 or system.nics is None:
        return False
    # All-gather and reduce-scatter need a NIC for each GPU (src/graph/tuning.cc: nHeads).
    return scenario.collective == "all_reduce" or domain_ranks(scenario, system) <= system.nics.count


def _in_network_limit(scenario: Scenario, system: System, nics: Nics) -> Limit:
    """Makes the limit of the NICs of a network that reduces."""
    if scenario.collective == "all_reduce":
        traffic = 1 / collectives()["all_reduce"].bus_factor_of(scenario.ranks)
        reason = "the network reduces: a node sends its data once and receives the sum once"
    else:
        traffic = (scenario.ranks - domain_ranks(scenario, system)) / (scenario.ranks - 1)
        reason = "the network reduces or copies: only the parts of other nodes cross a node's NICs, each once"
    return inter_domain_limit(scenario, system, nics, traffic, reason)


def _collnet_route(scenario: Scenario, system: System, nics: Nics, fabric: Fabric | None) -> Route:
    """Makes the route on which the network reduces, and the GPUs of a node exchange slices directly."""
    domain_size = domain_ranks(scenario, system)
    limits = [_in_network_limit(scenario, system, nics)]
    if fabric is not None:
        # For S bytes, d ranks per domain and n ranks the links carry S (d-1)/d, where busbw counts S (n-1)/n. For
        # all-reduce both are twice that.
        traffic = (domain_size - 1) / domain_size / ((scenario.ranks - 1) / scenario.ranks)
        reason = "each GPU exchanges slices with the others of its node"
        limits.insert(0, intra_domain_limit(scenario, system, fabric, traffic, reason))
    within_us = 2 * (_COLLNET_US + (domain_size - 1) * _COLLNET_RANK_US) if domain_size > 1 else 0.0
    return Route(
        name="CollNet",
        limits=tuple(limits),
        efficiency=COLLNET,
        latency_us={"Simple": within_us + _COLLNET_NET_US},
        share={"Simple": 1.0},
        source=_TUNING_SOURCE,
    )


def _nvls_routes(scenario: Scenario, system: System, fabric: Fabric | None, domains: int) -> list[Route]:
    """Makes the routes on which the NVLink switch reduces: NVLS on one domain, NVLSTree on several.

    NVLS on several domains too if the network reduces. Empty if the switch cannot reduce.
    """
    domain_size = domain_ranks(scenario, system)
    if system.nvls is None or not scenario.nvls or domain_size < system.nvls.from_ranks.value:
        return []
    # The switch belongs to the first fabric of the system.
    if fabric is None or fabric.kind != "NVLink" or fabric is not system.fabrics[0]:
        return []
    # Each GPU sends its data once and receives the sum once, plus 1/d of both for the slice that it manages, with
    # d ranks per domain. That is S (1 + 1/d) each way for S bytes and n ranks; busbw counts 2 S (n-1)/n.
    traffic = (1 + 1 / domain_size) / (2 * (scenario.ranks - 1) / scenario.ranks)
    link_limit = intra_domain_limit(
        scenario, system, fabric, traffic, "the switch reduces: each GPU sends its data once and receives the sum once"
    )
    limit = Limit(
        wire=link_limit.wire,
        per="GPU",
        capacity_gbps=link_limit.capacity_gbps * system.nvls.efficiency.value,
        traffic=traffic,
        why=f"{link_limit.why[:-1]} x {system.nvls.efficiency.value:g})",
        source=f"{link_limit.source}; {system.nvls.efficiency.source}",
    )
    if domains == 1:
        efficiency = NVLS if domain_size <= _MAX_NODE_GPUS else NVLS_RACK
        return [_nvls_route("NVLS", (limit,), efficiency, _NVLS_US)]
    node_efficiency = TREE_PAIR if domains == 2 else TREE_NET
    efficiency = node_efficiency if domain_size <= _MAX_NODE_GPUS else NVLS_RACK
    step_us = _NVLS_NET_US + (_step_between_domains_us("Tree", "Simple", system) - _STEP_US["NIC"]["Tree"]["Simple"])
    latency_us = _NVLS_US + 2 * int(math.log2(domains)) * step_us
    routes = [_nvls_route("NVLSTree", (limit, _tree_nic_limit(scenario, system, domains)), efficiency, latency_us)]
    if system.nics is not None and system.nics.sharp:
        limits = (limit, _in_network_limit(scenario, system, system.nics))
        routes.append(_nvls_route("NVLS", limits, NVLS_SHARP, _NVLS_US + _NVLS_SHARP_NET_US))
    return routes


def _nvls_route(name: str, limits: tuple[Limit, ...], efficiency: Efficiency, latency_us: float) -> Route:
    return Route(
        name=name,
        limits=limits,
        efficiency=efficiency,
        latency_us={"Simple": latency_us},
        share={"Simple": 1.0},
        source=_TUNING_SOURCE,
    )


def _hypercube_traffic(scenario: Scenario, domain_size: int, links_within: list[Limit]) -> tuple[float, float]:
    """Returns the traffic on a GPU's NICs, in GB per GB of busbw, and the seconds per GB of the steps within a domain.

    Each of n ranks receives n - 1 parts. Step k swaps 2^k parts between ranks that differ in bit k of their number.
    These ranks are in one domain if 2^(k+1) divides the number of ranks per domain. Let b be the largest power of two
    that divides this number: then b - 1 parts stay within the domain, and n - b parts cross NICs.
    """
    aligned_ranks = domain_size & -domain_size
    traffic = (scenario.ranks - aligned_ranks) / (scenario.ranks - 1)
    links_gbps = min((limit.busbw_gbps for limit in links_within), default=math.inf)
    return traffic, (1 - traffic) / links_gbps


def _pairwise_route(scenario: Scenario, system: System, fabric: Fabric | None, domains: int) -> Route:
    """Makes the route of collectives that consist of point-to-point transfers. Each GPU uses its share of the NICs."""
    limits: list[Limit] = []
    if fabric is not None:
        limits.append(intra_domain_limit(scenario, system, fabric, 1.0, "every byte of busbw crosses the GPU's links"))
    if domains > 1 and system.nics is not None:
        limits.append(_pairwise_nic_limit(scenario, system, system.nics, limits))
    return Route(
        name="Pairwise",
        limits=tuple(limits),
        efficiency=_pairwise_efficiency(scenario, fabric, domains),
        latency_us=_pairwise_latency_us(scenario, system, fabric, domains),
        share={"LL": 0.5, "Simple": 1.0},
        cap_gbps=_ll_cap_gbps(system, domains),
        source=_TUNING_SOURCE,
    )


def _pairwise_nic_limit(scenario: Scenario, system: System, nics: Nics, links_within: list[Limit]) -> Limit:
    """Makes the limit of one GPU's share of the NICs. `links_within`: limits of the links within a domain."""
    domain_size = domain_ranks(scenario, system)
    capacity_gbps = nics_gbps(scenario, system, nics) / domain_size
    reason = "each GPU's share of the NICs carries its data for other nodes"
    if scenario.collective in ("sendrecv", "gather", "scatter"):
        capacity_gbps = max(capacity_gbps, one_nic_gbps(scenario, nics))
        reason = "one GPU of a node sends to others or receives from them, through its own NIC"
    traffic = 1.0 if scenario.collective == "sendrecv" else (scenario.ranks - domain_size) / (scenario.ranks - 1)
    outside_s_per_gb = 0.0
    if scenario.collective == "hypercube":
        traffic, outside_s_per_gb = _hypercube_traffic(scenario, domain_size, links_within)
        reason += ", in steps that wait for each other"
    return Limit(
        wire="NIC",
        per="GPU",
        capacity_gbps=capacity_gbps,
        traffic=traffic,
        outside_s_per_gb=outside_s_per_gb,
        why=f"{reason} ({nics_text(scenario, system, nics)})",
        source=inter_domain_limit(scenario, system, nics, 1.0, "").source,
    )


def _pairwise_efficiency(scenario: Scenario, fabric: Fabric | None, domains: int) -> Efficiency:
    if domains == 1 and fabric is not None and fabric.kind == "PCIe":
        return PCIE
    if scenario.collective == "hypercube":
        return HYPERCUBE
    return PAIRWISE if domains == 1 else NET_RING


def _pairwise_latency_us(
    scenario: Scenario, system: System, fabric: Fabric | None, domains: int
) -> dict[Protocol, float]:
    """Returns the latency of one step, plus the CPU time to post messages to ranks in other domains."""
    remote_peers = 0
    if domains > 1:
        remote_peers = 1 if scenario.collective == "sendrecv" else scenario.ranks - domain_ranks(scenario, system)
    posts_per_peer: dict[Protocol, int] = {"LL": 1, "Simple": 3}
    latency_us: dict[Protocol, float] = {}
    for protocol, posts in posts_per_peer.items():
        latency_us[protocol] = _BASE_US["Ring"][protocol] + _step_within_domain_us("Ring", protocol, fabric)
        if remote_peers:
            network_us = _step_between_domains_us("Ring", protocol, system)
            latency_us[protocol] += network_us + posts * _POST_US * remote_peers
    return latency_us
