"""Patterns for bad values in the tables of checks, such as "LOC|0", "<18", "&8" or "*LL*"."""

import operator
from collections.abc import Callable
from fnmatch import fnmatchcase

_COMPARISONS: dict[str, Callable[[int, int], object]] = {"<": operator.lt, ">": operator.gt, "&": operator.and_}
_MAX_DIGITS = 18
"""Longer values never match. `int` refuses several thousand digits."""


def matches(value: str, pattern: str) -> bool:
    """True if a value matches one of the alternatives in a pattern, which "|" separates.

    "<N" and ">N" compare a whole number with N. "&N" is for a number that has a bit of N. Any other alternative is a
    text, with the wildcards of `fnmatch`. Upper and lower case are equal.
    """
    return any(_matches_one(value.upper(), alternative) for alternative in pattern.split("|"))


def _matches_one(value: str, alternative: str) -> bool:
    compare = _COMPARISONS.get(alternative[0])
    if compare is None:
        return fnmatchcase(value, alternative.upper())
    return value.isdecimal() and len(value) <= _MAX_DIGITS and bool(compare(int(value), int(alternative[1:])))
