"""Makes the section of a comparison: speed-ups by size with intervals and verdicts, and differences of settings.

A speed-up is the ratio of B's speed to A's speed at one point. A point is one size of one configuration. A threshold is
the relative change that FASTER and SLOWER must exceed if the runs are few.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise

from markupsafe import Markup

from busbw.compare import ChangeVerdict, Comparison, Side, SizeResult
from busbw.compare.result import TimeQuantity, change_text
from busbw.compare.text import claim_sentences, unpaired_points_sentences
from busbw.logs.log import PLACEMENT_WORDS
from busbw.report import axes, curves
from busbw.report.axes import legend_icon, number
from busbw.report.curves import Curve, CurvePlot
from busbw.report.page import ColumnHead, ComparisonSection, DataTable, LegendEntry, NamedValue, Picture
from busbw.report.svg import element, group
from busbw.units import count_text, size_text

# SVG paths of the marks around the center (x, y).
_SHAPES: dict[ChangeVerdict, str] = {
    ChangeVerdict.FASTER: "M{x:.1f} {above:.1f}l5 9h-10z",
    ChangeVerdict.SLOWER: "M{x:.1f} {below:.1f}l5 -9h-10z",
    ChangeVerdict.SAME: "M{left:.1f} {y:.1f}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
    ChangeVerdict.UNCLEAR: "M{left:.1f} {top:.1f}l8 8m0 -8l-8 8",
}
_UNITS: dict[TimeQuantity, str] = {
    "device_time_us": "device us",
    "median_us": "median us",
    "time_us": "time us",
    "algbw_gbps": "algbw GB/s",
    "busbw_gbps": "busbw GB/s",
}
_BAND_MARGIN = 1.02
"""Minimum ratio of the upper end of the value axis to the upper edge of the shaded band, likewise at the lower end."""


def comparison_section(comparison: Comparison, anchor: str, *, has_curves: bool = False) -> ComparisonSection:
    """Makes the section of a comparison.

    Args:
        comparison: Comparison to show.
        anchor: Anchor on the page.
        has_curves: True to draw the curves of both sides in addition to their ratio.
    """
    results_by_configuration = [
        (title, list(results)) for title, results in groupby(comparison.results, key=_configuration_title)
    ]
    pictures = []
    for title, results in results_by_configuration:
        pictures += [
            _ratio_picture(title, results, comparison),
            _side_curves_picture(title, results) if has_curves else None,
        ]
    return ComparisonSection(
        anchor=anchor,
        title=f"{_side_title(comparison.b)} against {_side_title(comparison.a)}",
        sides=(NamedValue("A", _side_text(comparison.a)), NamedValue("B", _side_text(comparison.b))),
        counts=tuple(
            NamedValue(verdict.value, count_text(size_count, "size"))
            for verdict in ChangeVerdict
            if (size_count := comparison.count(verdict))
        ),
        pictures=tuple(picture for picture in pictures if picture),
        grids=tuple(_result_table(title, results) for title, results in results_by_configuration),
        wrong_data=comparison.wrong_data,
        sentences=(
            f"The resolution is {change_text(comparison.resolution)}: smaller changes do not matter. "
            f"Intervals: {comparison.level_text}.",
            *comparison.method,
            *claim_sentences(comparison),
            *comparison.warnings,
            *unpaired_points_sentences(comparison),
        ),
        differences=_differences_table(comparison),
    )


def _side_title(side: Side) -> str:
    return side.label if side.label not in ("A", "B") else f"{side.label} ({side.source})"


def _side_text(side: Side) -> str:
    runs = count_text(side.runs, "run") if side.runs > 1 else ""
    label = side.label if side.label not in ("A", "B") else ""
    return ", ".join(filter(None, [label, side.source, side.library, runs]))


def _configuration_title(result: SizeResult) -> str:
    """Title such as "all_reduce float sum, 8 ranks, out of place"."""
    point = result.point
    name_parts = [(point.collective or "unknown collective"), point.dtype, point.redop]
    facts = [
        " ".join(part for part in name_parts if part),
        count_text(point.ranks, "rank") if point.ranks else None,
        f"root {point.root}" if point.root is not None else None,
        f"group {point.group}" if point.group else None,
        point.system,
        PLACEMENT_WORDS[point.placement],
        "device time" if result.compared == "device_time_us" else None,
    ]
    return ", ".join(fact for fact in facts if fact)


def _ratio_picture(title: str, results: Sequence[SizeResult], comparison: Comparison) -> Picture | None:
    """Draws the speed-ups over size, with a shaded band around 1 for changes below `_threshold`.

    None without a speed-up.
    """
    drawable_results = [
        result for result in results if result.speedup and result.speedup > 0 and result.point.size_bytes > 0
    ]
    if not drawable_results:
        return None
    sizes = sorted({result.point.size_bytes for result in drawable_results})
    x = axes.size_scale(sizes)
    thresholds = {result.point.size_bytes: _threshold(result, comparison) for result in drawable_results}
    max_ratio = (1 + max(thresholds.values())) * _BAND_MARGIN
    visible_values = [max_ratio, 1 / max_ratio]
    for result in drawable_results:
        visible_values += [value for value in (result.speedup, *_bounds(result)) if value]
    y = axes.value_scale(visible_values)
    elements = [
        axes.value_axis(y, "speed of B over A"),
        axes.size_axis(x, sizes),
        _draw_band(thresholds, x, y),
        element("path", d=f"M{axes.LEFT:g} {y(1):.1f}H{axes.RIGHT:g}", class_="one"),
        *(_draw_result(result, x, y) for result in drawable_results),
        axes.frame(),
    ]
    alt_text = _alt_text(title, drawable_results)
    return Picture(title, alt_text, axes.drawing(*elements, label=alt_text), _legend(drawable_results, comparison))


def _bounds(result: SizeResult) -> list[float]:
    """Returns the bounds of the speed-up that are above zero, and so can be drawn on the logarithmic axis."""
    return [bound for bound in (result.interval or result.rounding or ()) if bound > 0]


def _threshold(result: SizeResult, comparison: Comparison) -> float:
    """Returns the threshold of a size, or the resolution if the size has no threshold."""
    return comparison.resolution if result.threshold is None else result.threshold


def _draw_band(thresholds: Mapping[int, float], x: axes.Scale, y: axes.Scale) -> Markup:
    """Draws the band of changes below the thresholds. Its height changes half way between neighboring sizes."""
    sizes = sorted(thresholds)
    ends = [axes.LEFT, *((x(size) + x(next_size)) / 2 for size, next_size in pairwise(sizes)), axes.RIGHT]
    heights = [(y(1 + thresholds[size]), y(1 / (1 + thresholds[size]))) for size in sizes]
    steps = list(zip(pairwise(ends), heights, strict=True))
    upper = [f"{left:.1f} {top:.1f}L{right:.1f} {top:.1f}" for (left, right), (top, _) in steps]
    lower = [f"{right:.1f} {bottom:.1f}L{left:.1f} {bottom:.1f}" for (left, right), (_, bottom) in reversed(steps)]
    return element("path", d=f"M{'L'.join([*upper, *lower])}z", class_="same")


def _side_curves_picture(title: str, results: Sequence[SizeResult]) -> Picture | None:
    """Draws the compared figures of both sides as curves."""
    quantity = results[0].compared
    figures_by_side = {"A": [result.a for result in results], "B": [result.b for result in results]}
    side_curves = []
    for label, figures in figures_by_side.items():
        points = {
            result.point.size_bytes: getattr(side_figures, quantity)
            for result, side_figures in zip(results, figures, strict=True)
            if result.compared == quantity and result.point.size_bytes > 0
        }
        side_curves.append(Curve(label, {size: value for size, value in points.items() if value}))
    return curves.picture(CurvePlot(f"A and B: {title}", _UNITS[quantity], side_curves))


def _draw_result(result: SizeResult, x: axes.Scale, y: axes.Scale) -> Markup:
    assert result.speedup is not None
    mark_x, mark_y = x(result.point.size_bytes), y(result.speedup)
    bounds = _bounds(result)
    bar = []
    if len(bounds) == 2:
        bar = [element("path", d=f"M{mark_x:.1f} {y(bounds[0]):.1f}V{y(bounds[1]):.1f}", class_="whisker")]
    tooltip = f"{size_text(result.point.size_bytes)}: x{result.speedup:.3f}, {result.verdict.value}: {result.reason}"
    return group(
        element("title", tooltip),
        *bar,
        element("path", d=_shape_path(result.verdict, mark_x, mark_y)),
        class_=_css_class(result.verdict),
    )


def _shape_path(verdict: ChangeVerdict, x: float, y: float) -> str:
    return _SHAPES[verdict].format(x=x, y=y, above=y - 5, below=y + 5, left=x - 4, top=y - 4)


def _css_class(verdict: ChangeVerdict) -> str:
    return f"ratio {verdict.value.lower()}"


def _legend(results: Sequence[SizeResult], comparison: Comparison) -> tuple[LegendEntry, ...]:
    entries = [
        LegendEntry(
            legend_icon(group(element("path", d=_shape_path(verdict, 17, 7)), class_=_css_class(verdict))),
            verdict.value,
        )
        for verdict in ChangeVerdict
        if any(result.verdict is verdict for result in results)
    ]
    band_icon = legend_icon(element("rect", x=2, y=2, width=30, height=10, class_="same"))
    entries.append(LegendEntry(band_icon, _band_label(results, comparison)))
    if any(result.interval for result in results):
        entries.append(LegendEntry(legend_icon(element("path", d="M17 1V13", class_="whisker")), "interval"))
    elif any(result.rounding for result in results):
        entries.append(LegendEntry(legend_icon(element("path", d="M17 1V13", class_="whisker")), "rounding bounds"))
    return tuple(entries)


def _band_label(results: Sequence[SizeResult], comparison: Comparison) -> str:
    """Describes the band. Sizes with enough runs have no threshold: there, also a change within the band can count."""
    labels = []
    if limits := [result.threshold for result in results if result.threshold is not None]:
        limits_text = " to ".join(dict.fromkeys(map(change_text, (min(limits), max(limits)))))
        labels.append(f"no change counts below {limits_text}")
    if len(limits) < len(results):
        labels.append(f"below the resolution of {change_text(comparison.resolution)}")
    return "; ".join(labels)


def _alt_text(title: str, results: Sequence[SizeResult]) -> str:
    slowest = min(results, key=lambda result: result.speedup or 0.0)
    fastest = max(results, key=lambda result: result.speedup or 0.0)
    counts = ", ".join(
        f"{size_count} {verdict.value}"
        for verdict in ChangeVerdict
        if (size_count := sum(result.verdict is verdict for result in results))
    )
    return (
        f"Speed of B over A by message size, {title}: {counts}. Minimum x{slowest.speedup:.3f} at "
        f"{size_text(slowest.point.size_bytes)}, maximum x{fastest.speedup:.3f} at "
        f"{size_text(fastest.point.size_bytes)}."
    )


def _result_table(title: str, results: Sequence[SizeResult]) -> DataTable:
    unit = _UNITS[results[0].compared]
    has_claims = any(result.claimed_speedup is not None for result in results)
    columns = [
        ColumnHead("size"),
        ColumnHead(f"A, {unit}"),
        ColumnHead(f"B, {unit}"),
        ColumnHead("speed-up"),
        ColumnHead("interval", is_number=False),
        ColumnHead("verdict", is_number=False),
        ColumnHead("reason", is_number=False),
        *([ColumnHead("stated in the log", is_number=False)] if has_claims else []),
    ]
    rows = []
    for result in results:
        quantity = result.compared
        suffix = "" if result.compared == results[0].compared else f" {_UNITS[result.compared]}"
        cells = [
            size_text(result.point.size_bytes),
            _number_text(getattr(result.a, quantity)) + suffix,
            _number_text(getattr(result.b, quantity)) + suffix,
            f"{result.speedup:.3f}" if result.speedup is not None else "",
            f"{result.interval[0]:.3f} to {result.interval[1]:.3f}" if result.interval else "none",
            result.verdict.value,
            result.reason,
        ]
        if has_claims:
            cells.append(_claim_text(result))
        rows.append(tuple(cells))
    return DataTable(title, tuple(columns), tuple(rows))


def _claim_text(result: SizeResult) -> str:
    if result.claimed_speedup is None:
        return ""
    remark = " (does not agree with its figures)" if result.claim_agrees is False else ""
    return f"{result.claimed_speedup:g}x{remark}"


def _number_text(value: float | None) -> str:
    return "" if value is None else number(value)


def _differences_table(comparison: Comparison) -> DataTable | None:
    if not comparison.differences:
        return None
    columns = (
        ColumnHead("setting", is_number=False),
        ColumnHead("A", is_number=False),
        ColumnHead("B", is_number=False),
    )
    rows = tuple(
        (difference.what, difference.a or "not stated", difference.b or "not stated")
        for difference in comparison.differences
    )
    return DataTable("Settings that differ between A and B", columns, rows)
