"""Interval arithmetic on printed figures: checks whether bytes, time and bandwidths agree.

algbw = bytes / time and busbw = algbw x factor hold for the measured numbers, but the printed ones are rounded. So each
figure stands for an interval: the values that round to it. Two figures contradict each other if their intervals are
disjoint. EPSILON is the only additional tolerance.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import product
from typing import NamedTuple

from busbw.readers.tables.layouts import PlacementText, RawRow
from busbw.readers.tables.quantities import ELEMENT_BYTES, NO_NUMBER, half_step

EPSILON = 1e-3
"""Relative tolerance beyond rounding, because some programs print a mean of rates next to a rate of means."""

UNITS_US = {"us": 1.0, "ms": 1e3, "s": 1e6, "ns": 1e-3}
"""Microseconds per unit of time."""

GBPS_PER_UNIT = {"GB/s": 1.0, "GiB/s": 2**30 / 1e9}
"""GB/s per unit of bandwidth."""
_MAX_INFORMATIVE_WIDTH = 0.02
"""A ratio with a narrower interval is informative: precise enough to distinguish numbers of ranks."""
_INFINITE = float("inf")


class PlacementNumbers(NamedTuple):
    """Figures of one placement, each with its half step (see `half_step`), which is the maximum rounding error.

    A figure is None if no number is printed. Times and bandwidths are in the units of the table.
    """

    time: float | None
    time_half_step: float
    algbw: float | None
    algbw_half_step: float
    busbw: float | None
    busbw_half_step: float


def parse_numbers(texts: PlacementText) -> PlacementNumbers:
    """Converts the printed figures of one placement to numbers."""
    time, algbw, busbw = texts.time, texts.algbw, texts.busbw
    return PlacementNumbers(
        None if time in NO_NUMBER else float(time),
        0.0 if time in NO_NUMBER else half_step(time),
        None if not algbw or algbw in NO_NUMBER else float(algbw),
        0.0 if not algbw or algbw in NO_NUMBER else half_step(algbw),
        None if not busbw or busbw in NO_NUMBER else float(busbw),
        0.0 if not busbw or busbw in NO_NUMBER else half_step(busbw),
    )


class Interpretation(NamedTuple):
    """Assumptions about a table: the units of its times and bandwidths, and the data that algbw counts."""

    unit: str = "us"
    excludes_own_share: bool = False
    """True if algbw counts only the shares of other ranks: hypercube, and all_gather until 2019."""
    has_time: bool = True
    """False with -C: algbw is not computed from the printed time."""
    bandwidth_unit: str = "GB/s"
    """GiB/s if the program prints GiB/s, whatever its header states."""

    def data_bytes(self, raw: RawRow) -> int:
        """Returns the number of bytes that algbw is computed from."""
        if self.excludes_own_share and raw.dtype and raw.elements:
            return raw.size - raw.elements * ELEMENT_BYTES[raw.dtype]
        return raw.size

    def rate(self, raw: RawRow, numbers: PlacementNumbers) -> tuple[float, float]:
        """Returns the bounds of bytes / time in the unit of bandwidth; (0, inf) if the row has no usable time."""
        time = numbers.time
        if time is None or not self.has_time:
            return (0.0, _INFINITE)
        # Bytes per us are 1e-3 GB/s.
        scale = self.data_bytes(raw) / (UNITS_US[self.unit] * 1e3 * GBPS_PER_UNIT[self.bandwidth_unit])
        low = scale / (time + numbers.time_half_step) if time + numbers.time_half_step > 0 else _INFINITE
        high = scale / (time - numbers.time_half_step) if time > numbers.time_half_step else _INFINITE
        return (low, high)

    def is_consistent(self, raw: RawRow, numbers: PlacementNumbers) -> bool:
        """True if the printed algbw agrees with bytes / time."""
        return is_algbw_near(self.rate(raw, numbers), numbers)


def is_algbw_near(rate: tuple[float, float], numbers: PlacementNumbers) -> bool:
    """True if algbw is unknown, or agrees with the bounds of bytes / time."""
    if numbers.algbw is None:
        return True
    low, high = rate
    min_algbw, max_algbw = numbers.algbw - numbers.algbw_half_step, numbers.algbw + numbers.algbw_half_step
    return max_algbw >= low * (1 - EPSILON) and min_algbw <= high * (1 + EPSILON)


def best_interpretation(
    rows: Iterable[tuple[RawRow, tuple[PlacementNumbers, ...]]],
    preferred: Interpretation,
    bandwidth_units: Sequence[str],
) -> tuple[Interpretation, int]:
    """Returns the interpretation with the fewest contradictions, and their number. On a tie, `preferred` wins."""
    rows = list(rows)
    if not preferred.has_time:
        return preferred, 0  # no algbw is compared with bytes / time
    best, min_count = preferred, count_contradictions(rows, preferred)
    if min_count == 0:
        return best, 0
    for unit, excludes_own_share, bandwidth_unit in product(UNITS_US, (False, True), bandwidth_units):
        interpretation = Interpretation(unit, excludes_own_share, bandwidth_unit=bandwidth_unit)
        count = count_contradictions(rows, interpretation)
        if count < min_count:
            best, min_count = interpretation, count
    return best, min_count


def count_contradictions(
    rows: Iterable[tuple[RawRow, tuple[PlacementNumbers, ...]]], interpretation: Interpretation
) -> int:
    """Returns the number of placements that the interpretation contradicts."""
    return sum(not interpretation.is_consistent(raw, numbers) for raw, placements in rows for numbers in placements)


class RatioInterval(NamedTuple):
    """Interval of possible values of busbw / algbw."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """Midpoint of the interval."""
        return (self.low + self.high) / 2

    @property
    def tolerant_bounds(self) -> tuple[float, float]:
        """Lower and upper bound of the interval, extended by EPSILON."""
        return self.low / (1 + EPSILON), self.high / (1 - EPSILON)

    def contains(self, value: float) -> bool:
        """True if the interval, extended by EPSILON, contains the value."""
        low, high = self.tolerant_bounds
        return low <= value <= high

    def overlaps(self, other: "RatioInterval") -> bool:
        """True if the intervals overlap, with EPSILON as tolerance."""
        low, high = self.tolerant_bounds
        return low <= other.high and other.low <= high


def ratio(rate: tuple[float, float], numbers: PlacementNumbers) -> RatioInterval | None:
    """Returns busbw / algbw of one placement; None if it is unknown or unbounded. `rate`: bounds of bytes / time."""
    if numbers.busbw is None:
        return None
    low, high = rate
    if numbers.algbw is not None:  # bytes / time and the printed algbw both bound the measured algbw
        low, high = (
            max(low, numbers.algbw - numbers.algbw_half_step),
            min(high, numbers.algbw + numbers.algbw_half_step),
        )
    if not 0 < low <= high < _INFINITE:
        return None
    return RatioInterval(
        max(0.0, numbers.busbw - numbers.busbw_half_step) / high, (numbers.busbw + numbers.busbw_half_step) / low
    )


class CommonRatio(NamedTuple):
    """Ratio on which the figures of a table agree."""

    ratio: RatioInterval | None
    """None if no figure is precise enough."""
    informative_count: int
    """Number of figures that are precise enough to use."""
    contradicting_count: int
    """Number of informative figures that contradict the ratio."""


def common_ratio(intervals: Iterable[RatioInterval]) -> CommonRatio:
    """Returns the ratio with the most agreeing informative figures, so that a few wrong ones do not matter.

    At least one of the points that lie in the most intervals is a lower bound. So only lower bounds are tried. Of
    equally good ones, the highest wins.
    """
    informative = [interval for interval in intervals if interval.high - interval.low < _MAX_INFORMATIVE_WIDTH]
    if not informative:
        return CommonRatio(None, 0, 0)
    begins = sorted(interval.tolerant_bounds[0] for interval in informative)
    ends = sorted(interval.tolerant_bounds[1] for interval in informative)

    def count_at(point: float) -> int:
        begun_count, ended_count = bisect_right(begins, point), bisect_left(ends, point)
        return begun_count - ended_count

    shared_value = max(begins, key=lambda begin: (count_at(begin), begin))
    agreeing = [interval for interval in informative if interval.contains(shared_value)]
    low, high = max(interval.low for interval in agreeing), min(interval.high for interval in agreeing)
    if low > high:  # the intervals overlap only with the tolerance
        low = high = (low + high) / 2
    return CommonRatio(RatioInterval(low, high), len(informative), len(informative) - len(agreeing))
