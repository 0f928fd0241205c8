"""Makes the route of collectives that consist of point-to-point transfers, such as alltoall and sendrecv.

A domain is a node, or a rack with nodes that NVLink joins.
"""

import math

from busbw.expect.limits import (
    domain_ranks,
    intra_domain_limit,
    nic_source,
    nics_gbps,
    nics_text,
    one_nic_gbps,
)
from busbw.expect.nccl_constants import (
    BASE_US,
    NET_RING,
    PCIE,
    ll_cap_gbps,
    step_between_domains_us,
    step_within_domain_us,
)
from busbw.expect.pairs import Pair, find_pair
from busbw.expect.types import Efficiency, Limit, Protocol, Route, Scenario
from busbw.system import Fabric, Nics, System

PAIRWISE = Efficiency(
    low=0.85, typical=0.95, high=1.03, source="published plateaus of alltoall, gather, scatter and sendrecv on H200"
)
HYPERCUBE = Efficiency(
    low=0.6, typical=0.8, high=0.95, source="published hypercube plateaus on H200: 0.65 of it (8 GPUs), 0.88 (4 GPUs)"
)
_POST_US = 1.0
"""CPU time for each message that is posted to a NIC."""


def pairwise_route(scenario: Scenario, system: System, fabric: Fabric | None, domains: int) -> Route:
    """Makes the route of collectives that consist of point-to-point transfers. Each GPU uses its share of the NICs."""
    limits: list[Limit] = []
    if fabric is not None:
        limits.append(intra_domain_limit(scenario, system, fabric, 1.0, "the rate on each GPU's links is busbw"))
    if domains > 1 and system.nics is not None:
        limits.append(_pairwise_nic_limit(scenario, system, system.nics, limits))
    pair = find_pair(scenario, system, fabric)
    return Route(
        name="Pairwise",
        limits=tuple(limits),
        efficiency=_pairwise_efficiency(scenario, fabric, domains, pair),
        fractions=pair.fractions if pair else (),
        latency_us=_pairwise_latency_us(scenario, system, fabric, domains),
        share={"LL": 0.5, "Simple": 1.0},
        cap_gbps=ll_cap_gbps(system, domains),
    )


def _pairwise_nic_limit(scenario: Scenario, system: System, nics: Nics, links_within: list[Limit]) -> Limit:
    """Makes the limit of one GPU's share of the NICs. `links_within`: limits of the links within a domain."""
    domain_size = domain_ranks(scenario, system)
    capacity_gbps = nics_gbps(scenario, system, nics) / domain_size
    reason = "each GPU's share of the NICs carries its data for other nodes"
    if scenario.collective in ("sendrecv", "gather", "scatter"):
        capacity_gbps = max(capacity_gbps, one_nic_gbps(scenario, nics))
        reason = "one GPU of a node sends to others or receives from them, through its own NIC"
    # Share of a rank's peers in other domains. The only peer of a rank in sendrecv may be in another domain.
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
        source=nic_source(nics),
    )


def _hypercube_traffic(scenario: Scenario, domain_size: int, links_within: list[Limit]) -> tuple[float, float]:
    """Returns the traffic on a GPU's NICs, and `Limit.outside_s_per_gb`, because of the steps within a domain.

    Each of n ranks receives n - 1 parts. Step k swaps 2^k parts between ranks that differ in bit k of their number.
    These ranks are in one domain if 2^(k+1) divides the number of ranks per domain. Let b be the largest power of two
    that divides this number: then b - 1 parts stay within the domain, and n - b parts cross NICs.

    Example: of 16 ranks in domains of 8, b is 8. Steps 0 to 2 move 1 + 2 + 4 = 7 parts, and step 3 moves 8 over NICs.
    """
    aligned_ranks = domain_size & -domain_size  # b, the lowest set bit of the number of ranks per domain
    traffic = (scenario.ranks - aligned_ranks) / (scenario.ranks - 1)
    links_gbps = min((limit.busbw_gbps for limit in links_within), default=math.inf)
    return traffic, (1 - traffic) / links_gbps


def _pairwise_efficiency(scenario: Scenario, fabric: Fabric | None, domains: int, pair: Pair | None) -> Efficiency:
    if domains == 1 and fabric is not None and fabric.kind == "PCIe":
        return PCIE
    if scenario.collective == "hypercube":
        return HYPERCUBE
    if domains > 1:
        return NET_RING  # named after the ring, but its figures are rates of NICs
    return pair.efficiency if pair else PAIRWISE


def _pairwise_latency_us(
    scenario: Scenario, system: System, fabric: Fabric | None, domains: int
) -> dict[Protocol, float]:
    """Returns the latency of one step, plus the CPU time to post messages to ranks in other domains."""
    remote_peers = 0
    if domains > 1:
        remote_peers = 1 if scenario.collective == "sendrecv" else scenario.ranks - domain_ranks(scenario, system)
    posts_per_peer: dict[Protocol, int] = {"LL": 1, "Simple": 3}  # the model has no LL128 here
    latency_us: dict[Protocol, float] = {}
    for protocol, posts in posts_per_peer.items():
        latency_us[protocol] = BASE_US["Ring"][protocol] + step_within_domain_us("Ring", protocol, fabric)
        if remote_peers:
            network_us = step_between_domains_us("Ring", protocol, system)
            latency_us[protocol] += network_us + posts * _POST_US * remote_peers
    return latency_us
