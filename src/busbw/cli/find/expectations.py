"""Comparison with `expect`: the cost of a finding, and the rate of all flows.

If all parts are equally slow, a comparison with peers finds nothing.
"""

from collections.abc import Sequence

import numpy as np

from busbw.expect import Scenario, expect, with_nics
from busbw.find.cluster import Cluster
from busbw.find.findings import Finding, UndecidedParts
from busbw.find.power import KindPower
from busbw.find.search import Search
from busbw.system import System

_COST_SIZE_BYTES = 1 << 30
_MIN_RATIO = 0.7
"""Healthy flows of 64 MiB reach more than this part of the rate of a NIC (400 Gb/s: 46 to 49 of 50 GB/s)."""
_MIN_SIZE_BYTES = 1 << 24
"""Size of a flow from which the rate of the links determines its time."""
_MIN_POWER = 0.5
"""Minimum chance to find a slow part, so that a kind of part counts as compared."""


def doubts_of_all_flows(search: Search, system: System | None, power: Sequence[KindPower]) -> list[UndecidedParts]:
    """Returns an entry for the network and for the links within nodes if all flows over them are slow.

    Returns one entry if nothing was compared, neither with peers nor with an expected rate.
    """
    doubts, is_compared = [], any(one.found >= _MIN_POWER for one in power)
    for place, is_network, expected_of, remedy in (
        ("between nodes", True, _network_gbps, "Measure two of the nodes with a third one."),
        ("within nodes", False, _nvlink_gbps, "Measure another machine of this type."),
    ):
        rate_gbps = healthy_rate_gbps(search, is_network=is_network)
        expected_gbps = None if system is None or rate_gbps is None else expected_of(search, system)
        if system is None or rate_gbps is None or expected_gbps is None:
            continue
        is_compared = True
        if rate_gbps < _MIN_RATIO * expected_gbps:
            says = (
                f"All flows {place} reach {rate_gbps:.3g} of the expected {expected_gbps:.3g} GB/s ({system.name}): "
                f"their links are slow, or a setting that they share. {remedy}"
            )
            doubts.append(UndecidedParts(between=(), slowdown=round(expected_gbps / rate_gbps, 2), says=says))
    if not is_compared:
        says = "Too few parts to compare them with their peers. Measure more of them, or name the system (--system)."
        doubts.append(UndecidedParts(between=(), slowdown=None, says=says))
    return doubts


def _network_gbps(search: Search, system: System) -> float | None:
    """Returns the rate of a NIC in GB/s. None if it is unknown, or if the flows are too small to reach it."""
    is_large = _pair_bytes(search) >= _MIN_SIZE_BYTES
    return system.nics.gbit / 8 if system.nics is not None and is_large else None


def _nvlink_gbps(search: Search, system: System) -> float | None:
    """Returns the expected rate of a GPU that sends and receives within its node. None if the rate is unknown."""
    size_bytes = _pair_bytes(search)
    scenario = Scenario(collective="sendrecv", ranks=2, ranks_per_node=2)
    estimate = expect(scenario, system, [size_bytes]).at(size_bytes) if system.fabrics else None
    return estimate.busbw_gbps.typical if estimate is not None else None


def _pair_bytes(search: Search) -> int:
    """Returns the smallest size of a flow between two disjoint GPUs."""
    return min(one.size_bytes for one in search.rounds if not one.load.has_hubs)


def healthy_rate_gbps(search: Search, *, is_network: bool) -> float | None:
    """Returns the rate of healthy flows between or within nodes in GB/s.

    None if no such flow was measured, or if the GPUs have several types and therefore no common rate.
    """
    if len(search.measurer.cluster.gpu_types) > 1:
        return None
    observed, explanation = search.observations(), search.explain()
    chosen = (observed.paths.is_network == is_network) & ~observed.is_dead
    # At full load on hashed uplinks, healthy flows are slow as well. A hub can have more links than a pair.
    chosen &= ~(observed.paths.is_across | observed.paths.is_hub)
    references = explanation.peers.reference[chosen]
    # The reference is the log of microseconds per byte.
    return float(np.exp(-np.median(references)) / 1e3) if len(references) else None


def cost_sentence(finding: Finding, cluster: Cluster, system: System | None) -> str:
    """Returns the expected times of a 1 GiB all-reduce over all GPUs. Empty if the times are unknown.

    A ring is as slow as its slowest link, so the prediction reduces the rate of all NICs by the slow-down.
    """
    gpus = int(cluster.node_gpus[0])
    is_uniform = (cluster.node_gpus == gpus).all()
    if finding.dead:
        return "Cost: an all-reduce over all nodes fails or hangs."
    if system is None or system.nics is None or finding.kind == "nvlink":
        return ""
    if finding.slowdown is None or finding.intermittent or not is_uniform or len(cluster.nodes) < 2:
        return ""
    scenario = Scenario(collective="all_reduce", ranks=len(cluster.gpu_node), ranks_per_node=gpus)
    slow_gbit = system.nics.gbit / finding.slowdown
    slow_system = with_nics(system, system.nics.count, slow_gbit, "rate of the slow part")
    healthy, slow = (expect(scenario, one, [_COST_SIZE_BYTES]).at(_COST_SIZE_BYTES) for one in (system, slow_system))
    if healthy is None or slow is None:
        return ""
    return (
        f"Cost: a 1 GiB all-reduce over {scenario.ranks:,} GPUs is expected to take "
        f"{slow.time_us.typical / 1e3:.1f} ms, and {healthy.time_us.typical / 1e3:.1f} ms without the fault "
        f"({system.name})."
    )
