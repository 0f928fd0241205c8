"""Healthy level of comparable flows, noise of these flows, and share of flows that are slow without a fault.

Comparable flows have the same types of GPUs, load and locality (`Observations.classes`). The level of a round is
estimated from the flows of the round, which removes a drift that all flows share. The estimate assumes that at least a
fifth of the flows of a class are healthy.

Levels, excess and noise are in log time. The *excess* of a flow is its level less the level of its healthy peers, its
*reference*.

Flows *collide* if several of them share a link of the network. Their time then doubles or triples. A *hub* is a GPU
that exchanges data with several others of its node at once (rounds.py).
"""

from dataclasses import dataclass

import numpy as np

from busbw.find.cluster import UNKNOWN, Cluster, Indices, Mask
from busbw.find.observations import Observations, Values
from busbw.find.rounds import LOAD_CLASSES, Load, load_class
from busbw.statistics.healthy import LOW_QUANTILE, healthy_level, healthy_spread

_MIN_FLOWS = 12
"""Minimum number of flows for a level of the round. Rounds with fewer flows use the level of the class."""
_LOWER_QUANTILE, _QUANTILE_DISTANCE = 0.05, 0.9
"""A quantile, and its distance from LOW_QUANTILE in standard deviations: a compromise between two cases.

If all flows are healthy, the distance is z(0.2) - z(0.05) = 0.80. If half of the flows are healthy, the distance is
z(0.4) - z(0.1) = 1.03.
"""
_MIN_NOISE, _MAX_NOISE = 0.004, 0.15
"""Bounds of the estimated noise: few equal times could give 0, and many slow flows a too large value."""
_COLLIDING_LOADS = ((Load.BOTH, True), (Load.LIGHT, True), (Load.CROSS, True), (Load.CROSS, False))
_COLLIDING_CLASSES = [int(load_class(load, is_across=is_across)) for load, is_across in _COLLIDING_LOADS]
"""Classes with several flows on the uplinks of a leaf, as numbers of `load_class`. Lanes may have unknown leaves."""
_NETWORK_LOADS = [load for load in Load if not load.is_inside]
_NETWORK_CLASSES = [int(load_class(load, is_across=across)) for load in _NETWORK_LOADS for across in (False, True)]
MAX_LOAD_EXCESS = 0.1
"""Maximum difference between the levels of a class and of the fastest class. If it is larger, uplinks are the limit."""
_COLLIDING_SHARE = 0.1
"""Minimum share of slow flows for the conclusion that flows between leaves collide."""
_MAX_DRIFT = 0.09
"""Maximum difference between the levels of a round and of its class that counts as drift."""
_COLLISION_NOISE = 0.06
"""Minimum noise of a class for the conclusion that most flows of the class collide."""
_SLOW_DEVIATIONS = 4.0
"""Minimum deviation of a slow flow from the level, in units of the noise."""
_MIN_SLOW_SHARE, _MAX_SLOW_SHARE = 0.002, 0.5
"""Bounds of the estimated share of flows that are slow without a fault."""
_BIN_WIDTH, _BIN_COUNT = 0.06, 60
"""Width, in log time, and number of the bins in the histogram of the excess of slow flows."""
_MAX_EQUAL_REFERENCE, _MAX_EQUAL_NOISE, _MAX_EQUAL_SLOW_SHARE = 0.003, 0.03, 0.25
"""Maximum differences between equal peers: of log times, of the log noise, and of the log share of slow flows."""
MIN_SLOW = 0.05
"""Minimum excess of a slow flow."""
HUB_TOLERANCE = 0.47
"""Maximum difference between a healthy hub (rounds.py) and its peers: a factor of 1.6.

NCCL distributes the flows of a hub over its channels unevenly. In a node with four H200, the total rates of healthy
hubs differ in each iteration by a factor of 1.28, and with 16 channels of 1.48 (bench/results/h200-x4-flows.md).
"""


@dataclass(frozen=True, kw_only=True)
class Peers:
    """Comparison of each flow with its peers."""

    excess: Values
    """Log time of each flow less its reference. 0 for a flow with the time of its peers."""
    reference: Values
    """Level of the healthy peers of each flow. For a tolerated hub, the hub's own level."""
    noise: Values
    """Standard deviation of healthy flows, by class."""
    level: Values
    """Log time per byte of healthy flows, by class. Infinite for classes without flows."""
    slow_share: Values
    """Share of flows that are slow without a fault, by class."""
    slow_density: Values
    """Probability density at the excess of each flow, in the histogram of the slow flows of its class.

    Several flows that collide have the same excess without a common cause. 0 for flows of a class that cannot collide.
    """
    is_tolerated: Mask
    """True for each hub that differs from its peers by less than HUB_TOLERANCE. The excess of such a hub is 0."""
    headroom: Values
    """By class: excess of a part at the faster end that does not slow the flow. 0 for flows between equal types."""
    omits_pairs: bool
    """True if no pair of nodes is named, because many flows seem to collide on uplinks of unknown leaves."""

    @property
    def is_usable(self) -> Mask:
        """True for each class if a slow flow in it is evidence of a slow part. True for classes without flows.

        A class of _COLLIDING_CLASSES is unusable if many flows collide: its noise reaches _COLLISION_NOISE, or its slow
        share _MAX_SLOW_SHARE. It is also unusable if the uplinks limit all flows, and so hide slow NICs: it is slower
        than the fastest network class of the same types of GPUs by more than MAX_LOAD_EXCESS.
        """
        can_collide = np.isin(np.arange(len(self.noise)) % LOAD_CLASSES, _COLLIDING_CLASSES)
        collides_rarely = (self.noise < _COLLISION_NOISE) & (self.slow_share < _MAX_SLOW_SHARE)
        is_limited = (self.load_excess > MAX_LOAD_EXCESS) & (can_collide | self._is_between_leaves(Load.SPARSE))
        return np.asarray((~can_collide | collides_rarely) & ~is_limited)

    @property
    def load_excess(self) -> Values:
        """Level of each class less that of the fastest network class of the same types. 0 for a class without flows."""
        type_pairs, load_classes = np.divmod(np.arange(len(self.noise)), LOAD_CLASSES)
        is_network = np.isin(load_classes, _NETWORK_CLASSES)
        fastest_level = np.full(int(type_pairs.max(initial=0)) + 1, np.inf)  # by the types of both GPUs
        np.minimum.at(fastest_level, type_pairs[is_network], self.level[is_network])
        has_level = np.isfinite(self.level) & np.isfinite(fastest_level[type_pairs])
        return np.where(has_level, self.level, 0.0) - np.where(has_level, fastest_level[type_pairs], 0.0)

    def differ_from(self, others: "Peers") -> bool:
        """True if another comparison with the same flows would change the evidence of a flow noticeably."""
        return bool(
            np.abs(self.reference - others.reference).max(initial=0) > _MAX_EQUAL_REFERENCE
            or np.abs(np.log(self.noise / others.noise)).max(initial=0) > _MAX_EQUAL_NOISE
            or np.abs(np.log(self.slow_share / others.slow_share)).max(initial=0) > _MAX_EQUAL_SLOW_SHARE
        )

    @property
    def may_collide_at_full_load(self) -> bool:
        """True if flows between leaves collide at full load (`Load.BOTH`), or if it is not known yet.

        Not known yet: the arrays end before the first full-load class, because they end with the last class that has
        flows. A full-load class within the arrays, but without flows, counts as collision-free.
        """
        is_full_load = self._is_between_leaves(Load.BOTH)
        is_known = is_full_load.any()
        is_collision_free = self.is_usable & (self.slow_share < _COLLIDING_SHARE)
        return not is_known or not is_collision_free[is_full_load].all()

    @property
    def are_light_rounds_usable(self) -> bool:
        """False if so many flows of light rounds collide that a slow flow is no evidence. True before the first one."""
        return bool(self.is_usable[self._is_between_leaves(Load.LIGHT)].all())

    def collide_on_unknown_leaves(self, cluster: Cluster) -> bool:
        """True if many flows between NICs are slow, and the leaves of some NICs are unknown."""
        load_classes = np.arange(len(self.noise)) % LOAD_CLASSES
        is_network = np.isin(load_classes, [load_class(one, is_across=False) for one in (Load.BOTH, Load.ONE_WAY)])
        return bool((cluster.nic_leaf == UNKNOWN).any() and (self.slow_share[is_network] >= _COLLIDING_SHARE).any())

    def _is_between_leaves(self, load: Load) -> Mask:
        """Returns True for each class of flows between leaves with this load."""
        load_classes = np.arange(len(self.noise)) % LOAD_CLASSES
        return np.asarray(load_classes == load_class(load, is_across=True))


def compare_with_peers(observed: Observations, explained: Values, *, omits_pairs: bool = False) -> Peers:
    """Returns the comparison of each flow with the healthy flows of its class and round.

    Args:
        observed: Observed flows.
        explained: Excess that the findings so far explain, for each flow.
        omits_pairs: `Peers.omits_pairs`.
    """
    classes = observed.classes
    count = int(classes.max(initial=0)) + 1
    reference = np.zeros(len(observed))
    level = np.full(count, np.inf)
    noise, slow_share = np.full(count, _MIN_NOISE), np.full(count, _MIN_SLOW_SHARE)
    is_candidate = ~observed.is_dead & (explained < MIN_SLOW)  # candidates for healthy flows
    for class_number in np.unique(classes):
        members = np.flatnonzero(classes == class_number)
        candidates = members[is_candidate[members]]
        if not len(candidates):  # then only its slow flows can give the class a level, as before the first finding
            candidates = members[~observed.is_dead[members]]
        if not len(candidates):
            continue
        # Flows of suspects are measured again, and the repeated flows would outnumber the others in a small cluster.
        first = candidates[observed.is_first[candidates]]
        estimated_from = first if len(first) else candidates
        class_level, class_noise = _level_and_noise(observed.level[estimated_from], observed.round[estimated_from])
        level[class_number] = reference[members] = class_level
        for flows in _by_round(members, observed.round[members]):
            round_candidates = flows[is_candidate[flows]]
            if len(round_candidates) >= _MIN_FLOWS:
                drift = healthy_level(observed.level[round_candidates], class_noise) - class_level
                # A larger difference is no drift: most flows of this round cross a suspect.
                reference[flows] += drift if abs(drift) < _MAX_DRIFT else 0.0
        excess = (observed.level - reference)[candidates]
        spread = healthy_spread(excess, class_noise)
        noise[class_number] = np.clip(spread, _MIN_NOISE, _MAX_NOISE)
        is_slow = excess > _slow_limit(noise[class_number])
        slow_share[class_number] = np.clip(is_slow.mean(), _MIN_SLOW_SHARE, _MAX_SLOW_SHARE)
    is_tolerated = observed.paths.is_hub & (np.abs(observed.level - reference) < HUB_TOLERANCE)
    reference = np.where(is_tolerated, observed.level, reference)  # so the excess of tolerated hubs is 0
    excess = observed.level - reference
    is_unexplained = is_candidate & (excess > _slow_limit(noise[classes]))
    can_collide = np.isin(classes % LOAD_CLASSES, _COLLIDING_CLASSES) | (observed.paths.is_network & omits_pairs)
    return Peers(
        excess=excess,
        reference=reference,
        noise=noise,
        level=level,
        slow_share=slow_share,
        slow_density=_slow_density(classes, excess, is_unexplained, can_collide),
        is_tolerated=is_tolerated,
        headroom=_headroom(observed, level),
        omits_pairs=omits_pairs,
    )


def _headroom(observed: Observations, level: Values) -> Values:
    """Returns `Peers.headroom`. `level`: `Peers.level`."""
    paths, headroom = observed.paths, np.zeros(len(level))
    numbers, first_flows = np.unique(observed.classes, return_index=True)
    types = paths.cluster.gpu_type[[paths.source[first_flows], paths.target[first_flows]]]
    load_classes = numbers % LOAD_CLASSES
    own_level = np.full((len(paths.cluster.gpu_types), LOAD_CLASSES), np.inf)  # of flows of one type only
    is_unlike = types[0] != types[1]
    own_level[types[0, ~is_unlike], load_classes[~is_unlike]] = level[numbers[~is_unlike]]
    any_level = own_level[:, _NETWORK_CLASSES].min(axis=1, keepdims=True)
    known_level = np.where(np.isfinite(own_level), own_level, any_level)
    # The rate of a type without flows between its own GPUs is unknown (infinite); the other type then decides.
    difference = level[numbers] - known_level[types, load_classes].min(axis=0)
    headroom[numbers] = np.where(is_unlike & (difference > MIN_SLOW), difference, 0.0)
    return headroom


def _slow_limit(noise: float | Values) -> Values:
    """Returns the excess from which a flow with this noise counts as slow.

    Share and density of the slow flows need the same limit. Otherwise healthy flows dilute the density.
    """
    return np.asarray(np.maximum(_SLOW_DEVIATIONS * noise, MIN_SLOW))


def _slow_density(classes: Indices, excess: Values, is_slow: Mask, can_collide: Mask) -> Values:
    """Returns `Peers.slow_density`, from a histogram of the unexplained slow flows of each class."""
    density = np.zeros(len(excess))
    bins = np.clip(excess / _BIN_WIDTH, 0, _BIN_COUNT - 1).astype(np.int64)
    for class_number in np.unique(classes[can_collide]):
        members = classes == class_number
        slow = bins[members & is_slow]
        if len(slow):
            smoothed_counts = np.convolve(np.bincount(slow, minlength=_BIN_COUNT), [0.25, 0.5, 0.25], mode="same")
            density_by_bin = smoothed_counts / smoothed_counts.sum() / _BIN_WIDTH
            density[members] = density_by_bin[bins[members]]
    return density


def _by_round(flows: Indices, rounds: Indices) -> list[Indices]:
    """Returns the flows of each round. `rounds`: ascending round number of each flow."""
    first_of_later_rounds = np.flatnonzero(np.diff(rounds)) + 1
    return np.split(flows, first_of_later_rounds)


def _level_and_noise(levels: Values, rounds: Indices) -> tuple[float, float]:
    """Returns the first estimates of level and noise of a class, from the low quantiles."""
    centered = levels.copy()
    level = np.quantile(levels, LOW_QUANTILE)
    for flows in _by_round(np.arange(len(levels)), rounds):
        if len(flows) >= _MIN_FLOWS:
            drift = np.quantile(levels[flows], LOW_QUANTILE) - level
            centered[flows] -= drift if abs(drift) < _MAX_DRIFT else 0.0
    low, lower = np.quantile(centered, [LOW_QUANTILE, _LOWER_QUANTILE])
    noise = float(np.clip((low - lower) / _QUANTILE_DISTANCE, _MIN_NOISE, _MAX_NOISE))
    return healthy_level(centered, noise), noise
