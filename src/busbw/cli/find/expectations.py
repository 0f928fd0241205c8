"""Compares the rates of flows with `expect`, and computes the cost of a finding.

A comparison with peers finds nothing if all parts are equally slow. So the typical rate of the flows is also compared
with the rate that `expect` predicts. A hub is a GPU with flows to several other GPUs, or from them, at the same time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from busbw.expect import Scenario, expect, with_nics
from busbw.find.cluster import Cluster
from busbw.find.explanation import is_evidence
from busbw.find.findings import Finding, UndecidedParts
from busbw.find.parts import node_pair_numbers
from busbw.find.peers import MAX_LOAD_EXCESS, MIN_SLOW
from busbw.find.power import KindPower
from busbw.find.rounds import Load
from busbw.find.search import Search
from busbw.system import System

_COST_SIZE_BYTES = 1 << 30
"""Size of the all-reduce for the cost of a finding: its time with the slow part and without."""
_MIN_SHARE_OF_EXPECTED = 0.7
"""Minimum rate of good links, as a share of the expected rate. 64 MiB over 400 Gb/s reach 46 to 49 of 50 GB/s."""
_MIN_PAIRS, _MAX_FAST_SHARE = 3, 0.2
"""Minimum number of pairs of nodes with single flows between leaves, and maximum share of these pairs with a fast flow,
for the conclusion that uplinks are slow. A smaller number could be slow pairs."""
_MIN_FAST_EXCESS, _MIN_FAST_SHARE, _MIN_FAST_NODES = 0.15, 0.005, 2
"""Minimum log of the typical time over that of a fast node or pair of nodes, minimum share of the fast ones, and
minimum number of fast nodes, for the conclusion that most may be slow."""
_MIN_SIZE_BYTES = 1 << 24
"""Minimum size of a flow that reaches the rate of its links. The time of a smaller flow is mostly latency."""


@dataclass(frozen=True, kw_only=True)
class _RateComparison:
    """Measured and expected rate of all links between nodes, or of all links within nodes."""

    place: str
    """Text: "between nodes" or "within nodes"."""
    measured_gbps: float
    expected_gbps: float
    system_name: str
    remedy: str
    """Sentence about the measurement that finds the slow part."""

    @property
    def is_slow(self) -> bool:
        """True if the measured rate is too low for good links."""
        return self.measured_gbps < _MIN_SHARE_OF_EXPECTED * self.expected_gbps

    @property
    def undecided_parts(self) -> UndecidedParts:
        """The entry of the result for slow links. It names no part, because the links have no faster peers."""
        says = (
            f"Typical flows {self.place} reach {self.measured_gbps:.3g} of the expected {self.expected_gbps:.3g} GB/s "
            f"({self.system_name}). The cause is their links, or a setting that all of them share. {self.remedy}"
        )
        return UndecidedParts(between=(), slowdown=round(self.expected_gbps / self.measured_gbps, 2), says=says)


def undecided_flows(search: Search, system: System | None, power: Sequence[KindPower]) -> list[UndecidedParts]:
    """Returns an entry if the typical flow between nodes is slow, and one if the typical flow within nodes is slow.

    Returns one entry if many flows may collide on uplinks of unknown leaves, if all uplinks limit single flows, if some
    flows are faster than the typical ones, or if nothing was compared, neither with peers nor with an expected rate.
    `system`: None if unknown.
    """
    if search.explain().peers.omits_pairs:
        says = (
            "Many flows between nodes are slow without a common part, so they may collide on uplinks. "
            "State the leaf switches of all NICs, for example with --topology, to compare flows without collisions."
        )
        return [UndecidedParts(between=(), slowdown=None, says=says)]
    unlike = [*_limited_uplinks(search), *_fast_minority(search)]
    comparisons = [] if system is None else list(_rate_comparisons(search, system))
    is_compared_with_peers = any(kind.is_compared for kind in power)
    if not comparisons and not is_compared_with_peers and not unlike:
        says = "Too few parts to compare them with their peers. Measure more of them, or name the system (--system)."
        return [UndecidedParts(between=(), slowdown=None, says=says)]
    return [*unlike, *(comparison.undecided_parts for comparison in comparisons if comparison.is_slow)]


def _limited_uplinks(search: Search) -> list[UndecidedParts]:
    """Returns an entry if single flows between leaves are slower than flows within them, for most pairs of nodes."""
    explanation, observed = search.explain(), search.observations()
    peers, pairs = explanation.peers, node_pair_numbers(observed.paths)
    is_alone = observed.paths.is_across & (observed.load == int(Load.SPARSE)) & ~observed.is_dead
    is_alone &= explanation.explained < MIN_SLOW
    excess = 0.0
    for class_number in np.unique(observed.classes[is_alone]):
        flows = np.flatnonzero(is_alone & (observed.classes == class_number))
        distinct_pairs, pair_of_flow = np.unique(pairs[flows], return_inverse=True)
        fastest = np.full(len(distinct_pairs), np.inf)
        np.minimum.at(fastest, pair_of_flow, peers.excess[flows] + peers.load_excess[class_number])
        if len(fastest) >= _MIN_PAIRS and np.quantile(fastest, _MAX_FAST_SHARE) > MAX_LOAD_EXCESS:
            excess = max(excess, float(peers.load_excess[class_number]))
    if not excess:
        return []
    slowdown = round(float(np.exp(excess)), 3)
    says = (
        f"Single flows between leaf switches take {slowdown:.2f} times the time of flows within them. Spine switches "
        "or the uplinks of a leaf or more are slow, unless each uplink is slower than a NIC by design. Read the rates "
        "and error counters of the uplink ports."
    )
    return [UndecidedParts(between=(), slowdown=slowdown, says=says)]


def _fast_minority(search: Search) -> list[UndecidedParts]:
    """Returns an entry if some nodes or pairs of nodes are faster than the typical ones, so that most may be slow."""
    explanation, observed = search.explain(), search.observations()
    peers, paths = explanation.peers, observed.paths
    is_compared = is_evidence(observed, peers) & ~observed.is_dead & ~paths.is_hub
    entries = []
    for is_network, place, min_count in ((True, "pairs of nodes", _MIN_PAIRS), (False, "nodes", _MIN_FAST_NODES)):
        flows = np.flatnonzero(is_compared & (paths.is_network == is_network))
        flows = flows[np.argsort(node_pair_numbers(paths)[flows], kind="stable")]
        first_of_later_pairs = np.flatnonzero(np.diff(node_pair_numbers(paths)[flows])) + 1
        by_pair = np.split(peers.excess[flows], first_of_later_pairs) if len(flows) else []
        fast = [excess for excess in map(np.median, by_pair) if excess < -_MIN_FAST_EXCESS]
        if len(fast) >= max(min_count, _MIN_FAST_SHARE * len(by_pair)):
            ratio = float(np.exp(np.median(fast)))
            says = (
                f"Flows of {len(fast):,} of {len(by_pair):,} {place} take {ratio:.2f} times the time of typical flows, "
                "so most may be slow. Compare the typical rate with the rated one, or state the types of unlike GPUs."
            )
            entries.append(UndecidedParts(between=(), slowdown=round(1 / ratio, 3), says=says))
    return entries


def _rate_comparisons(search: Search, system: System) -> Iterator[_RateComparison]:
    """Yields the comparisons for which the measured and the expected rate are known."""
    for is_network, place, expected_rate, remedy in (
        (True, "between nodes", _expected_network_gbps, "Measure two of the nodes with a third one."),
        (False, "within nodes", _expected_fabric_gbps, "Measure another machine of this type."),
    ):
        measured_gbps = typical_rate_gbps(search, is_network=is_network)
        expected_gbps = None if measured_gbps is None else expected_rate(search, system)
        if measured_gbps is not None and expected_gbps is not None:
            yield _RateComparison(
                place=place,
                measured_gbps=measured_gbps,
                expected_gbps=expected_gbps,
                system_name=system.name,
                remedy=remedy,
            )


def typical_rate_gbps(search: Search, *, is_network: bool) -> float | None:
    """Returns the typical rate of a flow between nodes, or of a flow within its node, in GB/s.

    The search compares each flow with a reference, the time per byte of its healthy peers. The typical rate follows
    from the median of these references. A few slow parts do not change it. If all parts are slow, it is low too.

    Returns None if no such flow was measured, or if the GPUs have several types and therefore no common rate.
    """
    if len(search.measurer.cluster.gpu_types) > 1:
        return None
    observed = search.observations()
    paths = observed.paths
    # Flows across leaf switches collide on uplinks, and the flows of a hub share the rate of one GPU.
    has_own_links = ~(paths.is_across | paths.is_hub)
    is_selected = (paths.is_network == is_network) & ~observed.is_dead & has_own_links
    log_us_per_byte = search.explain().peers.reference[is_selected]
    if not len(log_us_per_byte):
        return None
    bytes_per_us = float(np.exp(-np.median(log_us_per_byte)))
    return bytes_per_us / 1e3


def _expected_network_gbps(search: Search, system: System) -> float | None:
    """Returns the rate of a NIC in GB/s. None if the rate is unknown, or if the flows are too small to reach it."""
    if system.nics is None or _pair_bytes(search) < _MIN_SIZE_BYTES:
        return None
    return system.nics.gbit / 8


def _expected_fabric_gbps(search: Search, system: System) -> float | None:
    """Returns the expected rate of a GPU that sends and receives within its node. None if the rate is unknown."""
    if not system.fabrics:
        return None
    size_bytes = _pair_bytes(search)
    scenario = Scenario(collective="sendrecv", ranks=2, ranks_per_node=2)
    estimate = expect(scenario, system, [size_bytes]).at(size_bytes)
    return estimate.busbw_gbps.typical if estimate is not None else None


def _pair_bytes(search: Search) -> int:
    """Returns the smallest size of a flow in the rounds without hubs. Flows of hubs are smaller on purpose."""
    return min(measured.size_bytes for measured in search.rounds if not measured.load.has_hubs)


def cost_sentence(finding: Finding, cluster: Cluster, system: System | None) -> str:
    """Returns the effect of a finding on an all-reduce over all GPUs. Empty if the effect is unknown."""
    if finding.dead:
        return "Cost: an all-reduce over all nodes fails or hangs."
    scenario = _all_reduce_over(cluster)
    if system is None or scenario is None or finding.slowdown is None:
        return ""
    if finding.intermittent or finding.kind == "nvlink":  # the model has neither rare delays nor single links
        return ""
    healthy_us = _all_reduce_us(scenario, system)
    slow_us = _all_reduce_us(scenario, _slowed_system(system, finding.slowdown))
    if healthy_us is None or slow_us is None:
        return ""
    return (
        f"Cost: a 1 GiB all-reduce over {scenario.ranks:,} GPUs is expected to take {slow_us / 1e3:.1f} ms, "
        f"and {healthy_us / 1e3:.1f} ms without the fault ({system.name})."
    )


def _all_reduce_over(cluster: Cluster) -> Scenario | None:
    """Returns the all-reduce over all GPUs. None for a single node, or if the nodes have different numbers of GPUs."""
    gpus_by_node = cluster.node_gpus.tolist()
    if len(gpus_by_node) < 2 or len(set(gpus_by_node)) > 1:
        return None
    return Scenario(collective="all_reduce", ranks=sum(gpus_by_node), ranks_per_node=gpus_by_node[0])


def _slowed_system(system: System, slowdown: float) -> System | None:
    """Returns the system with slower NICs. None if the NICs are unknown.

    A ring is as slow as its slowest link. So all NICs get the rate of the slow one.
    """
    if system.nics is None:
        return None
    return with_nics(system, replace(system.nics, gbit=system.nics.gbit / slowdown, source="rate of the slow part"))


def _all_reduce_us(scenario: Scenario, system: System | None) -> float | None:
    """Returns the expected time of the all-reduce for `_COST_SIZE_BYTES`. None if the time is unknown."""
    if system is None:
        return None
    estimate = expect(scenario, system, [_COST_SIZE_BYTES]).at(_COST_SIZE_BYTES)
    return estimate.time_us.typical if estimate is not None else None
