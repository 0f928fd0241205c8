"""Interval arithmetic on printed figures: checks whether bytes, time and bandwidths agree.

algbw = bytes / time and busbw = algbw x factor hold for the measured numbers, but the printed ones are rounded. So each
figure is an interval given by its last digit, and a contradiction is two disjoint intervals. EPSILON is the only
additional tolerance.
"""

from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple

from busbw.readers.tables.layouts import PlacementText, RawRow
from busbw.readers.tables.quantities import ELEMENT_BYTES, NO_NUMBER, half_step

EPSILON = 1e-3
"""Relative tolerance beyond rounding, because some programs print a mean of rates next to a rate of means."""

UNITS_US = {"us": 1.0, "ms": 1e3, "s": 1e6, "ns": 1e-3}
_NARROW = 0.02
_INFINITE = float("inf")


class PlacementNumbers(NamedTuple):
    """Figures of one placement, each with half the value of its last digit. None if no number is printed."""

    time: float | None
    time_step: float
    algbw: float | None
    algbw_step: float
    busbw: float | None
    busbw_step: float


def placement_numbers(side: PlacementText) -> PlacementNumbers:
    """Converts the printed figures of one placement to numbers."""
    time, algbw, busbw = side.time, side.algbw, side.busbw
    return PlacementNumbers(
        None if time in NO_NUMBER else float(time),
        0.0 if time in NO_NUMBER else half_step(time),
        None if not algbw or algbw in NO_NUMBER else float(algbw),
        0.0 if not algbw or algbw in NO_NUMBER else half_step(algbw),
        None if not busbw or busbw in NO_NUMBER else float(busbw),
        0.0 if not busbw or busbw in NO_NUMBER else half_step(busbw),
    )


class Interpretation(NamedTuple):
    """Assumptions about a table: the unit of its times, and the data that algbw counts."""

    unit: str = "us"
    excludes_own_share: bool = False
    """True if algbw counts only the shares of other ranks: hypercube, and all_gather until 2019."""
    has_time: bool = True
    """False with -C: algbw is not computed from the printed time."""

    def data_bytes(self, raw: RawRow) -> int:
        """Returns the number of bytes that algbw is computed from."""
        if self.excludes_own_share and raw.dtype:
            return raw.size - raw.elements * ELEMENT_BYTES[raw.dtype]
        return raw.size

    def rate(self, raw: RawRow, side: PlacementNumbers) -> tuple[float, float]:
        """Returns the lower and upper bound of bytes / time in GB/s; (0, inf) if there is no time."""
        time = side.time
        if time is None or not self.has_time:
            return (0.0, _INFINITE)
        scale = self.data_bytes(raw) / (UNITS_US[self.unit] * 1e3)
        low = scale / (time + side.time_step) if time + side.time_step > 0 else _INFINITE
        high = scale / (time - side.time_step) if time > side.time_step else _INFINITE
        return (low, high)

    def agrees(self, raw: RawRow, side: PlacementNumbers) -> bool:
        """True if the printed algbw agrees with bytes / time."""
        if side.algbw is None:
            return True
        low, high = self.rate(raw, side)
        return side.algbw + side.algbw_step >= low * (1 - EPSILON) and side.algbw - side.algbw_step <= high * (
            1 + EPSILON
        )


def best_interpretation(
    rows: Iterable[tuple[RawRow, tuple[PlacementNumbers, ...]]], first: Interpretation
) -> tuple[Interpretation, int]:
    """Returns the interpretation with the fewest contradictions and their number. On a tie, `first` wins."""
    rows = list(rows)
    if not first.has_time:
        return first, 0
    best, fewest = first, contradictions(rows, first)
    if fewest == 0:
        return best, 0
    for unit in UNITS_US:
        for excludes in (False, True):
            interpretation = Interpretation(unit, excludes)
            count = contradictions(rows, interpretation)
            if count < fewest:
                best, fewest = interpretation, count
    return best, fewest


def contradictions(rows: Iterable[tuple[RawRow, tuple[PlacementNumbers, ...]]], interpretation: Interpretation) -> int:
    """Returns the number of placements that contradict the interpretation."""
    return sum(not interpretation.agrees(raw, side) for raw, sides in rows for side in sides)


class RatioInterval(NamedTuple):
    """Interval of possible values of busbw / algbw."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """Midpoint of the interval."""
        return (self.low + self.high) / 2

    @property
    def edges(self) -> tuple[float, float]:
        """Lower and upper bound of the interval, extended by EPSILON."""
        return self.low / (1 + EPSILON), self.high / (1 - EPSILON)

    def meets(self, value: float) -> bool:
        """True if the interval, extended by EPSILON, contains the value."""
        low, high = self.edges
        return low <= value <= high

    def overlaps(self, other: "RatioInterval") -> bool:
        """True if the intervals overlap, with EPSILON as tolerance."""
        low, high = self.edges
        return low <= other.high and other.low <= high


def ratio(raw: RawRow, side: PlacementNumbers, interpretation: Interpretation) -> RatioInterval | None:
    """Returns busbw / algbw of one placement; None if it is unknown or unbounded."""
    if side.busbw is None or raw.size == 0:
        return None
    low, high = interpretation.rate(raw, side)
    if side.algbw is not None:
        low, high = max(low, side.algbw - side.algbw_step), min(high, side.algbw + side.algbw_step)
    if not 0 < low <= high < _INFINITE:
        return None
    return RatioInterval(max(0.0, side.busbw - side.busbw_step) / high, (side.busbw + side.busbw_step) / low)


class CommonRatio(NamedTuple):
    """Ratio on which the figures of a table agree."""

    ratio: RatioInterval | None
    """None if no figure is precise enough."""
    informative: int
    """Number of figures that are precise enough to use."""
    contradicting: int
    """Number of informative figures that contradict the ratio."""


def common_ratio(intervals: Iterable[RatioInterval]) -> CommonRatio:
    """Returns the ratio with the most agreeing informative figures, so that a few wrong ones do not matter.

    The maximum overlap of intervals always includes the lower edge of one of them. Of equal maxima, the higher wins.
    """
    informative = [it for it in intervals if it.high - it.low < _NARROW]
    if not informative:
        return CommonRatio(None, 0, 0)
    begins = sorted(it.edges[0] for it in informative)
    ends = sorted(it.edges[1] for it in informative)
    _, shared_value = max((begun - bisect_left(ends, at), at) for begun, at in enumerate(begins, start=1))
    agreeing = [it for it in informative if it.meets(shared_value)]
    low, high = max(it.low for it in agreeing), min(it.high for it in agreeing)
    if low > high:  # the intervals overlap only within the tolerance
        low = high = (low + high) / 2
    return CommonRatio(RatioInterval(low, high), len(informative), len(informative) - len(agreeing))
