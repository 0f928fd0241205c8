"""Computes the limits of busbw on each type of link: its capacity and the traffic of a collective on it.

A domain is a node, or a rack with nodes that NVLink joins. A fabric is the links that join the ranks of a domain.
NICs join the domains. Traffic is the GB/s on a link for each GB/s of busbw.
"""

import math

from busbw.expect.types import Limit, Scenario
from busbw.system import Fabric, Nics, System

NIC_GBPS_PER_100_GBIT = 12.0
"""Bandwidth of a NIC in GB/s per 100 Gb/s of its rate, by NCCL's model."""
_NIC_SOURCE = "NCCL src/graph/topo.h: NET_BW, 12 GB/s for each 100 Gb/s"


def nic_source(nics: Nics) -> str:
    """Returns both sources: of the model's bandwidth per rate (Gb/s), and of the rate of these NICs."""
    return f"{_NIC_SOURCE}; {nics.source}"


def domain_ranks(scenario: Scenario, system: System) -> int:
    """Number of ranks in one domain, which reach each other without a NIC."""
    return min(scenario.ranks, system.rack_ranks or scenario.ranks_per_node)


def domain_count(scenario: Scenario, system: System) -> int:
    """Number of domains that the ranks occupy. `Expectation.nodes` is this number, although a domain can be a rack."""
    return math.ceil(scenario.ranks / domain_ranks(scenario, system))


def fastest_fabric(ranks: int, system: System) -> Fabric | None:
    """Returns the fastest fabric that joins this number of ranks of a domain. None if no fabric does."""
    return next((fabric for fabric in system.fabrics if fabric.most_ranks >= ranks), None)  # the fastest is first


def nics_gbps(scenario: Scenario, system: System, nics: Nics) -> float:
    """Bandwidth of the NICs that a scenario uses in one domain, in one direction, in GB/s.

    Each rank uses its share of its node's NICs. The ranks of a domain together use at least one NIC. Several groups
    share all NICs of the domain equally.
    """
    ranks = domain_ranks(scenario, system)
    used_nics = max(1.0, nics.count * ranks / system.ranks_per_node)  # 4 of 8 ranks of a node use 4 of its 8 NICs
    if scenario.groups > 1:
        domain_nodes = max(1.0, ranks / system.ranks_per_node) if system.rack_ranks else 1.0
        used_nics = min(used_nics, nics.count * domain_nodes / scenario.groups)
    return used_nics * nics.gbit / 100 * NIC_GBPS_PER_100_GBIT


def intra_domain_limit(scenario: Scenario, system: System, fabric: Fabric, traffic: float, reason: str) -> Limit:
    """Makes the limit of the links between the ranks of a domain.

    Args:
        scenario: Collective and ranks.
        system: System of the ranks.
        fabric: Links of the domain.
        traffic: GB/s on the links of one GPU for each GB/s of busbw.
        reason: Explanation of the traffic.
    """
    links = fabric.links  # of one rank; in a mesh, to each other rank of the domain
    if fabric.layout == "mesh":
        links *= domain_ranks(scenario, system) - 1
    return Limit(
        wire=fabric.kind,
        per="GPU",
        capacity_gbps=links * fabric.link_gbps.value,
        traffic=traffic,
        why=f"{reason} ({links} x {fabric.link_gbps.value:g} GB/s)",
        source=fabric.link_gbps.source,
    )


def inter_domain_limit(scenario: Scenario, system: System, nics: Nics, traffic: float, reason: str) -> Limit:
    """Makes the limit of all NICs of one domain together. `traffic`: GB/s on these NICs for each GB/s of busbw."""
    return Limit(
        wire="NIC",
        per="node",  # also if the domain is a rack (`Limit.per`)
        capacity_gbps=nics_gbps(scenario, system, nics),
        traffic=traffic,
        why=f"{reason} ({nics_text(scenario, system, nics)})",
        source=nic_source(nics),
    )


def one_nic_gbps(scenario: Scenario, nics: Nics) -> float:
    """Bandwidth of one NIC for one group, in one direction, in GB/s. More groups than NICs share the NICs."""
    return min(1.0, nics.count / scenario.groups) * nics.gbit / 100 * NIC_GBPS_PER_100_GBIT


def nics_text(scenario: Scenario, system: System, nics: Nics) -> str:
    """Text of a node's NICs and of the groups that share them."""
    shared = f", shared by {scenario.groups} groups" if scenario.groups > 1 else ""
    return f"{nics.text} per {system.ranks_per_node} GPUs{shared}"
