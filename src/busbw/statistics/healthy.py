"""Level and noise of the healthy ones among values of which some are too high, such as the times of slow flows."""

import numpy as np
from numpy.typing import NDArray

from busbw.statistics import NORMAL_MAD

_Values = NDArray[np.float64]

LOW_QUANTILE = 0.2
"""Quantile of the levels for the first estimate. Slow flows change it little."""
_LOW_DEVIATE = 0.84
"""Distance from the low quantile to the healthy level, in standard deviations, if all flows are healthy: -z(0.2).

z(q) is the quantile function of the normal distribution. If only half of the flows are healthy, 20 % of all flows are
40 % of the healthy flows, and the distance is -z(0.4) = 0.25. `healthy_level` corrects this difference.
"""
_CLIP_DEVIATIONS = 3.0
"""Maximum deviation of a healthy flow from the level, in units of the noise."""


def healthy_level(levels: _Values, noise: float) -> float:
    """Returns the median level of the healthy flows: the flows within _CLIP_DEVIATIONS of this median.

    The first estimate comes from the low quantile. Each pass improves the estimate.
    """
    level = float(np.quantile(levels, LOW_QUANTILE)) + _LOW_DEVIATE * noise
    ordered = np.sort(levels)  # one sort takes less time than several medians
    for _ in range(4):
        near = ordered[np.abs(ordered - level) < _CLIP_DEVIATIONS * noise]
        if not len(near):
            break
        middle = len(near) // 2
        level = float(near[middle] if len(near) % 2 else (near[middle - 1] + near[middle]) / 2)
    return level


def healthy_spread(excess: _Values, noise: float) -> float:
    """Returns the standard deviation of the flows near excess 0, from the median of their absolute excess."""
    near = np.abs(excess[np.abs(excess) < _CLIP_DEVIATIONS * noise])
    return NORMAL_MAD * float(np.median(near)) if len(near) else noise
