"""Decides if differences between ranks or communicators can be chance."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from busbw.traces.analysis.intervals import Indices, Values

MAX_CHANCE = 0.05
"""A finding needs a smaller probability that it is chance."""
_SCALES = np.geomspace(0.01, 100, 40)
"""Values of the free parameter of the Chernoff bound, relative to the largest delay. The best one is chosen."""


@dataclass(frozen=True, kw_only=True)
class Delays:
    """Delays of operations by their last rank, for one function of a communicator."""

    ranks: tuple[int, ...]
    """Ranks of the communicator, as indices in `Trace.ranks`."""
    last_ranks: Indices
    """The rank that delays each operation."""
    delays_ns: Values
    """Only the part of a delay that does not overlap an earlier delay by the same rank."""


def chance_of_delay(rank: int, delays: Sequence[Delays]) -> float:
    """Returns an upper bound of the probability that a rank delays the others as long as it did, by chance.

    By chance, each rank of a communicator is equally likely to be the last one of an operation. A few long delays by
    one rank can be chance, many cannot. The bound is Chernoff's: for any s > 0, P(sum >= t) <= exp(-s t) E[exp(s sum)].
    """
    own = [one for one in delays if rank in one.ranks and len(one.delays_ns)]
    if not own:
        return 1.0
    lengths = np.concatenate([one.delays_ns for one in own])
    is_by_rank = np.concatenate([one.last_ranks == rank for one in own])
    sizes = np.concatenate([np.full(len(one.delays_ns), float(len(one.ranks))) for one in own])
    max_length = lengths.max()
    if max_length <= 0:
        return 1.0
    lengths = lengths / max_length
    total = lengths[is_by_rank].sum()
    log_other, log_own = np.log1p(-1 / sizes), -np.log(sizes)
    log_bounds = [
        np.logaddexp(log_other, log_own + scale * lengths).sum() - scale * total for scale in _SCALES.tolist()
    ]
    return float(np.exp(min(0.0, *log_bounds)))


def chance_of_majority(count: int, total: int) -> float:
    """Returns the probability of at least `count` of `total` values above a median, by chance (sign test)."""
    from scipy import special  # local, because scipy is slow to import

    return 1.0 if count <= 0 else float(special.bdtrc(count - 1, total, 0.5))
