"""Makes the sections of a table's configurations: verdicts, curves, scatter of iterations, arrivals and rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from busbw.expect import Estimate, ExpectedRange, NetworkNics, estimator, network_nics_finder, system_of
from busbw.judge import ReferenceSelection, judge
from busbw.judge.reference_comparison import select_reference
from busbw.judge.series import Series, series_of
from busbw.judge.series_context import ContextFinder
from busbw.judge.yardstick import Yardstick
from busbw.logs.log import PLACEMENT_WORDS, PLACEMENTS, Figure, Log, Placement, Row, Table
from busbw.report import arrivals, curves, sample_spread
from busbw.report.curves import Curve, CurvePlot, RangeCurve
from busbw.report.page import ConfigurationSection, Picture, Sparkline, VerdictView
from busbw.report.row_table import row_table
from busbw.report.sparkline import sparkline
from busbw.report.verdicts import verdict_view
from busbw.system import System
from busbw.units import bandwidth_gbps, count_text


class TableExpectation(NamedTuple):
    """Estimates for the rows of a table, and the NICs that they use."""

    estimate: Callable[[Row], Estimate | None]
    network_nics: Callable[[Row], NetworkNics | None]

    def estimates_by_size(self, rows: Sequence[Row]) -> dict[int, Estimate]:
        """Returns the estimates of rows of one configuration. Sizes without an expectation are missing."""
        return {row.size_bytes: estimate for row in rows if (estimate := self.estimate(row)) is not None}

    def remark(self, row: Row) -> str:
        """Says which NICs the estimate assumes. Empty if the NICs are stated or not used."""
        nics = self.network_nics(row)
        return nics.assumption if nics else ""


@dataclass(frozen=True)
class TableContext:
    """Context that all configurations of a table share."""

    table: Table
    """Table to judge, see `ReportInput.judged`."""
    system: System | None
    """System that the user named, or None."""
    selection: ReferenceSelection | None
    """Reference that the user named. None: the verdicts use the expectation, and curves show the nearest reference."""
    is_pictured: bool
    """True if the page may have pictures of these configurations."""
    sharp: bool = False
    """True if the user states that the network reduces."""
    refused_count: int = 0
    """Number of rows of the table that could not be read."""
    context_finder: ContextFinder | None = None
    """Finder of the contexts of series, made with the same system, selection and `sharp`. Tables can share the finder.

    None: the table gets a finder of its own.
    """

    @property
    def known_system(self) -> System | None:
        """System that the user named, otherwise the log's. None if unknown."""
        return self.system or system_of(self.table)


def configurations(context: TableContext, anchor: str) -> list[ConfigurationSection]:
    """Makes the sections of all configurations of a table. Variants of one configuration share a section."""
    table_log = Log(source="", tables=(context.table,))
    verdicts = judge(
        table_log,
        system=context.system,
        sharp=context.sharp,
        selection=context.selection,
        context_finder=context.context_finder,
        refused_counts={context.table.first_line: context.refused_count},
    )
    if not context.table.rows:
        views = tuple(map(verdict_view, verdicts))  # one: a table without rows has one verdict
        return [ConfigurationSection(f"{anchor}-1", views[0].title, views)]
    pairs_by_configuration: dict[tuple[object, ...], list[tuple[Series, VerdictView]]] = {}
    expected = TableExpectation(
        estimator(context.table, context.system, sharp=context.sharp),
        network_nics_finder(context.table, context.system),
    )
    for series, verdict in zip(series_of(table_log), verdicts, strict=True):
        without_variant = series.row.configuration[:-1]  # the variant is the last field
        view = verdict_view(verdict, _sparkline(context.table, series, expected))
        pairs_by_configuration.setdefault(without_variant, []).append((series, view))
    return [
        _configuration_section(context, f"{anchor}-{section_number}", series_and_verdicts, expected)
        for section_number, series_and_verdicts in enumerate(pairs_by_configuration.values(), start=1)
    ]


def _sparkline(table: Table, series: Series, expected: TableExpectation) -> Sparkline | None:
    """Draws the curve of the first placement. None without busbw.

    Several curves cannot be distinguished in such a small picture.
    """
    busbw, _ = _measured_curves([series])
    rows = [row for row in table.rows if row.configuration == series.row.configuration]
    if not busbw:
        return None
    healthy_range = _healthy_range(expected.estimates_by_size(rows), "busbw_gbps")
    return sparkline(busbw[0].points, healthy_range.points if healthy_range else {})


def _configuration_section(
    context: TableContext,
    anchor: str,
    series_and_verdicts: Sequence[tuple[Series, VerdictView]],
    expected: TableExpectation,
) -> ConfigurationSection:
    row_configurations = {series.row.configuration for series, _ in series_and_verdicts}
    rows = [row for row in context.table.rows if row.configuration in row_configurations]
    first_series = series_and_verdicts[0][0]
    title = _title(first_series)
    if context.is_pictured:
        pictures = _pictures(context, series_and_verdicts, rows, expected)
        omissions = _omissions(rows)
    else:
        pictures = []
        omissions = ["No pictures here: the report has too many configurations; make one of this log alone."]
    return ConfigurationSection(
        anchor=anchor,
        title=title,
        verdicts=tuple(verdict for _, verdict in series_and_verdicts),
        pictures=tuple(pictures),
        grid=row_table(f"Rows of {title}", rows, expected.estimate, expected.remark(first_series.row)),
        omissions=tuple(omissions),
    )


def _title(series: Series) -> str:
    """Title of the series without its variant, which is the last part."""
    return series.title.removesuffix(f", {series.row.variant}") if series.row.variant else series.title


def _pictures(
    context: TableContext,
    series_and_verdicts: Sequence[tuple[Series, VerdictView]],
    rows: Sequence[Row],
    expected: TableExpectation,
) -> list[Picture]:
    """Draws busbw and time over size, then for each placement the scatter of the iterations and the arrivals."""
    first_series = series_and_verdicts[0][0]
    estimates = expected.estimates_by_size(rows)
    nics = expected.network_nics(first_series.row)
    # Stated NICs exclude references with other NICs. Assumed NICs exclude no reference.
    reference = _comparable_reference(first_series.with_stated_nics(nics), context.selection)
    remark = expected.remark(first_series.row)
    assumption = f" {remark}" if remark else ""
    busbw_curves, time_curves = _measured_curves([series for series, _ in series_and_verdicts])
    pictures = [
        curves.picture(
            CurvePlot(
                title="Bus bandwidth",
                unit="GB/s",
                lines=busbw_curves,
                expected=_healthy_range(estimates, "busbw_gbps", assumption),
                reference=_reference_curve(reference, first_series, is_busbw=True),
            )
        ),
        curves.picture(
            CurvePlot(
                title="Latency: time of one operation",
                unit="us",
                lines=time_curves,
                expected=_healthy_range(estimates, "time_us", assumption),
                reference=_reference_curve(reference, first_series, is_busbw=False),
            )
        ),
    ]
    for placement, figures in _figures_by_placement(rows).items():
        pictures += _sample_pictures(context.table, first_series.row.group, placement, figures)
    return [picture for picture in pictures if picture is not None]


def _measured_curves(all_series: Sequence[Series]) -> tuple[list[Curve], list[Curve]]:
    """Returns the curves of busbw and of time, one for each variant and placement. A call of comm_ops has none."""
    busbw_curves, time_curves = [], []
    for series in all_series:
        if series.is_call:
            continue
        for placement in PLACEMENTS:
            points = [point for point in series.points if point.placement == placement]
            if not points:
                continue
            label_parts = [series.row.variant, PLACEMENT_WORDS[placement]]
            label = ", ".join(part for part in label_parts if part) or "measured"
            time_curves.append(Curve(label, {point.size_bytes: point.time_us for point in points}))
            busbw_gbps = {point.size_bytes: point.busbw_gbps for point in points if point.busbw_gbps}
            busbw_curves.append(Curve(label, busbw_gbps))
    return busbw_curves, time_curves


def _healthy_range(
    estimates: Mapping[int, Estimate], field: Literal["busbw_gbps", "time_us"], assumption: str = ""
) -> RangeCurve | None:
    """Returns the expected ranges of one field by size. None without a range above zero."""
    ranges: dict[int, ExpectedRange] = {size: getattr(expected, field) for size, expected in estimates.items()}
    points = {
        size: (expected.low, expected.typical, expected.high) for size, expected in ranges.items() if expected.low > 0
    }
    return RangeCurve(f"range of a healthy system{assumption} (dashed: typical)", points) if points else None


def _comparable_reference(series: Series, selection: ReferenceSelection | None) -> Yardstick | None:
    """Returns the named reference, otherwise the nearest published one. None if that reference is not comparable."""
    yardstick = select_reference(series, selection or ReferenceSelection())
    if yardstick is None or yardstick.blockers:
        return None
    return yardstick


def _reference_curve(yardstick: Yardstick | None, series: Series, *, is_busbw: bool) -> Curve | None:
    """Returns the reference at the sizes of the series: busbw in GB/s, or time in us. None without a reference."""
    factor = series.bus_factor
    if yardstick is None or (is_busbw and not factor):
        return None
    # The plot has one curve for all placements. At a size with both, the later point counts, the one out of place.
    times_us: dict[int, float] = {}
    for point in series.points:
        range_us = yardstick.range_us(point.size_bytes, point.placement)
        if range_us is not None:
            times_us[point.size_bytes] = range_us.typical
    values = times_us
    if is_busbw and factor:
        values = {size: bandwidth_gbps(size, time_us, factor) for size, time_us in times_us.items()}
    return Curve(f"reference: {yardstick.name}", {size: value for size, value in values.items() if value > 0})


_FiguresByPoint = dict[tuple[int, str | None], list[Figure]]
"""Figures by size in bytes and variant, one per pass over the sizes."""


def _figures_by_placement(rows: Sequence[Row]) -> dict[Placement, _FiguresByPoint]:
    """Groups the figures of rows above size 0."""
    by_placement: dict[Placement, _FiguresByPoint] = {}
    for placement in PLACEMENTS:
        for row in rows:
            if placement in row.figures and row.size_bytes > 0:
                size_and_variant = (row.size_bytes, row.variant)
                by_placement.setdefault(placement, {}).setdefault(size_and_variant, []).append(row.figures[placement])
    return by_placement


def _sample_pictures(table: Table, group: int, placement: Placement, figures: _FiguresByPoint) -> list[Picture | None]:
    """Draws the scatter of the iterations and the arrivals of one placement, for each variant."""
    pictures: list[Picture | None] = []
    for variant in dict.fromkeys(variant for _, variant in figures):
        by_size = {size: passes for (size, figure_variant), passes in figures.items() if figure_variant == variant}
        label = ", ".join(part for part in (variant, PLACEMENT_WORDS[placement]) if part)
        suffix = f", {label}" if label else ""
        spreads = [spread for size, passes in by_size.items() if (spread := sample_spread.spread_of(size, passes))]
        arrivals_by_size = {
            size: arrivals_us for size, passes in by_size.items() if (arrivals_us := arrivals.arrivals(passes))
        }
        pictures.append(sample_spread.picture(f"Scatter of the iterations{suffix}", spreads))
        pictures.append(
            arrivals.arrival_heat_map(f"Late ranks{suffix}", arrivals_by_size, arrivals.group_ranks(table, group))
        )
    return pictures


def _omissions(rows: Sequence[Row]) -> list[str]:
    """Returns sentences on the rows that the pictures omit."""
    empty_count = sum(row.size_bytes <= 0 for row in rows)
    unplottable_count = sum(row.size_bytes > 0 and not _has_value(row) for row in rows)
    no_busbw_count = sum(row.size_bytes > 0 and _has_only_time(row) for row in rows)
    sentences = []
    if empty_count:
        sentences.append(
            f"{count_text(empty_count, 'row')} of size 0: only in the table, because the axis is logarithmic."
        )
    if unplottable_count:
        sentences.append(
            f"{count_text(unplottable_count, 'row')} without a time or bandwidth above zero: only in the table."
        )
    if no_busbw_count:
        sentences.append(f"{count_text(no_busbw_count, 'row')} with a busbw of 0.00: not in the plot of busbw.")
    return sentences


def _has_only_time(row: Row) -> bool:
    """True if a figure has a time, and a busbw that the log rounds to zero."""
    return any(figure.time_us and figure.busbw_gbps == 0 for figure in row.figures.values())


def _has_value(row: Row) -> bool:
    """True if a figure has a time or a bandwidth above zero."""
    return any(figure.time_us or figure.algbw_gbps or figure.busbw_gbps for figure in row.figures.values())
