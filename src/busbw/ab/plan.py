"""Schedule of an A/B measurement: the order of the blocks, and the looks at the data.

A quadruple is four blocks, two of each side. A look evaluates the quadruples measured so far, and stops the measurement
if every size has a verdict. A look is an interim analysis of a sequential test, and may give a false alarm. So all
looks share one error probability.
"""

from collections.abc import Callable

FIRST_LOOK = 12
"""Quadruples before the first look. With fewer than 11, a permutation test cannot reach the level of a look, 0.1 %."""
MAX_QUADRUPLES = 192
"""Default number of quadruples at the last look."""
RUN_ALPHA = 0.005
"""Probability that a measurement of two equal sides reports a difference, over all its sizes and looks."""


def looks(max_quadruples: int) -> list[int]:
    """Returns the number of quadruples at each look, doubling up to the maximum: 12, 24, 48, 96, 192."""
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
