"""Finds the collective of a log: by its name, by the ratio busbw / algbw, and by the columns of its rows."""

import math
import re

from busbw.collectives import Collective, collectives

# Longer names come before the names that they contain.
_LONGEST_FIRST = sorted(collectives().values(), key=lambda collective: len(collective.name), reverse=True)
_ANY_NAME = re.compile("|".join(f"(?P<{entry.name}>{entry.spelling})" for entry in _LONGEST_FIRST), re.IGNORECASE)

_PLAIN_CHARACTERS = {0xAD: None, ord("\\"): None, **dict.fromkeys((*range(0x2010, 0x2016), 0x2212), "-")}
"""Translation of the dashes of web pages and the escapes of Markdown. With them, all-reduce would look like reduce."""


def single_collective_in(text: str) -> str | None:
    """Returns the collective of a text that names exactly one: "16x H100 + all2all" names alltoall. None otherwise."""
    names = {match.lastgroup for match in _ANY_NAME.finditer(text.translate(_PLAIN_CHARACTERS))}
    return names.pop() if len(names) == 1 else None


def rank_bounds(collective: Collective, low: float, high: float) -> tuple[int, int] | None:
    """Returns the minimum and maximum number of ranks for busbw / algbw from `low` to `high`; None if no number fits.

    A maximum of 0 means unbounded. If the ratio is always 1, the result is (2, 0): the number of ranks is unknown.
    """
    if collective.has_constant_ratio:
        return (2, 0) if low <= 1.0 <= high else None
    ceiling = collective.ratio_limit
    # ratio = ceiling * (1 - 1/n), so n = ceiling / (ceiling - ratio)
    if low >= ceiling or high < 0:
        return None
    # The number of ranks tolerates a rounding error, so that 7.9999999999 counts as 8.
    min_ranks = max(1, math.ceil(ceiling / (ceiling - max(low, 0.0)) - 1e-9))
    if high >= ceiling:
        return (min_ranks, 0)
    max_ranks = math.floor(ceiling / (ceiling - high) + 1e-9)
    return (min_ranks, max_ranks) if min_ranks <= max_ranks else None


def names_with_columns(*, has_operator: bool, has_root: bool) -> frozenset[str]:
    """Returns the collectives that match a row with or without an operator and a root."""
    # `Collective.redop` states if rows of a collective have an operator: always, never or sometimes.
    unexpected = "never" if has_operator else "always"
    return frozenset(
        entry.name for entry in collectives().values() if entry.redop != unexpected and entry.has_root == has_root
    )
