"""Limits of busbw on each type of link: the traffic of a collective on it, and its capacity."""

from busbw.expect.types import Limit, Scenario
from busbw.system import Fabric, Nics, System

NIC_GBPS_PER_100_GBIT = 12.0
NIC_SOURCE = "NCCL src/graph/topo.h: NET_BW, 12 GB/s for each 100 Gb/s"

RING_COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
"""Collectives that NCCL runs as rings. The others consist of point-to-point transfers."""


COLLECTIVES = (*RING_COLLECTIVES, "alltoall", "alltoallv", "gather", "scatter", "sendrecv", "hypercube")
"""Collectives with known traffic. There is no expectation for others."""


def domain_ranks(job: Scenario, system: System) -> int:
    """Number of ranks in one domain. A domain is a node, or a rack that NVLink joins; it needs no NIC inside."""
    return min(job.ranks, system.rack_ranks or job.ranks_per_node)


def node_count(job: Scenario, system: System) -> int:
    """Number of domains that the ranks occupy."""
    return -(-job.ranks // domain_ranks(job, system))


def fabric_of(ranks: int, system: System) -> Fabric | None:
    """Returns the fastest fabric that joins this number of ranks. None if no fabric does."""
    return next((fabric for fabric in system.fabrics if fabric.most_ranks >= ranks), None)


def fabric_gbps(fabric: Fabric, ranks: int) -> float:
    """Bandwidth of one rank's links in one direction, in GB/s. In a mesh it depends on the number of ranks."""
    links = fabric.links * (ranks - 1) if fabric.layout == "mesh" else fabric.links
    return links * fabric.link_gbps.value


def nics_gbps(job: Scenario, system: System, nics: Nics) -> float:
    """Bandwidth of the NICs that a job uses in one domain, in one direction, in GB/s.

    Ranks use their share of the node's NICs, at least one NIC. With more groups than NICs it can be less.
    """
    used = max(1.0, nics.count * domain_ranks(job, system) / system.ranks_per_node)
    if job.groups > 1:
        used = min(used, nics.count / job.groups)
    return used * nics.gbit / 100 * NIC_GBPS_PER_100_GBIT


def intra_domain_limit(job: Scenario, system: System, fabric: Fabric, traffic: float, reason: str) -> Limit:
    """Makes the limit of the links between the ranks of a domain. `reason` explains the traffic."""
    ranks = domain_ranks(job, system)
    links = fabric.links * (ranks - 1) if fabric.layout == "mesh" else fabric.links
    capacity = f"{links} x {fabric.link_gbps.value:g} GB/s"
    return Limit(
        wire=fabric.kind,
        per="GPU",
        capacity_gbps=fabric_gbps(fabric, ranks),
        traffic=traffic,
        why=f"{reason} ({capacity})",
        source=fabric.link_gbps.source,
    )


def inter_node_limit(job: Scenario, system: System, nics: Nics, traffic: float, reason: str) -> Limit:
    """Makes the limit of all NICs of one node together. `reason` explains the traffic."""
    return Limit(
        wire="NIC",
        per="node",
        capacity_gbps=nics_gbps(job, system, nics),
        traffic=traffic,
        why=f"{reason} ({nics_text(job, system, nics)})",
        source=f"{NIC_SOURCE}; {nics.source}",
    )


def one_nic_gbps(job: Scenario, nics: Nics) -> float:
    """Bandwidth of one NIC in one direction, in GB/s. If there are more groups than NICs, they share it."""
    return min(1.0, nics.count / job.groups) * nics.gbit / 100 * NIC_GBPS_PER_100_GBIT


def nics_text(job: Scenario, system: System, nics: Nics) -> str:
    """Text of a node's NICs and of the groups that share them."""
    shared = f", shared by {job.groups} groups" if job.groups > 1 else ""
    return f"{nics.text} per {system.ranks_per_node} GPUs{shared}"


def bus_factor(collective: str, ranks: int) -> float:
    """Ratio of busbw to bytes / time (derived in docs/measuring.md).

    It equals busbw / algbw, except for hypercube: there nccl-tests includes the factor (n-1)/n in algbw.
    """
    if collective == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if collective in ("broadcast", "reduce", "sendrecv"):
        return 1.0
    return (ranks - 1) / ranks
