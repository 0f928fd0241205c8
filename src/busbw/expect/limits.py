"""What each wire allows: how many bytes of a collective cross it, and how many it carries."""

from busbw.expect.types import Limit, Scenario
from busbw.system import Fabric, Nics, System

NIC_GBPS_PER_100_GBIT = 12.0
NIC_SOURCE = "NCCL src/graph/topo.h: NET_BW, 12 GB/s for each 100 Gb/s"

RING_COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
"""The library runs these as rings; the others are made of single sends."""


COLLECTIVES = (*RING_COLLECTIVES, "alltoall", "alltoallv", "gather", "scatter", "sendrecv", "hypercube")
"""Those whose traffic is known; of any other nothing is expected."""


def domain_ranks(job: Scenario, system: System) -> int:
    """The ranks that meet without a NIC: those of a node, or of a rack that NVLink joins."""
    return min(job.ranks, system.rack_ranks or job.ranks_per_node)


def node_count(job: Scenario, system: System) -> int:
    """How many such groups there are."""
    return -(-job.ranks // domain_ranks(job, system))


def fabric_of(ranks: int, system: System) -> Fabric | None:
    """The fastest fabric that joins so many ranks."""
    return next((fabric for fabric in system.fabrics if fabric.most_ranks >= ranks), None)


def fabric_gbps(fabric: Fabric, ranks: int) -> float:
    """What one rank gets into its links, one way, when so many ranks take part."""
    links = fabric.links * (ranks - 1) if fabric.layout == "mesh" else fabric.links
    return links * fabric.link_gbps.value


def nics_gbps(job: Scenario, system: System, nics: Nics) -> float:
    """What the NICs of a job's ranks of one domain carry, one way: their share of the node's.

    It is one NIC at least, unless there are more groups than NICs.
    """
    used = max(1.0, nics.count * domain_ranks(job, system) / system.ranks_per_node)
    if job.groups > 1:
        used = min(used, nics.count / job.groups)
    return used * nics.gbit / 100 * NIC_GBPS_PER_100_GBIT


def intra_domain_limit(job: Scenario, system: System, fabric: Fabric, traffic: float, why: str) -> Limit:
    """The limit of the links between the ranks of a domain."""
    ranks = domain_ranks(job, system)
    links = fabric.links * (ranks - 1) if fabric.layout == "mesh" else fabric.links
    counted = f"{links} x {fabric.link_gbps.value:g} GB/s"
    return Limit(
        wire=fabric.kind,
        per="GPU",
        capacity_gbps=fabric_gbps(fabric, ranks),
        traffic=traffic,
        why=f"{why} ({counted})",
        source=fabric.link_gbps.source,
    )


def inter_node_limit(job: Scenario, system: System, nics: Nics, traffic: float, why: str) -> Limit:
    """The limit of the NICs of one node, all together."""
    return Limit(
        wire="NIC",
        per="node",
        capacity_gbps=nics_gbps(job, system, nics),
        traffic=traffic,
        why=f"{why} ({nics_text(job, system, nics)})",
        source=f"{NIC_SOURCE}; {nics.source}",
    )


def one_nic_gbps(job: Scenario, nics: Nics) -> float:
    """What one NIC carries, one way, or what is left of it to each of more groups than NICs."""
    return min(1.0, nics.count / job.groups) * nics.gbit / 100 * NIC_GBPS_PER_100_GBIT


def nics_text(job: Scenario, system: System, nics: Nics) -> str:
    """What the NICs of a node are, and who shares them."""
    shared = f", shared by {job.groups} groups" if job.groups > 1 else ""
    return f"{nics.text} per {system.ranks_per_node} GPUs{shared}"


def bus_factor(collective: str, ranks: int) -> float:
    """What busbw is of bytes / time, as docs/measuring.md derives it.

    It is busbw / algbw too, but for hypercube: there nccl-tests has taken the share (n-1)/n into algbw itself.
    """
    if collective == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if collective in ("broadcast", "reduce", "sendrecv"):
        return 1.0
    return (ranks - 1) / ranks
