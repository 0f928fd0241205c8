"""The short way for the row that logs consist of: thirteen words, both placements checked, two decimals.

It takes a row only where the arithmetic agrees within the printed digits to the first order, which is a little less
than `arithmetic` allows; everything else goes the long way. What it makes is the same.
"""

from msgspec import Struct

from busbw.logs import Figure
from busbw.readers.tables.quantities import DTYPES, REDOPS

WORDS = 13
_TWO_DECIMALS = 0.005
_SHORTEST_US = 1.0
"""Below it the rounding of a time is no small part of it."""


class SplitLine(Struct, frozen=True, gc=False):
    """A row that was only split into its words."""

    number: int
    words: list[str]


def is_fast_row(words: list[str]) -> bool:
    """Whether words, of which there are 13, may be such a row."""
    root = words[4]
    return (
        words[2] in DTYPES
        and words[0].isdecimal()
        and words[1].isdecimal()
        and len(words[0]) < 19 > len(words[1])
        and words[3] in REDOPS
        and (root == "-1" or (root.isdecimal() and len(root) < 10))
    )


def figure(size: int, time: str, algbw: str, busbw: str, wrong: str, factor: float | None) -> Figure | None:
    """One placement, or None where it takes the long way."""
    if wrong != "0" or algbw[-3:-2] != "." or busbw[-3:-2] != ".":
        return None
    if time[-3:-2] == ".":
        step = 0.005
    elif time[-2:-1] == ".":
        step = 0.05
    elif time.isdecimal():
        step = 0.5
    else:
        return None
    try:
        time_us, algbw_gbps, busbw_gbps = float(time), float(algbw), float(busbw)
    except ValueError:
        return None
    if time_us < _SHORTEST_US:
        return None
    rate = size / (time_us * 1e3)
    slack = rate * step / time_us
    if not -_TWO_DECIMALS - slack <= algbw_gbps - rate <= _TWO_DECIMALS + slack:
        return None
    if factor is not None and not (
        -_TWO_DECIMALS - factor * slack <= busbw_gbps - factor * rate <= _TWO_DECIMALS + factor * slack
    ):
        return None
    return Figure(time_us=time_us, algbw_gbps=algbw_gbps, busbw_gbps=busbw_gbps, check="checked", wrong_elements=0)
