"""Grades per band of sizes, from figures and their ranges."""

import itertools
from collections.abc import Sequence
from typing import Literal

from busbw.expect import ExpectedRange
from busbw.judge.series import Series, SeriesPoint
from busbw.judge.types import BandVerdict, Grade, JudgedFigure
from busbw.judge.yardstick import Yardstick
from busbw.statistics.bands import BANDS, BandName
from busbw.units import count_text, size_text

_NOISY = 0.30
"""Maximum relative difference between placements or passes of one size on a quiet machine."""
_MIN_DROP, _NOISY_DROPS = 0.15, 2
"""Two drops of the time by 15 % between increasing sizes indicate a busy machine. One may be a switch of protocol."""
_SINGLE_SIZE_FACTOR = 1.2
"""A band with a single size is slow only beyond the range by this factor, because no neighbor can confirm it."""
_MAX_NAMED = 3


def grade_bands(series: Series, yardstick: Yardstick) -> tuple[BandVerdict, ...]:
    """Returns a verdict for each band in which run and yardstick have a common size."""
    by_band: dict[BandName, list[tuple[SeriesPoint, JudgedFigure]]] = {}
    for point in series.points:
        limits = yardstick.range_us(point.size_bytes, point.placement)
        if limits is not None:
            by_band.setdefault(yardstick.band(point.size_bytes), []).append((point, _judge(point, limits)))
    return tuple(_grade(band, by_band[band]) for band in BANDS if band in by_band)


def _judge(point: SeriesPoint, limits: ExpectedRange) -> JudgedFigure:
    outcome: Literal["inside", "slower", "faster", "unclear"] = "inside"
    low, high = point.interval_us or (point.time_us, point.time_us)
    if low > limits.high:
        # A spread of the iterations that exceeds the excess time indicates a busy machine.
        outcome = "slower" if point.time_us / (1 + (point.spread or 0.0)) > limits.high else "unclear"
    elif high < limits.low:
        outcome = "faster"
    elif high > limits.high and point.interval_us is not None:
        outcome = "unclear"
    return JudgedFigure(
        size_bytes=point.size_bytes,
        placement=point.placement,
        time_us=point.time_us,
        busbw_gbps=point.busbw_gbps,
        range_us=limits,
        outcome=outcome,
    )


def _grade(band: BandName, pairs: Sequence[tuple[SeriesPoint, JudgedFigure]]) -> BandVerdict:
    judged = [one for _, one in pairs]
    sizes = sorted({one.size_bytes for one in judged})
    slow = [size for size in sizes if _all(judged, size, "slower")]
    unclear = [size for size in sizes if _any(judged, size, "unclear")]
    noisy = [size for size in sizes if _is_noisy([point for point, one in pairs if one.size_bytes == size])]
    if _drops([point for point, _ in pairs]) >= _NOISY_DROPS:
        noisy = sizes
    worst = max(judged, key=lambda one: one.time_us / one.range_us.high)
    grade, reason = _grade_from_counts(sizes, slow, unclear, noisy, worst)
    return BandVerdict(band=band, grade=grade, reason=reason, judged=tuple(judged), worst=worst)


def _all(judged: Sequence[JudgedFigure], size: int, outcome: str) -> bool:
    return all(one.outcome == outcome for one in judged if one.size_bytes == size)


def _any(judged: Sequence[JudgedFigure], size: int, outcome: str) -> bool:
    return any(one.outcome == outcome for one in judged if one.size_bytes == size)


def _is_noisy(points: Sequence[SeriesPoint]) -> bool:
    times = [point.time_us for point in points]
    return max(times) > (1 + _NOISY) * min(times)


def _drops(points: Sequence[SeriesPoint]) -> int:
    """Counts sizes that took much less time than the next smaller size, which no link explains."""
    found = 0
    for placement in {point.placement for point in points}:
        times = [point.time_us for point in points if point.placement == placement]
        found += sum(after < (1 - _MIN_DROP) * before for before, after in itertools.pairwise(times))
    return found


def _grade_from_counts(
    sizes: Sequence[int], slow: Sequence[int], unclear: Sequence[int], noisy: Sequence[int], worst: JudgedFigure
) -> tuple[Grade, str]:
    if len(noisy) == len(sizes) > 1:
        return "UNSURE", "times drop repeatedly with growing size, or placements disagree: measure longer (-n 200)"
    neighbors = any(one in slow and other in slow for one, other in itertools.pairwise(sizes))
    if neighbors or (slow and len(sizes) == 1 and worst.time_us > _SINGLE_SIZE_FACTOR * worst.range_us.high):
        return "SLOW", f"{len(slow)} of {count_text(len(sizes), 'size')} slower than the range"
    if len(sizes) == 1 and slow:
        return "UNSURE", "only one size, just beyond the range: measure its neighbors too (-f 2)"
    if 2 * len(unclear) >= len(sizes):
        return "UNSURE", f"too noisy at {count_text(len(unclear), 'size')}: measure longer (-n 200, --target-ci 2%)"
    if 2 * len(noisy) > len(sizes):
        return (
            "UNSURE",
            f"the placements of {count_text(len(noisy), 'size')} disagree: measure longer on a quiet machine",
        )
    if len(slow) > 1 or 3 * len(slow) > len(sizes):
        more = f" and {len(slow) - _MAX_NAMED} more" if len(slow) > _MAX_NAMED else ""
        named = f"{', '.join(map(size_text, slow[:_MAX_NAMED]))}{more}"
        apart = f"{len(slow)} of {count_text(len(sizes), 'size')} slower than the range, none adjacent ({named})"
        return "UNSURE", f"{apart}: measure again and longer (-n 200)"
    if slow:
        return "GOOD", f"only {size_text(slow[0])} is beyond the range, its neighbors are not"
    return "GOOD", "every size within the range or better"
