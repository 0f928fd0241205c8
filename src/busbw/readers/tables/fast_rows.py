"""Fast parser for the most frequent row: 13 words, both placements checked, bandwidths with two decimals.

It accepts a row only if the figures agree within their rounding to first order, which is slightly stricter than
`arithmetic`. The full parser handles all other rows. Both produce the same result.
"""

from msgspec import Struct

from busbw.logs import Figure
from busbw.readers.tables.quantities import DTYPES, REDOPS

WORDS = 13
_TWO_DECIMALS = 0.005
_MIN_TIME_US = 1.0
"""Below this time, rounding is a large part of the value and the first-order check is not valid."""


class SplitLine(Struct, frozen=True, gc=False):
    """A row that is split into words but not parsed."""

    number: int
    words: list[str]


def is_fast_row(words: list[str]) -> bool:
    """True if 13 words may be a row for the fast parser."""
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
    """Returns the figures of one placement; None if the full parser is needed."""
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
    if time_us < _MIN_TIME_US:
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
