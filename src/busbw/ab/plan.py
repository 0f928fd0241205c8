"""Schedule of an A/B measurement: the interim looks at the data and the order of the blocks."""

from collections.abc import Callable

FIRST_LOOK = 12
"""Quadruples before the first look: the minimum that can prove a change at a level of 0.1 %."""
MAX_QUADRUPLES = 192
RUN_ALPHA = 0.005
"""Probability that a run without a difference reports one, over all its sizes and looks together."""


def looks(max_quadruples: int) -> list[int]:
    """Returns the quadruple counts after which the data are evaluated: doubled each time, and the maximum."""
    numbers = []
    number = FIRST_LOOK
    while number < max_quadruples:
        numbers.append(number)
        number *= 2
    return [*numbers, max_quadruples]


def alpha_per_look(max_quadruples: int) -> float:
    """Level of one look: all looks share RUN_ALPHA equally, because each may give a false alarm."""
    return RUN_ALPHA / len(looks(max_quadruples))


def order(coin: Callable[[], bool]) -> str:
    """Returns the sides of a quadruple's four blocks. A linear drift cancels in both orders; the coin chooses one."""
    return "ABBA" if coin() else "BAAB"
