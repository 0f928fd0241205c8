"""Healthy level of comparable flows, noise of these flows, and share of flows that are slow without a fault.

Comparable flows have the same types of GPUs, load and locality (`Observations.classes`). The level of each round is
estimated from its own flows, which removes a drift that all flows share. The estimate expects that at least a fifth of
the flows of a class are healthy.
"""

from dataclasses import dataclass

import numpy as np

from busbw.find.cluster import Indices, Mask
from busbw.find.observations import Observations, Values
from busbw.find.rounds import LOAD_CLASSES, Load
from busbw.statistics import NORMAL_MAD

_MIN_FLOWS = 12
"""Minimum number of flows of a round with its own level. With fewer flows, the level of the class is used."""
_LOW_QUANTILE, _LOWER_QUANTILE = 0.2, 0.05
_LOW_DEVIATE, _QUANTILE_DISTANCE = 0.84, 0.9
"""Normal deviates of the low quantile, and of the distance of both quantiles.

The deviate is the value if all flows are healthy; it is 0.25 if half of the flows are healthy. The distance is between
its values in both cases, which are 0.80 and 1.03.
"""
_MIN_NOISE, _MAX_NOISE = 0.004, 0.15
_COLLIDING_CLASSES = [2 * int(load) + 1 for load in (Load.BOTH, Load.LIGHT, Load.CROSS)]
"""Classes with several flows on the uplinks of a leaf, modulo `LOAD_CLASSES`."""
_MAX_LOAD_EXCESS = 0.1
"""Excess of the healthy level of a class over the fastest class, from which uplinks limit the slower class."""
_COLLIDING_SHARE = 0.1
"""Share of slow flows from which flows between leaves count as colliding."""
_MAX_DRIFT = 0.09
"""Largest difference, in log time, between the levels of two rounds of a class."""
_COLLISION_NOISE = 0.06
"""Noise of a class from which most of its flows collide."""
_CLIP_DEVIATIONS, _SLOW_DEVIATIONS = 3.0, 4.0
_MIN_SLOW_SHARE, _MAX_SLOW_SHARE = 0.002, 0.5
_BIN, _BINS = 0.06, 60
"""Width in log time and number of the bins of the excess of slow flows."""
MIN_SLOW = 0.05
"""Excess, in log time, from which a flow can count as slow."""
HUB_TOLERANCE = 0.47
"""Difference to the peers, in log time, that a healthy hub can have: a factor of 1.6.

NCCL distributes the flows of a hub over its channels unevenly. So the totals of the healthy hubs of a node with four
H200 differ in each iteration by a factor of 1.28, and of 1.48 with 16 channels (bench/results/h200-x4-flows.md)."""


@dataclass(frozen=True, kw_only=True)
class Peers:
    """Comparison of each flow with its peers."""

    excess: Values
    """Log time of each flow less the level of its peers. 0 for a flow with the time of its peers."""
    reference: Values
    """Level of the peers of each flow."""
    noise: Values
    """Standard deviation of healthy flows, by class."""
    level: Values
    """Log time per byte of healthy flows, by class. Infinite for classes without flows."""
    slow_share: Values
    """Share of flows that are slow without a fault, by class."""
    flow_tail: Values
    """Density of the excess of each flow among the slow flows of its class, if they can collide; otherwise 0.

    A collision doubles or triples the time, so several flows have the same excess without a common cause."""
    is_tolerated: Mask
    """True for each hub with a difference to its peers that healthy hubs have, too. Its excess is 0."""

    @property
    def is_usable(self) -> Mask:
        """True for each class with flows that are evidence.

        With several flows on the uplinks of a leaf, most of them may collide, or the uplinks may limit all of them,
        which hides slow NICs.
        """
        gpu_types, load_class = np.divmod(np.arange(len(self.noise)), LOAD_CLASSES)
        can_collide = np.isin(load_class, _COLLIDING_CLASSES)
        is_network = ~np.isin(load_class // 2, [load for load in Load if load.is_inside])
        fastest = np.full(int(gpu_types.max(initial=0)) + 1, np.inf)  # by types of GPUs
        np.minimum.at(fastest, gpu_types[is_network], self.level[is_network])
        is_limited = np.isfinite(self.level) & (self.level > fastest[gpu_types] + _MAX_LOAD_EXCESS)
        collides_rarely = (self.noise < _COLLISION_NOISE) & (self.slow_share < _MAX_SLOW_SHARE)
        return np.asarray(~can_collide | (collides_rarely & ~is_limited))

    @property
    def collides_at_full_load(self) -> bool:
        """True if flows between leaves collide, or if it is unknown whether they collide."""
        load_class = np.arange(len(self.noise)) % LOAD_CLASSES
        is_full_load = load_class == 2 * int(Load.BOTH) + 1
        is_free = self.is_usable & (self.slow_share < _COLLIDING_SHARE)
        return not (is_full_load.any() and is_free[is_full_load].all())


def compare_with_peers(observed: Observations, explained: Values) -> Peers:
    """Returns the comparison of each flow with the healthy flows of its class and round.

    Args:
        observed: Observed flows.
        explained: Excess that the findings so far explain, for each flow.
    """
    classes = observed.classes
    count = int(classes.max(initial=0)) + 1
    reference = np.zeros(len(observed))
    level = np.full(count, np.inf)
    noise, slow_share = np.full(count, _MIN_NOISE), np.full(count, _MIN_SLOW_SHARE)
    is_candidate = ~observed.is_dead & (explained < MIN_SLOW)  # candidates for healthy flows
    for class_number in np.unique(classes):
        members = np.flatnonzero(classes == class_number)
        usable = members[is_candidate[members]]
        if not len(usable):
            continue
        # Flows of suspects are measured again, and the repeated flows would outnumber the others in a small cluster.
        first = usable[observed.is_first[usable]]
        first = first if len(first) else usable
        class_reference, noise[class_number] = _level_and_noise(observed.level[first], observed.round[first])
        level[class_number] = class_reference
        reference[members] = class_reference
        for flows in _by_round(members, observed.round[members]):
            healthy = flows[is_candidate[flows]]
            if len(healthy) >= _MIN_FLOWS:
                drift = healthy_level(observed.level[healthy], noise[class_number]) - class_reference
                # A larger difference is no drift: most flows of this round cross a suspect.
                reference[flows] += drift if abs(drift) < _MAX_DRIFT else 0.0
        excess = (observed.level - reference)[usable]
        spread = healthy_spread(excess, noise[class_number])
        noise[class_number] = np.clip(spread, _MIN_NOISE, _MAX_NOISE)
        is_slow = excess > max(_SLOW_DEVIATIONS * noise[class_number], MIN_SLOW)
        slow_share[class_number] = np.clip(is_slow.mean(), _MIN_SLOW_SHARE, _MAX_SLOW_SHARE)
    is_tolerated = observed.paths.is_hub & (np.abs(observed.level - reference) < HUB_TOLERANCE)
    reference = np.where(is_tolerated, observed.level, reference)
    excess = observed.level - reference
    return Peers(
        excess=excess,
        reference=reference,
        noise=noise,
        level=level,
        slow_share=slow_share,
        flow_tail=_flow_tail(classes, excess, is_candidate),
        is_tolerated=is_tolerated,
    )


def _flow_tail(classes: Indices, excess: Values, is_candidate: Mask) -> Values:
    """Returns the tail as in `Peers`, from a histogram of the unexplained slow flows of each class."""
    tail = np.zeros(len(excess))
    bins = np.clip(excess / _BIN, 0, _BINS - 1).astype(np.int64)
    can_collide = np.isin(classes % LOAD_CLASSES, _COLLIDING_CLASSES)
    for class_number in np.unique(classes[can_collide]):
        members = classes == class_number
        slow = bins[members & is_candidate & (excess > MIN_SLOW)]
        if len(slow):
            smoothed_counts = np.convolve(np.bincount(slow, minlength=_BINS), [0.25, 0.5, 0.25], mode="same")
            density_by_bin = smoothed_counts / smoothed_counts.sum() / _BIN
            tail[members] = density_by_bin[bins[members]]
    return tail


def _by_round(flows: Indices, rounds: Indices) -> list[Indices]:
    """Returns the flows of each round. `rounds`: ascending round number of each flow."""
    first_of_later_rounds = np.flatnonzero(np.diff(rounds)) + 1
    return np.split(flows, first_of_later_rounds)


def _level_and_noise(levels: Values, rounds: Indices) -> tuple[float, float]:
    """Returns first estimates from the low quantiles, which slow flows do not move."""
    centered = levels.copy()
    level = np.quantile(levels, _LOW_QUANTILE)
    for flows in _by_round(np.arange(len(levels)), rounds):
        if len(flows) >= _MIN_FLOWS:
            drift = np.quantile(levels[flows], _LOW_QUANTILE) - level
            centered[flows] -= drift if abs(drift) < _MAX_DRIFT else 0.0
    low, lower = np.quantile(centered, [_LOW_QUANTILE, _LOWER_QUANTILE])
    noise = float(np.clip((low - lower) / _QUANTILE_DISTANCE, _MIN_NOISE, _MAX_NOISE))
    return healthy_level(centered, noise), noise


def healthy_level(levels: Values, noise: float) -> float:
    """Returns the median of the healthy flows: those near the low quantile."""
    level = float(np.quantile(levels, _LOW_QUANTILE)) + _LOW_DEVIATE * noise
    ordered = np.sort(levels)  # one sort takes less time than several medians
    for _ in range(4):
        near = ordered[np.abs(ordered - level) < _CLIP_DEVIATIONS * noise]
        if not len(near):
            break
        middle = len(near) // 2
        level = float(near[middle] if len(near) % 2 else (near[middle - 1] + near[middle]) / 2)
    return level


def healthy_spread(excess: Values, noise: float) -> float:
    """Returns the standard deviation of the flows near 0, from their median deviation."""
    near = np.abs(excess[np.abs(excess) < _CLIP_DEVIATIONS * noise])
    return NORMAL_MAD * float(np.median(near)) if len(near) else noise
