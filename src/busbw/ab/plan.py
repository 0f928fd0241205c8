"""When an A/B measurement looks at its data, and in which order its blocks come."""

from collections.abc import Callable

FIRST_LOOK = 12
"""Quadruples before the first look: the fewest that can call a change at a level of 0.1 %."""
MAX_QUADRUPLES = 192
RUN_ALPHA = 0.005
"""The chance that a run without a difference reports one, over all its sizes and looks together."""


def looks(most: int) -> list[int]:
    """Numbers of quadruples after which the data are looked at: doubling, and at the end."""
    numbers = []
    number = FIRST_LOOK
    while number < most:
        numbers.append(number)
        number *= 2
    return [*numbers, most]


def alpha_per_look(most: int) -> float:
    """Each look may give a false alarm, so each gets its share."""
    return RUN_ALPHA / len(looks(most))


def order(coin: Callable[[], bool]) -> str:
    """The sides of the four blocks of a quadruple: a steady drift cancels in either order, and a coin chooses."""
    return "ABBA" if coin() else "BAAB"
