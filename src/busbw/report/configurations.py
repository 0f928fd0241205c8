"""Sections of a table's configurations: verdicts, curves, scatter, arrivals and rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from busbw.expect import Estimate, ExpectedRange, NetworkNics, bus_factor, estimator, network_nics_finder, system_of
from busbw.judge import ReferenceSelection, judge
from busbw.judge.reference_comparison import select_reference
from busbw.judge.series import Series, series_of
from busbw.judge.yardstick import Yardstick
from busbw.logs import PLACEMENT_WORDS, PLACEMENTS, Figure, Log, Placement, Row, Table
from busbw.report import arrivals, curves, sample_spread
from busbw.report.curves import Curve, CurvePlot, RangeCurve
from busbw.report.page import ConfigurationSection, Picture, Sparkline, VerdictView
from busbw.report.row_table import row_table
from busbw.report.sparkline import sparkline
from busbw.report.verdicts import verdict_view
from busbw.system import System
from busbw.units import count_text

_COARSE_GBPS = 1.0
"""Busbw below which two printed decimals are less precise than the time. It is then computed from the time."""
_HALF_DIGIT_GBPS = 0.0051
"""Maximum difference of printed and computed busbw that counts as rounding."""
_MIN_VISIBLE_SHARE = 0.002
"""Minimum relative difference that is visible in a picture."""


class TableExpectation(NamedTuple):
    """Estimates for the rows of a table, and the NICs that they use."""

    estimate: Callable[[Row], Estimate | None]
    network_nics: Callable[[Row], NetworkNics | None]

    def remark(self, row: Row) -> str:
        """Text on an unstated assumption. Empty without an assumption."""
        nics = self.network_nics(row)
        return nics.assumption if nics else ""


@dataclass(frozen=True)
class TableContext:
    """Context that all configurations of a table share."""

    table: Table
    system: System | None
    """System that the user named."""
    against: ReferenceSelection | None
    is_pictured: bool
    """True if the page has capacity for pictures."""

    @property
    def known_system(self) -> System | None:
        """System that the user named, otherwise the log's."""
        return self.system or system_of(self.table)


def configurations(context: TableContext, anchor: str) -> list[ConfigurationSection]:
    """Makes the sections of all configurations of a table. Variants of one configuration share a section."""
    table_log = Log(source="", tables=(context.table,))
    verdicts = judge(table_log, system=context.system, selection=context.against)
    if not context.table.rows:
        return [_without_rows(f"{anchor}-1", [verdict_view(verdict) for verdict in verdicts])]
    together: dict[tuple[object, ...], list[tuple[Series, VerdictView]]] = {}
    expected = TableExpectation(
        estimator(context.table, context.system), network_nics_finder(context.table, context.system)
    )
    for series, verdict in zip(series_of(table_log), verdicts, strict=True):
        *without_variant, _ = series.row.configuration
        view = verdict_view(verdict, _sparkline(context.table, series, expected))
        together.setdefault(tuple(without_variant), []).append((series, view))
    return [
        _section(context, f"{anchor}-{number}", pairs, expected)
        for number, pairs in enumerate(together.values(), start=1)
    ]


def _without_rows(anchor: str, verdicts: Sequence[VerdictView]) -> ConfigurationSection:
    """Makes the section of a table without rows."""
    return ConfigurationSection(anchor, verdicts[0].title, tuple(verdicts), (), None)


def _sparkline(table: Table, series: Series, expected: TableExpectation) -> Sparkline | None:
    """Draws the curve of the first placement, because several cannot be distinguished at that size."""
    busbw, _ = _lines([series])
    rows = [row for row in table.rows if row.configuration == series.row.configuration]
    span = _span({row.size_bytes: known for row in rows if (known := expected.estimate(row)) is not None}, "busbw_gbps")
    return sparkline(busbw[0].points, span.points if span else {}) if busbw else None


def _section(
    context: TableContext, anchor: str, pairs: Sequence[tuple[Series, VerdictView]], expected: TableExpectation
) -> ConfigurationSection:
    keys = {series.row.configuration for series, _ in pairs}
    rows = [row for row in context.table.rows if row.configuration in keys]
    first = pairs[0][0]
    title = _title(first)
    pictures: list[Picture] = []
    omissions: list[str] = []
    if context.is_pictured:
        pictures = _pictures(context, pairs, rows, expected)
        omissions = _omissions(rows)
    else:
        omissions.append("No pictures here: the report has too many configurations; make one of this log alone.")
    return ConfigurationSection(
        anchor=anchor,
        title=title,
        verdicts=tuple(verdict for _, verdict in pairs),
        pictures=tuple(pictures),
        grid=row_table(f"Rows of {title}", rows, expected.estimate, expected.remark(first.row)),
        omissions=tuple(omissions),
    )


def _title(series: Series) -> str:
    """Title of the series without its variant, which is the last part."""
    return series.title.removesuffix(f", {series.row.variant}") if series.row.variant else series.title


def _pictures(
    context: TableContext,
    pairs: Sequence[tuple[Series, VerdictView]],
    rows: Sequence[Row],
    expected: TableExpectation,
) -> list[Picture]:
    first = pairs[0][0]
    by_size = {row.size_bytes: known for row in rows if (known := expected.estimate(row)) is not None}
    reference = _reference(first.with_stated_nics(expected.network_nics(first.row)), context.against)
    over = f" {remark}" if (remark := expected.remark(first.row)) else ""
    busbw, times = _lines([series for series, _ in pairs])
    note = (
        "Busbw below 1 GB/s is computed from the time, because two decimals are too coarse."
        if _is_refined(first)
        else ""
    )
    found = [
        curves.picture(
            CurvePlot(
                "Bus bandwidth", "GB/s", busbw, _span(by_size, "busbw_gbps", over), _line(reference, first, True), note
            )
        ),
        curves.picture(
            CurvePlot(
                "Latency: time of one operation",
                "us",
                times,
                _span(by_size, "time_us", over),
                _line(reference, first, False),
            )
        ),
    ]
    for placement, figures in _by_placement(rows).items():
        found += _scatter(context.table, first.row.group, placement, figures)
    return [one for one in found if one is not None]


def _lines(several: Sequence[Series]) -> tuple[list[Curve], list[Curve]]:
    """Returns the curves of busbw and of time, one for each variant and placement."""
    busbw, times = [], []
    for series in several:
        for placement in PLACEMENTS:
            points = [point for point in series.points if point.placement == placement]
            if not points:
                continue
            parts = [series.row.variant, PLACEMENT_WORDS[placement]]
            label = ", ".join(part for part in parts if part) or "measured"
            times.append(Curve(label, {point.size_bytes: point.time_us for point in points}))
            refined = {
                point.size_bytes: _refined_busbw(series, point.size_bytes, point.time_us, point.busbw_gbps)
                for point in points
            }
            busbw.append(Curve(label, {size: value for size, value in refined.items() if value and value > 0}))
    return busbw, times


def _factor(series: Series) -> float | None:
    return bus_factor(series.collective, series.ranks) if series.collective and series.ranks else None


def _refined_busbw(series: Series, size_bytes: int, time_us: float, printed: float | None) -> float | None:
    """Returns the printed busbw. If it is small, busbw from size and time, if both agree within rounding."""
    factor = _factor(series)
    if printed is None or printed >= _COARSE_GBPS or not factor:
        return printed
    exact = size_bytes * factor / time_us / 1e3
    return exact if abs(exact - printed) <= _HALF_DIGIT_GBPS else printed


def _is_refined(series: Series) -> bool:
    pairs = (
        (point.busbw_gbps, _refined_busbw(series, point.size_bytes, point.time_us, point.busbw_gbps))
        for point in series.points
    )
    return any(
        printed is not None and refined and abs(printed / refined - 1) > _MIN_VISIBLE_SHARE
        for printed, refined in pairs
    )


def _span(by_size: Mapping[int, Estimate], field: str, over: str = "") -> RangeCurve | None:
    ranges: dict[int, ExpectedRange] = {size: getattr(one, field) for size, one in by_size.items()}
    points = {size: (one.low, one.typical, one.high) for size, one in ranges.items() if one.low > 0}
    return RangeCurve(f"range of a healthy system{over} (dashed: typical)", points) if points else None


def _reference(series: Series, against: ReferenceSelection | None) -> Yardstick | None:
    """Returns the named reference, otherwise the nearest published one. None if it is not comparable."""
    found = select_reference(series, against or ReferenceSelection())
    return found if found is not None and not found.blockers else None


def _line(yardstick: Yardstick | None, series: Series, is_busbw: bool) -> Curve | None:
    factor = _factor(series)
    if yardstick is None or (is_busbw and not factor):
        return None
    points: dict[int, float] = {}
    for point in series.points:
        limits = yardstick.range_us(point.size_bytes, point.placement)
        if limits is not None:
            time_us = limits.typical
            points[point.size_bytes] = point.size_bytes * (factor or 0.0) / time_us / 1e3 if is_busbw else time_us
    return Curve(f"reference: {yardstick.name}", {size: value for size, value in points.items() if value > 0})


Figures = dict[tuple[int, str | None], list[Figure]]


def _by_placement(rows: Sequence[Row]) -> dict[Placement, Figures]:
    """Groups figures by placement, then by size and variant, with one figure per pass."""
    found: dict[Placement, Figures] = {}
    for placement in PLACEMENTS:
        for row in rows:
            if placement in row.figures and row.size_bytes > 0:
                key = (row.size_bytes, row.variant)
                found.setdefault(placement, {}).setdefault(key, []).append(row.figures[placement])
    return found


def _scatter(table: Table, group: int, placement: Placement, figures: Figures) -> list[Picture | None]:
    found: list[Picture | None] = []
    skip = int(table.settings.get("per_iteration_skip", "0")) if table.format.startswith("records") else 0
    for variant in dict.fromkeys(variant for _, variant in figures):
        by_size = {size: each for (size, name), each in figures.items() if name == variant}
        label = ", ".join(part for part in (variant, PLACEMENT_WORDS[placement]) if part)
        suffix = f", {label}" if label else ""
        spreads = [one for size, each in by_size.items() if (one := sample_spread.spread_of(size, each, skip))]
        late = {size: known for size, each in by_size.items() if (known := arrivals.arrivals(each))}
        found.append(sample_spread.picture(f"Scatter of the iterations{suffix}", spreads))
        found.append(arrivals.heat_map(f"Late ranks{suffix}", late, arrivals.members(table, group)))
    return found


def _omissions(rows: Sequence[Row]) -> list[str]:
    empty = sum(row.size_bytes <= 0 for row in rows)
    without_figures = sum(
        row.size_bytes > 0
        and all(not one.time_us and not one.algbw_gbps and not one.busbw_gbps for one in row.figures.values())
        for row in rows
    )
    found = []
    if empty:
        found.append(f"{count_text(empty, 'row')} of size 0: only in the table, because the axis is logarithmic.")
    if without_figures:
        found.append(f"{count_text(without_figures, 'row')} without a time or bandwidth above zero: only in the table.")
    return found
