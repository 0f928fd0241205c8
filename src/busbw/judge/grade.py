"""Decides the grade of a configuration, and of each of its bands of sizes.

1. `_compare_with_range` compares each figure with its range: inside, slower, faster, unclear or undecided. Unclear: the
   interval or the spread reaches into the range. Undecided: inside a range so wide that it could hide a fault.
2. `BandSizes` (band_sizes.py) sorts the sizes of a band by these outcomes.
3. `_decide_band_grade` makes the grade of a band. A band of several sizes is SLOW if two neighboring sizes are slow.
   A band of one size is SLOW if this size is far beyond its range. An undecided size makes a band UNSURE.
4. `decide` makes the grade of the configuration from its bands and all other evidence.
"""

import itertools
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from busbw.judge.band_sizes import MIN_UNSTEADY_FACTOR, BandSizes
from busbw.judge.series import Series, SeriesPoint
from busbw.judge.types import (
    BAD_FACTOR,
    GRADES,
    BandVerdict,
    Grade,
    JudgedFigure,
    Outcome,
    Reason,
    worst,
)
from busbw.judge.yardstick import SizeLimits, Yardstick
from busbw.statistics.bands import BANDS, BandName
from busbw.units import count_text, names_text, size_text

_MAX_DISTURBANCE_FACTOR = 1.2
"""Maximum ratio of a time to the slow end of its range at which a disturbance of the run remains likely.

Above this ratio, the only size of a band is SLOW. A lone slow size among several is UNSURE if both of its placements
are above this ratio."""
_MIN_BUMP_FACTOR = 1.5
"""Minimum ratio for a bump: slow-down of a middle size over the largest slow-down of all small and large sizes.

A slow-down is measured over typical time. The published sweeps with all three bands have ratios up to 1.37."""
_MAX_NAMED_SIZES = 3
"""Maximum number of sizes that a reason names."""

_RATIO = attrgetter("ratio")
_EXCESS_RATIO = attrgetter("excess_ratio")


class Evidence(Struct, kw_only=True, frozen=True):
    """All facts that the grade of a configuration depends on. A fact that does not apply is None or empty."""

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
    bands = evidence.bands
    grade = worst([band.grade for band in bands])
    reasons = (*_band_reasons(bands), *evidence.doubts)
    if grade == "SLOW" and evidence.assumed_nics:
        unsure_bands = tuple(replace(band, grade="UNSURE") if band.grade == "SLOW" else band for band in bands)
        # The NICs must be stated first, so other remedies are left out.
        other_reasons = (replace(reason, remedy="") for reason in reasons)
        return Decision("UNSURE", (evidence.assumed_nics, *other_reasons), unsure_bands)
    if grade == "GOOD" and evidence.doubts:
        return Decision("UNSURE", reasons, bands)
    if grade == "GOOD" and evidence.refused_rows:
        return Decision("UNSURE", (evidence.refused_rows,), bands)
    return Decision(grade, reasons or (Reason("in_range", _in_range_text(bands)),), bands)


def _band_reasons(bands: Sequence[BandVerdict]) -> list[Reason]:
    """Returns the reasons of the bands that are not GOOD or have a slow figure, the worst grade first."""
    return [
        Reason("band", f"{band.band}: {band.reason}")
        for band in sorted(bands, key=lambda band: GRADES.index(band.grade))
        if band.grade != "GOOD" or any(figure.outcome == "slower" for figure in band.judged)
    ]


def _in_range_text(bands: Sequence[BandVerdict]) -> str:
    """Says that all bands are in their ranges. Adds the distance of the slowest figure in a wide range from typical."""
    text = "every band within its range or better"
    bands_to_describe = [band for band in bands if band.worst.is_in_slow_part]
    if not bands_to_describe:
        return text
    slowest = max(bands_to_describe, key=lambda band: band.worst.ratio)
    return f"{text}, at worst {slowest.worst.distance_text(as_time=slowest.band == 'latency')} ({slowest.band})"


def grade_bands(series: Series, yardstick: Yardstick) -> tuple[BandVerdict, ...]:
    """Returns a verdict for each band in which run and yardstick have a common size."""
    if series.is_call:
        return _grade_call(series, yardstick)
    points_by_band: dict[BandName, list[SeriesPoint]] = {band: [] for band in BANDS}
    figures_by_band: dict[BandName, list[JudgedFigure]] = {band: [] for band in BANDS}
    for point in series.points:
        limits = yardstick.limits(point.size_bytes, point.placement)
        if limits is not None:
            points_by_band[limits.band].append(point)
            figures_by_band[limits.band].append(_compare_with_range(point, limits))
    is_in_graph = series.table.is_in_graph
    bands = tuple(
        _grade_band(band, points, figures_by_band[band], is_in_graph=is_in_graph)
        for band, points in points_by_band.items()
        if points
    )
    has_all_bands = len(bands) == len(BANDS)
    return _doubt_bump(*bands) if has_all_bands else bands


def _grade_call(series: Series, yardstick: Yardstick) -> tuple[BandVerdict, ...]:
    """Returns the verdict on a call of comm_ops, as latency band: its time depends on no bandwidth.

    A call has one point in records of busbw. If a log has several points of a call, the worst point decides.
    """
    figures = [
        _compare_with_range(point, limits)
        for point in series.points
        if (limits := yardstick.limits(point.size_bytes, point.placement)) is not None
    ]
    if not figures:
        return ()
    slowest_first = sorted(figures, key=lambda figure: figure.excess_ratio, reverse=True)
    # Of several figures with the worst grade, the slowest gives the reason.
    grade, reason = min(map(_grade_call_figure, slowest_first), key=lambda graded: GRADES.index(graded[0]))
    slow_sizes = {figure.size_bytes for figure in figures if figure.outcome == "slower"}
    return (
        BandVerdict(
            band="latency",
            grade=grade,
            reason=reason,
            slow_sizes_bytes=tuple(sorted(slow_sizes)),
            judged=tuple(figures),
            worst=slowest_first[0],
        ),
    )


def _grade_call_figure(figure: JudgedFigure) -> tuple[Grade, str]:
    """Returns the grade of one figure of a call, and its reason."""
    remedy = "measure more communicators (-i 20)"
    if figure.outcome == "unclear":
        return "UNSURE", f"too noisy: {remedy}"
    if figure.outcome == "undecided":
        return "UNSURE", f"{figure.ratio:.3g} times the typical time, in a range too wide to reject a fault: {remedy}"
    if figure.outcome != "slower":
        return "GOOD", "within the range or better"
    if figure.excess_ratio > _MAX_DISTURBANCE_FACTOR:
        return "SLOW", f"{figure.ratio:.3g} times the typical time"
    return "UNSURE", f"just beyond the range: {remedy}"


def _compare_with_range(point: SeriesPoint, limits: SizeLimits) -> JudgedFigure:
    """Compares the time of one figure with its range."""
    return JudgedFigure(
        size_bytes=point.size_bytes,
        placement=point.placement,
        time_us=point.time_us,
        busbw_gbps=point.busbw_gbps,
        range_us=limits.range_us,
        outcome=_find_outcome(point, limits),
    )


def _find_outcome(point: SeriesPoint, limits: SizeLimits) -> Outcome:
    """Finds the position of a time relative to its range. Uses the confidence interval of the time if it is known."""
    range_us = limits.range_us
    low_us, high_us = point.interval_us or (point.time_us, point.time_us)
    if low_us > range_us.high:
        # Unclear if the time without its spread would be within the range: the machine was then probably busy.
        time_without_spread_us = point.time_us / (1 + (point.spread or 0.0))
        return "slower" if time_without_spread_us > range_us.high else "unclear"
    if high_us < range_us.low:
        return "faster"
    if high_us > range_us.high:
        return "unclear"
    return "undecided" if point.time_us >= limits.min_undecided_us else "inside"


def _doubt_bump(latency: BandVerdict, middle: BandVerdict, plateau: BandVerdict) -> tuple[BandVerdict, ...]:
    """Makes a GOOD middle band UNSURE if it is much slower than the bands around it.

    A time is the sum of start-up and transfer. If the ratio to the typical time is r at small sizes and s at large
    ones, it is at most max(r, s) at the sizes between them, whatever the width of their ranges.
    """
    if middle.grade != "GOOD" or max(map(_RATIO, middle.judged)) < _MIN_BUMP_FACTOR:  # the usual case
        return latency, middle, plateau
    ratios = _ratios_by_size(middle)
    max_ratio = max(ratios.values())
    max_outer_ratio = max(1.0, *_ratios_by_size(latency).values(), *_ratios_by_size(plateau).values())
    bump_sizes = [size_bytes for size_bytes, ratio in ratios.items() if ratio >= _MIN_BUMP_FACTOR * max_outer_ratio]
    if not _has_adjacent(list(ratios), bump_sizes):
        return latency, middle, plateau
    reason = (
        f"{_sizes_text(bump_sizes)}: up to {max_ratio:.3g} times the typical time, although smaller and larger sizes "
        f"take at most {max_outer_ratio:.3g} times theirs: compare with a good run (--reference FILE)"
    )
    return latency, replace(middle, grade="UNSURE", reason=reason), plateau


def _ratios_by_size(band: BandVerdict) -> dict[int, float]:
    """Returns the ratio of measured to typical time of the faster placement, by size in ascending order."""
    ratios: dict[int, float] = {}
    for figure in sorted(band.judged, key=lambda figure: figure.size_bytes):
        ratios[figure.size_bytes] = min(figure.ratio, ratios.get(figure.size_bytes, figure.ratio))
    return ratios


def _grade_band(
    band: BandName, points: Sequence[SeriesPoint], figures: Sequence[JudgedFigure], *, is_in_graph: bool
) -> BandVerdict:
    """Grades a band by the outcomes of its sizes. Each point has one figure, in the same order."""
    sizes = BandSizes.of(points, figures)
    worst_figure = max(figures, key=_EXCESS_RATIO)
    undecided_remedy = "compare with a good run (--reference FILE)"
    if band == "latency" and not is_in_graph:
        undecided_remedy = f"remove the launches (-G 50), or {undecided_remedy}"
    grade, reason = _decide_band_grade(sizes, figures, worst_figure, undecided_remedy)
    if grade == "GOOD" and worst_figure.is_in_slow_part:
        distance = worst_figure.distance_text(as_time=band == "latency")
        reason = f"{reason}; at worst {distance} ({size_text(worst_figure.size_bytes)})"
    return BandVerdict(
        band=band,
        grade=grade,
        reason=reason,
        slow_sizes_bytes=tuple(sizes.slow),
        judged=tuple(figures),
        worst=worst_figure,
    )


def _decide_band_grade(
    sizes: BandSizes, figures: Sequence[JudgedFigure], worst_figure: JudgedFigure, undecided_remedy: str
) -> tuple[Grade, str]:
    """Decides whether a band is GOOD, SLOW or UNSURE, and returns the reason.

    Args:
        sizes: Sizes of the band, by their outcomes.
        figures: All figures of the band.
        worst_figure: Figure with the highest `excess_ratio`.
        undecided_remedy: Next step if a range is too wide to reject a fault.
    """
    return (
        _decide_slow_band(sizes, worst_figure)
        or _doubt_noisy_band(sizes)
        or _decide_lone_sizes(sizes, figures, undecided_remedy)
    )


def _decide_slow_band(sizes: BandSizes, worst_figure: JudgedFigure) -> tuple[Grade, str] | None:
    """Decides a band if all sizes are noisy, adjacent sizes are slow, the only size is slow, or one placement is slow.

    Returns None for any other band.
    """
    is_single_size = len(sizes.all) == 1
    are_all_noisy = len(sizes.noisy) == len(sizes.all)
    # Noise at all of several sizes may explain the slow ones, so this test comes first.
    if are_all_noisy and not is_single_size:
        noise_text = "times drop repeatedly with growing size, or placements disagree: measure longer (-n 200)"
        return _doubt_slow_placement(sizes) or ("UNSURE", noise_text)
    is_slow_single_size = is_single_size and bool(sizes.slow)
    is_far_beyond = worst_figure.excess_ratio > _MAX_DISTURBANCE_FACTOR
    if _has_adjacent(sizes.all, sizes.slow) or (is_slow_single_size and is_far_beyond):
        return "SLOW", f"{len(sizes.slow)} of {count_text(len(sizes.all), 'size')} slower than the range"
    if is_slow_single_size:
        return "UNSURE", "only one size, just beyond the range: measure its neighbors too (-f 2)"
    return _doubt_slow_placement(sizes)


def _doubt_slow_placement(sizes: BandSizes) -> tuple[Grade, str] | None:
    """Returns UNSURE if most sizes, two of them adjacent, are slow in one placement. None otherwise."""
    slow_sizes = sizes.slow_in_one_placement
    is_majority = len(slow_sizes) > len(sizes.all) / 2
    if not (is_majority and _has_adjacent(sizes.all, slow_sizes)):
        return None
    return (
        "UNSURE",
        f"the placements disagree: one is slower than the range at {len(slow_sizes)} of "
        f"{count_text(len(sizes.all), 'size')}, the other is not: measure again, and "
        "compare with a good run (--reference FILE)",
    )


def _doubt_noisy_band(sizes: BandSizes) -> tuple[Grade, str] | None:
    """Returns UNSURE for a band with figures that vary too much. None if they do not."""
    size_count = len(sizes.all)
    if len(sizes.unsteady) > size_count / 2:
        return (
            "UNSURE",
            f"single passes are beyond the range, at {MIN_UNSTEADY_FACTOR:g} times the median or more, at "
            f"{count_text(len(sizes.unsteady), 'size')}: compare the passes (busbw show)",
        )
    if len(sizes.unclear) >= size_count / 2:
        return (
            "UNSURE",
            f"too noisy at {count_text(len(sizes.unclear), 'size')}: measure longer (-n 200, --target-ci 2%)",
        )
    if len(sizes.noisy) > size_count / 2:
        return (
            "UNSURE",
            f"the placements of {count_text(len(sizes.noisy), 'size')} disagree: measure longer on a quiet machine",
        )
    is_lone_among_several = len(sizes.slow) == 1 and size_count >= 3  # `_decide_lone_sizes` decides about it
    if sizes.slow and not is_lone_among_several:
        return (
            "UNSURE",
            f"{len(sizes.slow)} of {count_text(size_count, 'size')} slower than the range, none adjacent "
            f"({_sizes_text(sizes.slow)}): measure again and longer (-n 200)",
        )
    return None


def _decide_lone_sizes(sizes: BandSizes, figures: Sequence[JudgedFigure], undecided_remedy: str) -> tuple[Grade, str]:
    """Decides the bands that `_decide_slow_band` and `_doubt_noisy_band` leave open. At most one size is slow."""
    if sizes.undecided:
        max_ratio = max(figure.ratio for figure in figures if figure.size_bytes in sizes.undecided)
        return (
            "UNSURE",
            f"{_sizes_text(sizes.undecided)}: up to {max_ratio:.3g} times the typical time, in a range too wide to "
            f"reject a fault: {undecided_remedy}",
        )
    one_placement = sizes.slow_in_one_placement
    bad_sizes = [size for size in one_placement if _has_bad_figure(_figures_at(size, figures))]
    lone_placement_text = f"only one placement of {_sizes_text(bad_sizes or one_placement)} is beyond the range"
    if bad_sizes:
        return "UNSURE", f"{lone_placement_text}, but it is too slow for a disturbance: measure again (-n 200)"
    if sizes.slow:
        lone_text = f"only {size_text(sizes.slow[0])} is beyond the range, its neighbors are not"
        if _is_disturbance(_figures_at(sizes.slow[0], figures)):
            return "GOOD", lone_text
        return "UNSURE", f"{lone_text}, but it is too slow for a disturbance: measure it again (-n 200)"
    return "GOOD", lone_placement_text if one_placement else "every size within the range or better"


def _figures_at(size_bytes: int, figures: Sequence[JudgedFigure]) -> list[JudgedFigure]:
    return [figure for figure in figures if figure.size_bytes == size_bytes]


def _has_adjacent(sizes: Sequence[int], selected: Sequence[int]) -> bool:
    """True if two consecutive entries of `sizes` are selected."""
    return any(smaller in selected and larger in selected for smaller, larger in itertools.pairwise(sizes))


def _is_disturbance(figures: Sequence[JudgedFigure]) -> bool:
    """True if one disturbance during the measurement can explain the slow figures of one size.

    A disturbance does not multiply the times of all placements by `BAD_FACTOR`. Placements are measured one after the
    other, so a disturbance slows at least one of two placements only a little.
    """
    if min(figure.ratio for figure in figures) >= BAD_FACTOR:
        return False
    return len(figures) == 1 or min(figure.excess_ratio for figure in figures) <= _MAX_DISTURBANCE_FACTOR


def _has_bad_figure(figures: Sequence[JudgedFigure]) -> bool:
    """True if a figure is slower than its range and takes `BAD_FACTOR` times the typical time or more."""
    return any(figure.outcome == "slower" and figure.ratio >= BAD_FACTOR for figure in figures)


def _sizes_text(sizes: Sequence[int]) -> str:
    return names_text([size_text(size_bytes) for size_bytes in sizes], _MAX_NAMED_SIZES)
