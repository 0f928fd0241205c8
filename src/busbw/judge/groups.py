"""Compares equal groups of one run (NCCL_TESTS_SPLIT) with each other. This needs no expectation and no reference.

Terms:

- Equal groups ran the same configuration at the same time and have the same numbers of ranks and hosts.
- The peer yardstick of a group is the median of its equals, including the group. A minority of slow groups does not
  move that median.
- The own verdict of a group is the verdict before this comparison, by an expectation or a reference.
"""

from collections.abc import Sequence
from statistics import median

from msgspec.structs import replace

from busbw.judge.grade import grade_bands
from busbw.judge.series import Series, SeriesPoint
from busbw.judge.types import ReasonKind, Verdict
from busbw.judge.yardstick import Yardstick, yardstick_from_series
from busbw.logs.log import Placement
from busbw.statistics import NORMAL_MAD
from busbw.units import count_text, size_text

_MIN_EQUAL_GROUPS = 3
"""Minimum number of equal groups. With two groups, nothing shows which one is unusual."""
_OUTLIER_DEVIATIONS = 3.0 * NORMAL_MAD
"""Median absolute deviations from the median beyond which a group is an outlier: three standard deviations of a normal
distribution (Leys et al., J. Exp. Soc. Psychol. 49, 2013)."""
_UNUSABLE_FIGURES: frozenset[ReasonKind] = frozenset(
    {"wrong_data", "one_rank", "mixed_runs", "contradiction", "no_times"}
)
"""Kinds of reasons in an own verdict that forbid a comparison of the group's figures."""
_REMEDY = "check the hosts of this group and their links, and measure it alone"


def compare_groups(all_series: Sequence[Series], verdicts: Sequence[Verdict], *, has_reference: bool) -> list[Verdict]:
    """Returns the verdicts, with SLOW for each compared group that is slower than its equals.

    Other verdicts do not change: equally fast groups may all be slow. A group is compared if it has enough equals, its
    figures are usable, and no reference has judged it.

    Args:
        all_series: Series of a log. Each one is a group in one configuration.
        verdicts: Own verdict of each series.
        has_reference: True if the user chose a reference. Then own verdicts with bands are by this reference.
    """
    if len(all_series) < _MIN_EQUAL_GROUPS:  # most tables
        return list(verdicts)
    equals_by_key: dict[tuple[object, ...], list[Series]] = {}
    for series in all_series:
        equals_by_key.setdefault(_equality_key(series), []).append(series)
    yardsticks = {
        key: _make_peer_yardstick(equals) for key, equals in equals_by_key.items() if len(equals) >= _MIN_EQUAL_GROUPS
    }
    compared_verdicts = []
    for series, verdict in zip(all_series, verdicts, strict=True):
        yardstick = yardsticks.get(_equality_key(series))
        is_judged_by_reference = has_reference and bool(verdict.bands)
        has_usable_figures = verdict.reason_kind not in _UNUSABLE_FIGURES
        if yardstick and has_usable_figures and not is_judged_by_reference:
            compared_verdicts.append(_compare_group(series, verdict, yardstick))
        else:
            compared_verdicts.append(verdict)
    return compared_verdicts


def _compare_group(series: Series, own: Verdict, yardstick: Yardstick) -> Verdict:
    """Returns a SLOW verdict if the group is slower than its peer yardstick, otherwise the own verdict."""
    bands = grade_bands(series, yardstick)
    slow_bands = [band for band in bands if band.grade == "SLOW"]
    if not slow_bands:
        return own
    ratios_text = ", ".join(f"x{band.worst.ratio:.2f} at {size_text(band.worst.size_bytes)}" for band in slow_bands)
    reason = (
        f"group {series.row.group}{series.hosts_text} is slower than {yardstick.name}: its time is up to {ratios_text}"
    )
    # The reasons of GOOD say that all figures are in their ranges, which does not explain SLOW.
    own_reasons = () if own.grade == "GOOD" else own.reasons
    slow = replace(
        own,
        grade="SLOW",
        reason_kind="slow_group",
        reasons=(reason, *own_reasons),
        advice=(_REMEDY, *own.advice),
    )
    if own.grade == "SLOW":
        return slow  # the own bands show a reason for SLOW
    own_grade_notes = (f"{own.grade} against {own.yardstick}",) if own.bands else ()
    return replace(slow, yardstick=yardstick.name, bands=bands, beside=(*own_grade_notes, *own.beside))


def _equality_key(series: Series) -> tuple[object, ...]:
    """Properties that equal groups share: table, configuration without the group, and numbers of ranks and hosts."""
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


def _make_peer_yardstick(equals: Sequence[Series]) -> Yardstick:
    """Makes the yardstick of equal groups: their median at each size that enough of the groups have."""
    points_by_case: dict[tuple[int, Placement], list[SeriesPoint]] = {}
    for series in equals:
        for point in series.points:
            points_by_case.setdefault((point.size_bytes, point.placement), []).append(point)
    median_points = tuple(
        _median_point(points) for points in points_by_case.values() if len(points) >= _MIN_EQUAL_GROUPS
    )
    any_group = equals[0]  # all groups have the same configuration and run
    ranks_text = count_text(any_group.ranks, "rank") if any_group.ranks else "an unknown number of ranks"
    return yardstick_from_series(
        name=f"the median of {len(equals)} groups of {ranks_text}",
        reference=replace(any_group, points=median_points),
        run=any_group,
    )


def _median_point(points: Sequence[SeriesPoint]) -> SeriesPoint:
    """Returns the median of the groups at one size. The spread of the median covers all groups but the outliers."""
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
