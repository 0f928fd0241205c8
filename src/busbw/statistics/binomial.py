"""Binomial distribution."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln


def binomial_mass(counts: NDArray[np.int64], total: int, shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the binomial probability of each count (row) out of `total`, for each share (column).

    scipy.stats has this distribution too, but takes several times as long to import as scipy.special.
    """
    ways = gammaln(total + 1) - gammaln(counts + 1) - gammaln(total - counts + 1)
    others = (total - counts)[:, None]
    return np.asarray(np.exp(ways[:, None] + counts[:, None] * np.log(shares) + others * np.log1p(-shares)))
