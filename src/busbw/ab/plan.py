"""Schedule of an A/B measurement: the order of the blocks, and the looks at the data.

A look evaluates the quadruples measured so far, and stops the measurement if every size has a verdict. It is the
interim analysis of a sequential test. Each look may give a false alarm, so the looks share one error probability.
"""

from collections.abc import Callable

FIRST_LOOK = 12
"""Quadruples before the first look. A permutation test of fewer than 11 cannot reach the level of one look, 0.1 %."""
MAX_QUADRUPLES = 192
"""Default maximum: the last look."""
RUN_ALPHA = 0.005
"""Probability that a measurement of two equal sides reports a difference, over all its sizes and looks."""


def looks(max_quadruples: int) -> list[int]:
    """Returns the number of quadruples at each look: twice that of the look before, and the maximum at the last."""
    counts = []
    count = FIRST_LOOK
    while count < max_quadruples:
        counts.append(count)
        count *= 2
    return [*counts, max_quadruples]


def alpha_per_look(max_quadruples: int) -> float:
    """Probability of a false alarm allowed at one look: an equal share of RUN_ALPHA."""
    return RUN_ALPHA / len(looks(max_quadruples))


def choose_order(coin: Callable[[], bool]) -> str:
    """Chooses the sides of a quadruple's four blocks by the coin. In both orders a linear drift cancels."""
    return "ABBA" if coin() else "BAAB"
