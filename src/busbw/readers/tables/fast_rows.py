"""Fast parser for the most frequent row: 13 words, both placements checked, bandwidths with two decimals.

It accepts a row only if the figures agree within their rounding, by bounds that are stricter than those of
arithmetic.py. The full parser (layouts.py) handles all other rows. Both give equal results.
"""

from msgspec import Struct

from busbw.readers.tables.plain_rows import PlainFigures
from busbw.readers.tables.quantities import DTYPES, REDOPS

WORD_COUNT = 13
"""Size, count, type, operator, root, then time, algbw, busbw and wrong elements of both placements."""
_BANDWIDTH_HALF_STEP_GBPS = 0.005
"""Maximum rounding error in GB/s of a bandwidth with two decimals."""
_MIN_TIME_US = 1.0
"""Below this time, rounding is a large part of the value."""


class SplitLine(Struct, frozen=True, gc=False):
    """A row that is split into words but not parsed."""

    line: int
    text: str
    words: list[str]


def is_fast_row(words: list[str]) -> bool:
    """True if the first five and the last of 13 words are those of a row. `parse_figures` checks the others."""
    root = words[4]
    return (
        words[2] in DTYPES
        and words[0].isdecimal()
        and words[1].isdecimal()
        and len(words[0]) < 19  # fits into 64 bits
        and len(words[1]) < 19
        and words[3] in REDOPS
        and (root == "-1" or (root.isdecimal() and len(root) < 10))  # fits into 32 bits
        and (words[12].isdecimal() or words[12] == "N/A")
    )


def parse_figures(size: int, words: list[str], factor: float | None) -> tuple[PlainFigures, PlainFigures] | None:
    """Parses the figures out of place and in place. Returns None if the full parser is needed.

    Args:
        size: Size in bytes.
        words: Words of the row: from the sixth on time in us, algbw and busbw in GB/s and wrong elements, twice.
        factor: busbw / algbw of the table. None if unknown: busbw is not checked.
    """
    _, _, _, _, _, time, algbw, busbw, wrong, time_in_place, algbw_in_place, busbw_in_place, wrong_in_place = words
    if wrong != "0" or wrong_in_place != "0":
        return None
    # Python also parses "1_0.00" and "-0.00".
    if not f"{time}{algbw}{busbw}{time_in_place}{algbw_in_place}{busbw_in_place}".replace(".", "").isdecimal():
        return None
    out_of_place = _parse_placement(size, time, algbw, busbw, factor)
    in_place = out_of_place and _parse_placement(size, time_in_place, algbw_in_place, busbw_in_place, factor)
    return (out_of_place, in_place) if out_of_place and in_place else None


def _parse_placement(size: int, time: str, algbw: str, busbw: str, factor: float | None) -> PlainFigures | None:
    """Parses figures that consist of digits and points."""
    if algbw[-3:-2] != "." or busbw[-3:-2] != ".":
        return None
    if time[-3:-2] == ".":
        time_half_step_us = 0.005
    elif time[-2:-1] == ".":
        time_half_step_us = 0.05
    elif time.isdecimal():
        time_half_step_us = 0.5
    else:
        return None
    try:
        time_us, algbw_gbps, busbw_gbps = float(time), float(algbw), float(busbw)
    except ValueError:
        return None
    if time_us < _MIN_TIME_US:
        return None
    rate_gbps = size / (time_us * 1e3)  # GB/s
    # Effect of the rounded time on the rate: the smaller of those upwards and downwards.
    slack_gbps = rate_gbps * time_half_step_us / (time_us + time_half_step_us)
    if abs(algbw_gbps - rate_gbps) > _BANDWIDTH_HALF_STEP_GBPS + slack_gbps:
        return None
    if factor is not None:
        if abs(busbw_gbps - factor * rate_gbps) > _BANDWIDTH_HALF_STEP_GBPS + factor * slack_gbps:
            return None
        if abs(busbw_gbps - factor * algbw_gbps) > (1 + factor) * _BANDWIDTH_HALF_STEP_GBPS:
            return None
    return PlainFigures(time_us, algbw_gbps, busbw_gbps)
