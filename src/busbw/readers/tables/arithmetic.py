"""What printed figures can mean: intervals from their last digits, and whether bytes, time and bandwidths agree.

algbw = bytes / time and busbw = algbw x factor hold for the numbers that were measured; what is printed is rounded. So
a figure is an interval, a contradiction is two intervals that do not meet, and no tolerance is made up.
"""

from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple

from busbw.readers.tables.layouts import PlacementText, RawRow
from busbw.readers.tables.quantities import ELEMENT_BYTES, NO_NUMBER, half_step

EPSILON = 1e-3
"""On top of rounding: programs that print a mean of rates beside a rate of means."""

UNITS_US = {"us": 1.0, "ms": 1e3, "s": 1e6, "ns": 1e-3}
_NARROW = 0.02
_INFINITE = float("inf")


class PlacementNumbers(NamedTuple):
    """One placement's figures with half of their last digits; None where no number is printed."""

    time: float | None
    time_step: float
    algbw: float | None
    algbw_step: float
    busbw: float | None
    busbw_step: float


def printed(side: PlacementText) -> PlacementNumbers:
    """The numbers of a side."""
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
    """How a table's times and bandwidths are to be read."""

    unit: str = "us"
    excludes_own_share: bool = False
    """algbw counts the shares of the others only: hypercube, and all_gather until 2019."""
    has_time: bool = True
    """False with -C: the time shown is not the time that algbw is made of."""

    def data_bytes(self, raw: RawRow) -> int:
        """The bytes that algbw is made of."""
        if self.excludes_own_share and raw.dtype:
            return raw.size - raw.elements * ELEMENT_BYTES[raw.dtype]
        return raw.size

    def rate(self, raw: RawRow, side: PlacementNumbers) -> tuple[float, float]:
        """The least and the most GB/s that bytes over time can be; (0, inf) where there is no time."""
        time = side.time
        if time is None or not self.has_time:
            return (0.0, _INFINITE)
        scale = self.data_bytes(raw) / (UNITS_US[self.unit] * 1e3)
        low = scale / (time + side.time_step) if time + side.time_step > 0 else _INFINITE
        high = scale / (time - side.time_step) if time > side.time_step else _INFINITE
        return (low, high)

    def agrees(self, raw: RawRow, side: PlacementNumbers) -> bool:
        """Whether the printed algbw can be bytes over time."""
        if side.algbw is None:
            return True
        low, high = self.rate(raw, side)
        return side.algbw + side.algbw_step >= low * (1 - EPSILON) and side.algbw - side.algbw_step <= high * (
            1 + EPSILON
        )


def best_basis(
    rows: Iterable[tuple[RawRow, tuple[PlacementNumbers, ...]]], first: Interpretation
) -> tuple[Interpretation, int]:
    """The reading of a table that the fewest figures contradict, the given one before all others; and how many do."""
    rows = list(rows)
    if not first.has_time:
        return first, 0
    best, fewest = first, contradictions(rows, first)
    if fewest == 0:
        return best, 0
    for unit in UNITS_US:
        for less in (False, True):
            basis = Interpretation(unit, less)
            count = contradictions(rows, basis)
            if count < fewest:
                best, fewest = basis, count
    return best, fewest


def contradictions(rows: Iterable[tuple[RawRow, tuple[PlacementNumbers, ...]]], basis: Interpretation) -> int:
    """How many placements the reading does not fit."""
    return sum(not basis.agrees(raw, side) for raw, sides in rows for side in sides)


class RatioInterval(NamedTuple):
    """What the ratio of busbw and algbw can be."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """Halfway."""
        return (self.low + self.high) / 2

    @property
    def edges(self) -> tuple[float, float]:
        """The least and the most that it meets: a little more than rounding allows."""
        return self.low / (1 + EPSILON), self.high / (1 - EPSILON)

    def meets(self, value: float) -> bool:
        """Whether the value is in it, with a little tolerance."""
        low, high = self.edges
        return low <= value <= high

    def overlaps(self, other: "RatioInterval") -> bool:
        """Whether one value can be in both, with the same tolerance."""
        low, high = self.edges
        return low <= other.high and other.low <= high


def ratio(raw: RawRow, side: PlacementNumbers, basis: Interpretation) -> RatioInterval | None:
    """Busbw over algbw in one placement; None where it is unknown or could be anything."""
    if side.busbw is None or raw.size == 0:
        return None
    low, high = basis.rate(raw, side)
    if side.algbw is not None:
        low, high = max(low, side.algbw - side.algbw_step), min(high, side.algbw + side.algbw_step)
    if not 0 < low <= high < _INFINITE:
        return None
    return RatioInterval(max(0.0, side.busbw - side.busbw_step) / high, (side.busbw + side.busbw_step) / low)


class CommonRatio(NamedTuple):
    """The ratio that a table's figures have in common."""

    ratio: RatioInterval | None
    """None where no figure tells it."""
    informative: int
    """Figures that say it closely enough to be heard."""
    contradicting: int
    """Those of them that contradict it."""


def common_ratio(intervals: Iterable[RatioInterval]) -> CommonRatio:
    """The ratio at which the most of the telling figures meet: some wrong ones among many right ones do no harm.

    As many meet somewhere as at the lower edge of one of them. Where two places have equally many, the higher counts.
    """
    telling = [it for it in intervals if it.high - it.low < _NARROW]
    if not telling:
        return CommonRatio(None, 0, 0)
    begins = sorted(it.edges[0] for it in telling)
    ends = sorted(it.edges[1] for it in telling)
    _, meeting = max((begun - bisect_left(ends, at), at) for begun, at in enumerate(begins, start=1))
    agreeing = [it for it in telling if it.meets(meeting)]
    low, high = max(it.low for it in agreeing), min(it.high for it in agreeing)
    if low > high:  # they meet in the tolerance only
        low = high = (low + high) / 2
    return CommonRatio(RatioInterval(low, high), len(telling), len(telling) - len(agreeing))
