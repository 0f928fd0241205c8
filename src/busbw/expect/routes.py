"""Lists the routes of a scenario: each algorithm with its links, latency and protocols, after NCCL's cost model.

A domain is a node, or a rack with nodes that NVLink joins. Data cross a fabric within a domain, and NICs between
domains.

NCCL chooses algorithm and protocol by estimated time: latency of the steps + bytes / bandwidth. The constants are those
of its src/graph/tuning.cc (2.18 to 2.28), so the estimates follow NCCL's own choices.
"""

import math

import msgspec

from busbw.collectives import collectives
from busbw.expect.limits import (
    domain_count,
    domain_ranks,
    fastest_fabric,
    inter_domain_limit,
    intra_domain_limit,
)
from busbw.expect.nccl_constants import (
    BASE_US,
    NET_RING,
    PCIE,
    ll_cap_gbps,
    nic_latency_us,
    step_between_domains_us,
    step_within_domain_us,
    usable_protocols,
)
from busbw.expect.pairs import Pair, find_pair
from busbw.expect.pairwise import pairwise_route
from busbw.expect.types import TUNING_SOURCE, Efficiency, Limit, Protocol, Route, Scenario
from busbw.system import Fabric, Nics, SourcedValue, System

# Fractions of their limits that routes reach, as in nccl_constants.py. In the sources, "it" is the limit of the route.
RING = Efficiency(
    low=0.92,
    typical=0.97,
    high=1.02,
    source="published ring plateaus are 0.95 to 0.99 of it: A100 231-235 of 240, H200 367 of 371, B200 682-695 of 722",
)
NVLS = Efficiency(
    low=0.93, typical=1.0, high=1.06, source="published NVLS plateaus are -4 to +2 % of it: H200, H100, B200, B300"
)
"""For NVLS in a node: the NVLink switch reduces."""
NVLS_RACK = Efficiency(
    low=0.78,
    typical=0.85,
    high=0.95,
    source="published racks stay at 0.8 to 0.9 of the formula: GB200 72 GPUs 820 to 850, GB300 64 GPUs 932",
)
"""For NVLS and NVLSTree in domains larger than a node."""
TREE_PAIR = Efficiency(
    low=0.72,
    typical=0.92,
    high=1.0,
    source=f"{TUNING_SOURCE}: a tree reaches 0.92; published 2-node plateaus spread from 0.74 to 0.96 of it",
)
"""For NVLSTree on two domains: NVLS in each domain, and a tree between them."""
TREE_NET = Efficiency(low=0.75, typical=0.92, high=1.0, source=f"{TUNING_SOURCE}: a tree reaches 0.92")
"""For NVLSTree on more domains, and for Tree."""
NVLS_SHARP = Efficiency(
    low=0.66, typical=0.7, high=1.0, source="published: 8 x 8 H100 with InfiniBand SHARP reach 386 of 551"
)
"""For NVLS between domains: switch and network reduce (SHARP)."""
COLLNET = Efficiency(
    low=0.85, typical=0.92, high=1.0, source="published: 8 x 8 H100 with InfiniBand SHARP reach 386 of 417"
)
"""For CollNet: the network reduces (SHARP)."""

_NVLS_US = 23.0
"""Latency of NVLS within a domain."""
_NVLS_NET_US = 14.0
"""Latency of each step of NVLSTree between domains."""
_NVLS_SHARP_NET_US = 18.0
"""Latency of a network that reduces, for NVLS."""
_COLLNET_US = 3.7
"""Latency of CollNet within a domain, one way."""
_COLLNET_RANK_US = 0.4
"""Latency of CollNet for each further rank of a domain, one way."""
_COLLNET_NET_US = 31.0
"""Latency of a network that reduces, for CollNet."""
# Factor on the bandwidth of a tree at 64 B, 128 B, 256 B, ...: at medium sizes its chunks do not fill the pipeline.
_TREE_CORRECTION: dict[Protocol, tuple[float, ...]] = {
    "LL": (1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1),
    "LL128": (1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.5, 0.6, 0.6, 0.7, 0.7, 0.8, 0.9, 0.9, 1),
    "Simple": (
        0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.6, 0.6, 0.7, 0.8, 0.9,
    ),
}  # fmt: skip
_MAX_NODE_GPUS = 8
"""Maximum number of GPUs of a node. Larger domains are racks, for which NCCL has no CollNet."""
_IN_NETWORK_COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter")
"""Collectives for which NCCL uses a network that reduces (src/graph/tuning.cc: CollNet)."""


def list_routes(scenario: Scenario, system: System) -> tuple[Route, ...]:
    """Returns the routes of this model that NCCL may choose. Empty if the links are unknown.

    Newer versions of NCCL have further algorithms. NCCL_ALGO restricts the routes. If no route has its algorithm,
    NCCL_ALGO is ignored.
    """
    domain_size = domain_ranks(scenario, system)
    fabric = fastest_fabric(domain_size, system) if domain_size > 1 else None  # a single rank uses no fabric
    domains = domain_count(scenario, system)
    if domain_size > 1 and fabric is None:
        return ()
    if domains > 1 and system.nics is None:
        return ()
    if not collectives()[scenario.collective].runs_as_ring:
        return (pairwise_route(scenario, system, fabric, domains),)
    available = [_ring_route(scenario, system, fabric, domains)]
    if scenario.collective == "all_reduce":
        available.append(_tree_route(scenario, system, fabric, domains))
        available += _nvls_routes(scenario, system, fabric, domains)
    is_collnet_possible = can_reduce_in_network(scenario, system) and domain_size <= _MAX_NODE_GPUS
    if is_collnet_possible and system.nics is not None and system.nics.sharp:
        available.append(_collnet_route(scenario, system, system.nics, fabric))
    allowed = [route for route in available if scenario.algorithm in (None, route.name.lower())]
    return tuple(allowed or available)


def bandwidth_correction(route: Route, protocol: Protocol, size_bytes: int) -> float:
    """Factor on the bandwidth of a route at a size: `Route.fraction_at`, for trees times NCCL's correction."""
    fraction = route.fraction_at(size_bytes)
    if route.name != "Tree":
        return fraction
    factors = _TREE_CORRECTION[protocol]
    index = max(size_bytes, 64).bit_length() - 7  # 64 to 127 B have index 0, 128 to 255 B have index 1
    return fraction * (factors[index] if index < len(factors) else 1.0)


def _ring_route(scenario: Scenario, system: System, fabric: Fabric | None, domains: int) -> Route:
    limits: list[Limit] = []
    pair = find_pair(scenario, system, fabric)
    if fabric is not None:
        limits.append(
            intra_domain_limit(scenario, system, fabric, 1.0, "in a ring, the rate on each GPU's links is busbw")
        )
    if domains > 1 and system.nics is not None:
        limits.append(
            inter_domain_limit(scenario, system, system.nics, 1.0, "each ring leaves and enters every node once")
        )
    return Route(
        name="Ring",
        limits=tuple(limits),
        efficiency=_ring_efficiency(limits, domains, pair),
        fractions=pair.fractions if pair else (),
        latency_us=_ring_latency_us(scenario, system, fabric, domains),
        share={"LL": 0.5, "LL128": 0.92, "Simple": 1.0},
        cap_gbps=ll_cap_gbps(system, domains),
    )


def _ring_latency_us(scenario: Scenario, system: System, fabric: Fabric | None, domains: int) -> dict[Protocol, float]:
    """Returns the latency of all steps by protocol. The step counts are those of NCCL's model (src/graph/tuning.cc).

    A crossing is a step to another domain. A broadcast or reduce is one pipeline: only its crossings add up, and
    without a crossing it counts as one step.
    """
    if scenario.collective == "all_reduce":
        step_count, crossing_count = 2 * (scenario.ranks - 1), 2 * domains
    elif scenario.collective in ("broadcast", "reduce"):
        step_count, crossing_count = 1, domains
    else:
        step_count, crossing_count = scenario.ranks - 1, domains - 1
    if domains == 1:
        crossing_count = 0
    steps_within = max(0, step_count - crossing_count)
    return {
        protocol: BASE_US["Ring"][protocol]
        + steps_within * step_within_domain_us("Ring", protocol, fabric)
        + crossing_count * step_between_domains_us("Ring", protocol, system)
        for protocol in usable_protocols(system, fabric)
    }


def _ring_efficiency(limits: list[Limit], domains: int, pair: Pair | None) -> Efficiency:
    """Returns the efficiency of the links that limit the ring: PCIe, the network, or NVLink."""
    limiting_link = min(limits, key=lambda limit: limit.busbw_gbps)
    if limiting_link.wire == "PCIe":
        return PCIE
    # With several domains, all links wait for the network, also if NVLink is the limit.
    if domains > 1:
        return NET_RING
    return pair.efficiency if pair else RING


def _tree_efficiency(fabric: Fabric | None, domains: int, pair: Pair | None) -> Efficiency:
    """Returns the efficiency of PCIe if PCIe joins the only domain, of a measured pair of GPUs, or of a tree."""
    if domains == 1 and fabric is not None and fabric.kind == "PCIe":
        return PCIE
    return pair.efficiency if pair else TREE_NET


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
    pair = find_pair(scenario, system, fabric)
    latency_us: dict[Protocol, float] = {}
    for protocol in usable_protocols(system, fabric):
        # Data go along the chain of a domain, then up the tree of domains. The result takes the same steps back.
        chain_us = (domain_size - 1) * step_within_domain_us("Tree", protocol, fabric)
        tree_us = int(math.log2(domains)) * step_between_domains_us("Tree", protocol, system)
        latency_us[protocol] = BASE_US["Tree"][protocol] + 2 * (chain_us + tree_us)
    return Route(
        name="Tree",
        limits=tuple(limits),
        efficiency=_tree_efficiency(fabric, domains, pair),
        fractions=pair.fractions if pair else (),
        latency_us=latency_us,
        share={"LL": 1 / 3.8, "LL128": 7 / 9 if domains == 1 else 120 / 128, "Simple": 1.0},
        cap_gbps=ll_cap_gbps(system, domains),
    )


def _tree_nic_limit(scenario: Scenario, system: System, domains: int) -> Limit:
    """Makes the limit of the NICs for a tree of domains. `system` must have NICs."""
    assert system.nics is not None
    if domains == 2:
        reason = "between two nodes, a tree sends S bytes each way, where busbw counts 2 S (n-1)/n for n ranks"
        return inter_domain_limit(scenario, system, system.nics, _one_pass_traffic(scenario), reason)
    return inter_domain_limit(scenario, system, system.nics, 1.0, "a node inside the tree sends up and down")


def _one_pass_traffic(scenario: Scenario) -> float:
    """Traffic (GB/s per GB/s of busbw) on links that carry the data of an all-reduce once in each direction."""
    return 1 / collectives()["all_reduce"].bus_factor_of(scenario.ranks)


def can_reduce_in_network(scenario: Scenario, system: System) -> bool:
    """True if NCCL would use a network that reduces for this scenario. The network itself may not be able to."""
    if scenario.collective not in _IN_NETWORK_COLLECTIVES or domain_count(scenario, system) == 1 or system.nics is None:
        return False
    # All-gather and reduce-scatter need a NIC for each GPU (src/graph/tuning.cc: nHeads).
    return scenario.collective == "all_reduce" or domain_ranks(scenario, system) <= system.nics.count


def _in_network_limit(scenario: Scenario, system: System, nics: Nics) -> Limit:
    """Makes the limit of the NICs of a network that reduces."""
    if scenario.collective == "all_reduce":
        traffic = _one_pass_traffic(scenario)
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
        # For S bytes, d ranks per domain and n ranks, the links carry S (d-1)/d, where busbw counts S (n-1)/n. For
        # all-reduce, both numbers are twice as large.
        traffic = (domain_size - 1) / domain_size / ((scenario.ranks - 1) / scenario.ranks)
        reason = "each GPU exchanges slices with the others of its node"
        limits.insert(0, intra_domain_limit(scenario, system, fabric, traffic, reason))
    within_us = 2 * (_COLLNET_US + (domain_size - 1) * _COLLNET_RANK_US) if domain_size > 1 else 0.0
    return _in_switch_route("CollNet", tuple(limits), COLLNET, within_us + _COLLNET_NET_US)


def _nvls_routes(scenario: Scenario, system: System, fabric: Fabric | None, domains: int) -> list[Route]:
    """Makes the routes on which the NVLink switch reduces. Empty if the switch cannot reduce.

    One domain has the route NVLS. Several domains have NVLSTree, and NVLS too if the network reduces.
    """
    domain_size = domain_ranks(scenario, system)
    if system.nvls is None or not scenario.nvls or domain_size < system.nvls.from_ranks.value:
        return []
    # The switch belongs to the first fabric of the system.
    if fabric is None or fabric.kind != "NVLink" or fabric is not system.fabrics[0]:
        return []
    limit = _nvls_limit(scenario, system, fabric, system.nvls.efficiency)
    if domains == 1:
        efficiency = NVLS if domain_size <= _MAX_NODE_GPUS else NVLS_RACK
        return [_in_switch_route("NVLS", (limit,), efficiency, _NVLS_US)]
    tree_efficiency = TREE_PAIR if domains == 2 else TREE_NET
    efficiency = tree_efficiency if domain_size <= _MAX_NODE_GPUS else NVLS_RACK
    step_us = _NVLS_NET_US + nic_latency_us(system)
    latency_us = _NVLS_US + 2 * int(math.log2(domains)) * step_us
    routes = [_in_switch_route("NVLSTree", (limit, _tree_nic_limit(scenario, system, domains)), efficiency, latency_us)]
    if system.nics is not None and system.nics.sharp:
        limits = (limit, _in_network_limit(scenario, system, system.nics))
        routes.append(_in_switch_route("NVLS", limits, NVLS_SHARP, _NVLS_US + _NVLS_SHARP_NET_US))
    return routes


def _nvls_limit(scenario: Scenario, system: System, fabric: Fabric, efficiency: SourcedValue) -> Limit:
    """Makes the limit of the NVLinks if the switch reduces. `efficiency`: usable fraction of their bandwidth.

    Let S be the bytes of a rank, d the ranks per domain, and n all ranks. Each GPU manages a slice of S/d bytes.

    - Reduction: each GPU sends its S bytes to the switch, and receives the sum of its slice, S/d bytes.
    - Broadcast: each GPU sends the sum of its slice, S/d bytes, and receives the sums of all slices, S bytes.

    Together S (1 + 1/d) bytes go each way, where busbw counts 2 S (n-1)/n.
    """
    traffic = (1 + 1 / domain_ranks(scenario, system)) / (2 * (scenario.ranks - 1) / scenario.ranks)
    reason = "the switch reduces: each GPU sends its data once and receives the sum once"
    link_limit = intra_domain_limit(scenario, system, fabric, traffic, reason)
    return msgspec.structs.replace(
        link_limit,
        capacity_gbps=link_limit.capacity_gbps * efficiency.value,
        why=f"{link_limit.why.removesuffix(')')} x {efficiency.value:g})",  # the capacity is in parentheses at the end
        source=f"{link_limit.source}; {efficiency.source}",
    )


def _in_switch_route(name: str, limits: tuple[Limit, ...], efficiency: Efficiency, latency_us: float) -> Route:
    """Makes a route on which a switch reduces. NCCL uses only the protocol Simple there."""
    return Route(
        name=name, limits=limits, efficiency=efficiency, latency_us={"Simple": latency_us}, share={"Simple": 1.0}
    )
