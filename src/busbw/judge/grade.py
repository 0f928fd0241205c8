"""Decides the grade of a configuration, and of each of its bands of sizes.

`_compare_with_range` compares each figure with its range: inside, slower, faster or unclear. `_decide_band_grade` makes
the grade of a band from the outcomes at its sizes. A single slow size is not enough for SLOW: its neighbor must be slow
too. `decide` makes the grade of the configuration from its bands and all other evidence.
"""

import itertools
from collections.abc import Sequence
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from busbw.expect import ExpectedRange
from busbw.judge.series import Series, SeriesPoint
from busbw.judge.types import BandVerdict, Grade, JudgedFigure, Reason, worst
from busbw.judge.yardstick import Yardstick
from busbw.statistics.bands import BANDS, BandName
from busbw.units import count_text, size_text

_MAX_QUIET_DIFFERENCE = 0.30
"""Maximum relative difference between the placements of one size on a quiet machine."""
_MIN_DROP = 0.15
"""Minimum relative decrease of the time from one size to the next larger one that counts as a drop."""
_MIN_NOISY_DROPS = 2
"""Number of drops that indicate a busy machine. The library's switch to another protocol may cause a single drop."""
_MIN_SINGLE_SIZE_FACTOR = 1.2
"""A band with a single size is slow only beyond the range by this factor, because no neighbor can confirm it."""
_MAX_NAMED_SIZES = 3
"""Maximum number of sizes that a reason names."""


class Evidence(Struct, kw_only=True, frozen=True):
    """All facts that the grade of a configuration depends on. None and empty: not the case."""

    wrong_data: tuple[Reason, ...] = ()
    obstacles: tuple[Reason, ...] = ()
    """Reasons why the figures cannot be judged."""
    bands: tuple[BandVerdict, ...] = ()
    doubts: tuple[Reason, ...] = ()
    """Facts that do not allow GOOD, such as a missing end of the run."""
    refused_rows: Reason | None = None
    assumed_nics: Reason | None = None
    """Set if the ranges assume NICs that may be faster than the actual ones."""


class Decision(NamedTuple):
    """Grade of a configuration with its reasons, the most important first."""

    grade: Grade
    reasons: tuple[Reason, ...]
    bands: tuple[BandVerdict, ...] = ()


def decide(evidence: Evidence) -> Decision:
    """Decides the grade: BROKEN for wrong data, UNSURE for an obstacle, otherwise the worst grade of the bands.

    SLOW becomes UNSURE if the NICs are assumed. GOOD becomes UNSURE if there are doubts or refused rows.
    """
    if evidence.wrong_data:
        return Decision("BROKEN", evidence.wrong_data)
    if evidence.obstacles:
        return Decision("UNSURE", evidence.obstacles)
    grade, bands = worst([band.grade for band in evidence.bands]), evidence.bands
    band_reasons = [
        Reason("band", f"{band.band}: {band.reason}")
        for band in sorted(bands, key=lambda band: band.grade == "GOOD")  # GOOD bands last
        if band.grade != "GOOD" or band.slow_sizes_bytes
    ]
    reasons = (*band_reasons, *evidence.doubts)
    if grade == "SLOW" and evidence.assumed_nics:
        bands = tuple(replace(band, grade="UNSURE") if band.grade == "SLOW" else band for band in bands)
        return Decision("UNSURE", (evidence.assumed_nics, *(replace(reason, remedy="") for reason in reasons)), bands)
    if grade == "GOOD" and evidence.doubts:
        grade = "UNSURE"
    if grade == "GOOD" and evidence.refused_rows:
        return Decision("UNSURE", (evidence.refused_rows,), bands)
    return Decision(grade, reasons or (Reason("in_range", "every band within its range"),), bands)


def grade_bands(series: Series, yardstick: Yardstick) -> tuple[BandVerdict, ...]:
    """Returns a verdict for each band in which run and yardstick have a common size."""
    by_band: dict[BandName, list[tuple[SeriesPoint, JudgedFigure]]] = {}
    for point in series.points:
        range_us = yardstick.range_us(point.size_bytes, point.placement)
        if range_us is not None:
            by_band.setdefault(yardstick.band(point.size_bytes), []).append(
                (point, _compare_with_range(point, range_us))
            )
    return tuple(_grade_band(band, by_band[band]) for band in BANDS if band in by_band)


def _compare_with_range(point: SeriesPoint, range_us: ExpectedRange) -> JudgedFigure:
    """Compares the time of one figure with its range. Uses the confidence interval of the time if it is known."""
    outcome: Literal["inside", "slower", "faster", "unclear"] = "inside"
    low_us, high_us = point.interval_us or (point.time_us, point.time_us)
    if low_us > range_us.high:
        # A spread of the iterations that exceeds the excess time indicates a busy machine.
        outcome = "slower" if point.time_us / (1 + (point.spread or 0.0)) > range_us.high else "unclear"
    elif high_us < range_us.low:
        outcome = "faster"
    elif high_us > range_us.high and point.interval_us is not None:
        outcome = "unclear"
    return JudgedFigure(
        size_bytes=point.size_bytes,
        placement=point.placement,
        time_us=point.time_us,
        busbw_gbps=point.busbw_gbps,
        range_us=range_us,
        outcome=outcome,
    )


def _grade_band(band: BandName, points_and_figures: Sequence[tuple[SeriesPoint, JudgedFigure]]) -> BandVerdict:
    """Collects the slow, unclear and noisy sizes of a band and grades the band."""
    figures = [figure for _, figure in points_and_figures]
    sizes = sorted({figure.size_bytes for figure in figures})
    slow_sizes = [size_bytes for size_bytes in sizes if _all_have_outcome(figures, size_bytes, "slower")]
    unclear_sizes = [size_bytes for size_bytes in sizes if _any_has_outcome(figures, size_bytes, "unclear")]
    points = [point for point, _ in points_and_figures]
    noisy_sizes = [
        size_bytes for size_bytes in sizes if _is_noisy([point for point in points if point.size_bytes == size_bytes])
    ]
    if _count_drops(points) >= _MIN_NOISY_DROPS:
        noisy_sizes = sizes
    worst_figure = max(figures, key=lambda figure: figure.time_us / figure.range_us.high)
    grade, reason = _decide_band_grade(sizes, slow_sizes, unclear_sizes, noisy_sizes, worst_figure)
    return BandVerdict(
        band=band,
        grade=grade,
        reason=reason,
        slow_sizes_bytes=tuple(slow_sizes),
        judged=tuple(figures),
        worst=worst_figure,
    )


def _all_have_outcome(figures: Sequence[JudgedFigure], size_bytes: int, outcome: str) -> bool:
    return all(figure.outcome == outcome for figure in figures if figure.size_bytes == size_bytes)


def _any_has_outcome(figures: Sequence[JudgedFigure], size_bytes: int, outcome: str) -> bool:
    return any(figure.outcome == outcome for figure in figures if figure.size_bytes == size_bytes)


def _is_noisy(points: Sequence[SeriesPoint]) -> bool:
    """True if the times of one size differ too much between its placements."""
    times_us = [point.time_us for point in points]
    return max(times_us) > (1 + _MAX_QUIET_DIFFERENCE) * min(times_us)


def _count_drops(points: Sequence[SeriesPoint]) -> int:
    """Counts the sizes that took much less time than the next smaller size. The speed of a link cannot explain that."""
    drops = 0
    for placement in {point.placement for point in points}:
        times_us = [point.time_us for point in points if point.placement == placement]
        drops += sum(larger_us < (1 - _MIN_DROP) * smaller_us for smaller_us, larger_us in itertools.pairwise(times_us))
    return drops


def _decide_band_grade(
    sizes: Sequence[int],
    slow_sizes: Sequence[int],
    unclear_sizes: Sequence[int],
    noisy_sizes: Sequence[int],
    worst_figure: JudgedFigure,
) -> tuple[Grade, str]:
    """Decides whether a band is GOOD, SLOW or UNSURE, and returns the reason.

    Args:
        sizes: All sizes of the band in bytes, ascending.
        slow_sizes: Sizes at which every placement is slower than its range.
        unclear_sizes: Sizes with a figure that may be inside its range or slower.
        noisy_sizes: Sizes at which the placements disagree. All sizes if the times drop repeatedly.
        worst_figure: Figure with the highest ratio of its time to the upper end of its range.
    """
    if len(noisy_sizes) == len(sizes) > 1:
        return "UNSURE", "times drop repeatedly with growing size, or placements disagree: measure longer (-n 200)"
    has_adjacent_slow_sizes = any(
        smaller in slow_sizes and larger in slow_sizes for smaller, larger in itertools.pairwise(sizes)
    )
    is_single_size = len(sizes) == 1
    is_far_beyond = worst_figure.time_us > _MIN_SINGLE_SIZE_FACTOR * worst_figure.range_us.high
    if has_adjacent_slow_sizes or (slow_sizes and is_single_size and is_far_beyond):
        return "SLOW", f"{len(slow_sizes)} of {count_text(len(sizes), 'size')} slower than the range"
    if slow_sizes and is_single_size:
        return "UNSURE", "only one size, just beyond the range: measure its neighbors too (-f 2)"
    is_half_unclear = 2 * len(unclear_sizes) >= len(sizes)
    if is_half_unclear:
        return (
            "UNSURE",
            f"too noisy at {count_text(len(unclear_sizes), 'size')}: measure longer (-n 200, --target-ci 2%)",
        )
    are_most_noisy = 2 * len(noisy_sizes) > len(sizes)
    if are_most_noisy:
        return (
            "UNSURE",
            f"the placements of {count_text(len(noisy_sizes), 'size')} disagree: measure longer on a quiet machine",
        )
    is_third_slow = 3 * len(slow_sizes) > len(sizes)
    if len(slow_sizes) > 1 or is_third_slow:
        more = f" and {len(slow_sizes) - _MAX_NAMED_SIZES} more" if len(slow_sizes) > _MAX_NAMED_SIZES else ""
        named_sizes = f"{', '.join(map(size_text, slow_sizes[:_MAX_NAMED_SIZES]))}{more}"
        slow_count = f"{len(slow_sizes)} of {count_text(len(sizes), 'size')}"
        return (
            "UNSURE",
            f"{slow_count} slower than the range, none adjacent ({named_sizes}): measure again and longer (-n 200)",
        )
    if slow_sizes:
        return "GOOD", f"only {size_text(slow_sizes[0])} is beyond the range, its neighbors are not"
    return "GOOD", "every size within the range or better"
