"""Compares equal groups of one run (NCCL_TESTS_SPLIT) with each other, which needs no expectation and no reference.

Equal groups ran the same configuration at the same time and have the same numbers of ranks and hosts. The yardstick of
a group is the median of all its equals, itself included. A minority of slow groups does not move that median.
"""

from collections.abc import Sequence
from statistics import median

from msgspec.structs import replace

from busbw.judge.grade import grade_bands
from busbw.judge.series import Series, SeriesPoint
from busbw.judge.types import ReasonKind, Verdict
from busbw.judge.yardstick import Yardstick, yardstick_from_series
from busbw.logs import Placement
from busbw.statistics import NORMAL_MAD
from busbw.units import count_text, size_text

_MIN_EQUAL_GROUPS = 3
"""Minimum number of equal groups. Of two, nothing shows which one is unusual."""
_OUTLIER_DEVIATIONS = 3.0 * NORMAL_MAD
"""Median absolute deviations from the median beyond which a group is an outlier: three standard deviations of a normal
distribution (Leys et al., J. Exp. Soc. Psychol. 49, 2013)."""
_UNUSABLE_FIGURES: frozenset[ReasonKind] = frozenset(
    {"wrong_data", "one_rank", "mixed_runs", "contradiction", "no_times"}
)
"""Reasons why no comparison of the figures means anything."""
_REMEDY = "check the hosts of this group and their links, and measure it alone"


def compare_groups(all_series: Sequence[Series], verdicts: Sequence[Verdict], *, has_reference: bool) -> list[Verdict]:
    """Returns the verdicts on the series, with SLOW for each group that is slower than its equals.

    The comparison does not change other grades: equally fast groups may all be slow.

    Args:
        all_series: Series of a log.
        verdicts: Verdict on each of them.
        has_reference: True if the user chose the yardstick of the verdicts. It decides where it has figures.
    """
    equals_by_key: dict[tuple[object, ...], list[Series]] = {}
    for series in all_series:
        equals_by_key.setdefault(_equality_key(series), []).append(series)
    yardsticks = {
        key: _make_yardstick(equals) for key, equals in equals_by_key.items() if len(equals) >= _MIN_EQUAL_GROUPS
    }
    compared_verdicts = []
    for series, verdict in zip(all_series, verdicts, strict=True):
        yardstick = yardsticks.get(_equality_key(series))
        is_decided_by_reference = has_reference and bool(verdict.bands)
        if yardstick and not is_decided_by_reference and verdict.reason_kind not in _UNUSABLE_FIGURES:
            compared_verdicts.append(_compare_group(series, verdict, yardstick))
        else:
            compared_verdicts.append(verdict)
    return compared_verdicts


def _compare_group(series: Series, verdict: Verdict, yardstick: Yardstick) -> Verdict:
    """Returns the verdict with SLOW if the group is slower than its equals, otherwise unchanged."""
    bands = grade_bands(series, yardstick)
    slow_bands = [band for band in bands if band.grade == "SLOW"]
    if not slow_bands:
        return verdict
    ratios_text = ", ".join(f"x{band.worst.ratio:.2f} at {size_text(band.worst.size_bytes)}" for band in slow_bands)
    reason = (
        f"group {series.row.group}{series.hosts_text} is slower than {yardstick.name}: its time is up to {ratios_text}"
    )
    is_slow_by_own_yardstick = verdict.grade == "SLOW"
    own_grade = [f"{verdict.grade} against {verdict.yardstick}"] if verdict.bands else []
    verdict = replace(
        verdict,
        grade="SLOW",
        reason_kind="slow_group",
        reasons=(reason, *(verdict.reasons if verdict.grade != "GOOD" else ())),
        advice=(_REMEDY, *verdict.advice),
    )
    if is_slow_by_own_yardstick:
        return verdict
    # The bands must show why the group is SLOW, so the bands of the comparison with its equals replace the own bands.
    return replace(verdict, yardstick=yardstick.name, bands=bands, beside=(*own_grade, *verdict.beside))


def _equality_key(series: Series) -> tuple[object, ...]:
    """Properties that equal groups share: all fields of the configuration except the group."""
    row = series.row
    return (
        series.table.first_line,
        series.collective,
        row.dtype,
        row.redop,
        row.root,
        row.variant,
        row.lifecycle,  # the same call in two tests of comm_ops counts as two calls
        series.ranks,
        len(series.hosts),
    )


def _make_yardstick(equals: Sequence[Series]) -> Yardstick:
    points_by_case: dict[tuple[int, Placement], list[SeriesPoint]] = {}
    for series in equals:
        for point in series.points:
            points_by_case.setdefault((point.size_bytes, point.placement), []).append(point)
    first = equals[0]
    points = tuple(_median_point(points) for points in points_by_case.values() if len(points) >= _MIN_EQUAL_GROUPS)
    ranks_text = count_text(first.ranks, "rank") if first.ranks else "an unknown number of ranks"
    return yardstick_from_series(
        f"the median of {len(equals)} groups of {ranks_text}", replace(first, points=points), first
    )


def _median_point(points: Sequence[SeriesPoint]) -> SeriesPoint:
    """Returns the median of the groups at one size. Its spread covers all groups that are no outliers."""
    times_us = [point.time_us for point in points]
    typical_us = median(times_us)
    deviation_us = median(abs(time_us - typical_us) for time_us in times_us)
    busbws_gbps = [point.busbw_gbps for point in points if point.busbw_gbps is not None]
    return SeriesPoint(
        size_bytes=points[0].size_bytes,
        placement=points[0].placement,
        time_us=typical_us,
        busbw_gbps=median(busbws_gbps) if busbws_gbps else None,
        spread=_OUTLIER_DEVIATIONS * deviation_us / typical_us,
    )
