"""Decides if differences between ranks or communicators can be chance."""

from collections.abc import Iterable

import numpy as np

from busbw.traces.analysis.intervals import Indices, Values

MAX_CHANCE = 0.01
"""A finding needs a smaller probability that it is chance."""
_SCALES = np.geomspace(0.01, 100, 40)
"""Values of the free parameter of the Chernoff bound, relative to the largest delay. The best one is chosen."""


class DelayChances:
    """Probabilities that ranks delay the others by chance.

    The delays of one step are one observation. They depend on each other, because a rank that computes during its
    operations stays late until it waits for the other ranks.
    """

    def __init__(self, late_ns: Values, communicators: Iterable[tuple[int, ...]]) -> None:
        """`late_ns`: delay by each rank in each step [ranks, steps]; NaN: unknown. `communicators`: ranks of each."""
        max_ns = np.nanmax(late_ns, initial=0)
        self._late = late_ns / max_ns if max_ns > 0 else np.zeros_like(late_ns)
        self._communicators = tuple(dict.fromkeys(communicators))
        self._log_means: dict[bytes, Values] = {}
        """For each set of ranks: logarithm of the mean of exp(scale * delay) over the ranks [scales, steps]."""

    def of_rank(self, rank: int) -> float:
        """Returns an upper bound of the probability that a rank delays the others as long as it did, by chance.

        By chance, each rank that communicates with this rank is equally likely to have this delay in a step. A few
        long delays by one rank can be chance, many cannot. The bound is Chernoff's: for any s > 0,
        P(sum >= t) <= exp(-s t) E[exp(s sum)].
        """
        shared = [np.array(ranks, dtype=np.int64) for ranks in self._communicators if rank in ranks]
        own = self._late[rank]
        is_known = ~np.isnan(own)
        if not shared or not is_known.any():
            return 1.0
        log_bounds = self._log_means_of(np.unique(np.concatenate(shared)))[:, is_known].sum(axis=1)
        log_bounds -= _SCALES * own[is_known].sum()
        return float(np.exp(min(0.0, log_bounds.min())))

    def _log_means_of(self, ranks: Indices) -> Values:
        """Returns the value of `_log_means`. A step without a known delay has minus infinity."""
        key = ranks.tobytes()
        if key not in self._log_means:
            late = self._late[ranks]
            counts = np.maximum((~np.isnan(late)).sum(axis=0), 1)
            sums = [np.nansum(np.exp(scale * late), axis=0) for scale in _SCALES.tolist()]
            with np.errstate(divide="ignore"):
                self._log_means[key] = np.log(np.stack(sums) / counts)
        return self._log_means[key]


def chance_of_majority(count: int, total: int) -> float:
    """Returns the probability of at least `count` of `total` values above a median, by chance (sign test)."""
    from scipy import special  # local, because scipy is slow to import

    return 1.0 if count <= 0 else float(special.bdtrc(count - 1, total, 0.5))
