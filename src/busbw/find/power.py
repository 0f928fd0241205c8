"""Power of a search: the probability that it finds a part of a kind that is slower by 10 %."""

import numpy as np
from msgspec import Struct
from scipy.special import ndtr

from busbw.find.cluster import UNKNOWN, Cluster, Indices
from busbw.find.evidence import LEVELS, log_density
from busbw.find.explanation import SUSPECT_SCORE, Explanation, is_evidence
from busbw.find.observations import Observations, Values
from busbw.find.parts import FAMILIES, KINDS, Family, Kind, count_per_part

POWER_SLOWDOWN = 1.1
"""Slow-down for which the power is stated: time of a slow part relative to its peers."""
_MIN_COMPARED_CHANCE = 0.5
"""Minimum of `KindPower.found` for parts that count as compared with their peers."""
_POINTS = 1604
"""Number of points of the numeric integration over the excess of a flow (evidence.py)."""
_MAX_SHARE = 0.8
"""Maximum share of a class's flows that cross a part. More flows would determine the level of the class (peers.py)."""


class KindPower(Struct, frozen=True, kw_only=True):
    """Parts of one kind that the flows cross, and the chance to find a slow one among them."""

    kind: Kind
    parts: int
    """Number of parts that at least one flow crosses."""
    all_parts: int
    """Number of parts of the cluster, with those that no flow crosses."""
    min_flows: int
    median_flows: int
    slowdown: float = POWER_SLOWDOWN
    found: float
    """Probability that a part with this slow-down is found: the median over the parts that flows cross."""

    @property
    def is_compared(self) -> bool:
        """True if a slow part would probably be found, so that the parts count as compared with their peers."""
        return self.found >= _MIN_COMPARED_CHANCE


def search_power(observed: Observations, explanation: Explanation) -> list[KindPower]:
    """Returns the power for each kind of part that the flows cross.

    A part counts as found if its flows suffice to suspect it, because more rounds then follow. The mean and variance of
    the evidence of one flow follow from the model of the noise.
    """
    classes = observed.classes
    means, variances = evidence_moments(explanation.peers.noise, explanation.peers.slow_share)
    # Hubs say nothing about small slow-downs.
    is_informative = is_evidence(observed, explanation.peers) & ~observed.paths.is_hub
    powers = []
    for kind in KINDS:
        columns = _widest_family(kind).columns(observed.paths)
        flows = count_per_part(columns, is_informative.astype(np.float64))
        crossed = flows > 0
        if np.count_nonzero(crossed) < 2:
            continue
        mean, variance = np.zeros(len(flows)), np.zeros(len(flows))  # of the evidence, by part
        for class_number in np.unique(classes[is_informative]):
            members = is_informative & (classes == class_number)
            crossing = count_per_part(columns, members.astype(np.float64))
            has_peers = crossing <= _MAX_SHARE * np.count_nonzero(members)
            comparable = np.where(has_peers, crossing, 0.0)
            mean += means[class_number] * comparable
            variance += variances[class_number] * comparable
        # A score is the evidence less two logarithms: of the number of parts, and of the number of hypotheses.
        limit = SUSPECT_SCORE + np.log(np.count_nonzero(crossed)) + np.log(len(LEVELS))
        if kind == "pair" and explanation.peers.omits_pairs:
            limit = np.inf
        powers.append(
            kind_power(
                kind,
                all_parts=_part_count(kind, observed.paths.cluster),
                flows=flows[crossed],
                mean=mean[crossed],
                variance=variance[crossed],
                limit=limit,
            )
        )
    return powers


def kind_power(
    kind: Kind, *, all_parts: int, flows: Indices | Values, mean: Values, variance: Values, limit: float
) -> KindPower:
    """Returns the power for a kind of part.

    Args:
        kind: Kind of the parts.
        all_parts: Number of parts, with those that no flow crosses.
        flows: Number of flows of each part that a flow crosses. The next two arguments are for the same parts.
        mean: Mean of the sum of the evidence of these flows.
        variance: Variance of this sum. The distribution of the sum is approximately normal.
        limit: Evidence from which a part is found.
    """
    chance = ndtr((mean - limit) / np.sqrt(np.maximum(variance, 1e-9)))
    return KindPower(
        kind=kind,
        parts=len(flows),
        all_parts=all_parts,
        min_flows=int(flows.min()),
        median_flows=int(np.median(flows)),
        found=float(np.median(chance)),
    )


def _widest_family(kind: Kind) -> Family:
    """Returns the family of a kind with both directions. For NVLink: the family of links between two GPUs."""
    wanted = (kind, "both", kind == "nvlink")
    return next(one for one in FAMILIES if (one.kind, one.direction, one.is_between) == wanted)


def _part_count(kind: Kind, cluster: Cluster) -> int:
    """Returns the number of parts of a kind, with those that no flow crosses."""
    nodes, leaves = len(cluster.nodes), len(cluster.leaf_names)
    counts: dict[Kind, int] = {
        "gpu": len(cluster.gpu_node),
        "nvlink": int((cluster.node_gpus * (cluster.node_gpus - 1)).sum()) // 2,
        "nic": len(cluster.nics),
        "numa": len(cluster.numa_nodes),
        "node": nodes,
        "pair": nodes * (nodes - 1) // 2,
        "rail": len(np.unique(cluster.nic_rail[cluster.nic_rail != UNKNOWN])),
        "leaf": leaves,
        "uplink": leaves,
    }
    return counts[kind]


def evidence_moments(noise: Values, slow_share: Values) -> tuple[Values, Values]:
    """Returns mean and variance of the evidence of one flow for a part with `POWER_SLOWDOWN`, by class.

    Args:
        noise: Standard deviation of healthy flows, by class.
        slow_share: Share of flows that are slow without a fault, by class.
    """
    log_slowdown = float(np.log(POWER_SLOWDOWN))
    means, variances = np.zeros(len(noise)), np.zeros(len(noise))
    for number, (width, share) in enumerate(zip(noise, slow_share, strict=True)):
        excess = np.linspace(log_slowdown - 5 * width - 0.3, log_slowdown + 4, _POINTS)  # the rest is negligible
        with_fault = log_density(excess, np.array(log_slowdown), np.array(width), np.array(share))
        without_fault = log_density(excess, np.array(0.0), np.array(width), np.array(share))
        evidence = with_fault - without_fault
        weight = np.exp(with_fault) / np.exp(with_fault).sum()
        means[number] = (weight * evidence).sum()
        variances[number] = (weight * (evidence - means[number]) ** 2).sum()
    return means, variances
