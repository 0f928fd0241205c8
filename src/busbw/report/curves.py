"""Draws curves over message size, with the range of a healthy system and a reference.

A style is a number that selects color, mark and dashes of a line. A mark is the symbol at each point.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from markupsafe import Markup

from busbw.report import axes
from busbw.report.axes import LEGEND_ICON_WIDTH, Scale, legend_icon, number, path_data
from busbw.report.page import LegendEntry, Picture
from busbw.report.svg import element, group
from busbw.units import size_text

STYLES = 6
"""Number of styles. Further lines repeat them."""
_BANDWIDTH_UNIT = "GB/s"
"""Unit of pictures with a linear axis, which the reader of the page can switch to a logarithmic axis.

Times of all sizes differ by powers of ten, so their axis is always logarithmic."""
_SINGLE_RANGE_HALF_WIDTH = 5
"""Half of the width of a range at a single size, slightly wider than a mark."""


@dataclass(frozen=True)
class Curve:
    """One measured curve, or the curve of a reference."""

    label: str
    points: Mapping[int, float]
    """Values by size in bytes, all above zero."""


@dataclass(frozen=True)
class RangeCurve:
    """Ranges of a healthy system by size."""

    label: str
    points: Mapping[int, tuple[float, float, float]]
    """Low, typical and high value by size in bytes."""


_AnyCurve = TypeVar("_AnyCurve", Curve, RangeCurve)


@dataclass(frozen=True)
class CurvePlot:
    """Content of one picture of curves."""

    title: str
    unit: str
    lines: Sequence[Curve]
    expected: RangeCurve | None = None
    reference: Curve | None = None


def picture(plot: CurvePlot) -> Picture | None:
    """Draws the curves. None if no line has a point."""
    sizes = sorted({size for line in plot.lines for size in line.points})
    if not sizes:
        return None
    plot = replace(
        plot,
        lines=[line for line in plot.lines if line.points],
        expected=_restrict(plot.expected, sizes),
        reference=_restrict(plot.reference, sizes),
    )
    x = axes.size_scale(sizes)
    values = _all_values(plot)
    alt_text = _alt_text(plot)

    def draw(y: Scale) -> Markup:
        return axes.drawing(
            axes.value_axis(y, plot.unit),
            axes.size_axis(x, sizes),
            *([_draw_range(plot.expected, x, y)] if plot.expected else []),
            *(_draw_curve(line, style, x, y) for style, line in enumerate(plot.lines)),
            *([_draw_reference(plot.reference, x, y)] if plot.reference else []),
            axes.frame(),
            element("path", d=f"M0 {axes.TOP:g}V{axes.BOTTOM:g}", class_="cursor"),
            label=alt_text,
            # report.js shows the text of the size that is nearest to the pointer.
            data_at=" ".join(f"{x(size):.1f}" for size in sizes),
            data_says=json.dumps([_point_text(size, plot) for size in sizes]),
        )

    log_svg = draw(axes.value_scale(values))
    legend = _legend(plot)
    if plot.unit != _BANDWIDTH_UNIT:
        return Picture(plot.title, alt_text, log_svg, legend)
    linear_svg = draw(axes.linear_value_scale(values))
    return Picture(plot.title, alt_text, linear_svg, legend, log_svg=log_svg)


def mark(style: int, x: float, y: float) -> Markup:
    """Returns the SVG path of the mark at (x, y). Each style has its own shape."""
    radius = 3.2
    width = 2 * radius
    left, top = x - radius, y - radius
    circle = f"M{left:.1f} {y:.1f}a{radius} {radius} 0 1 0 {width:g} 0a{radius} {radius} 0 1 0 {-width:g} 0z"
    square = f"M{left:.1f} {top:.1f}h{width:g}v{width:g}h{-width:g}z"
    triangle_up = f"M{x:.1f} {y - 4:.1f}l4 7h-8z"
    diamond = f"M{x:.1f} {y - 4.2:.1f}l4.2 4.2l-4.2 4.2l-4.2 -4.2z"
    triangle_down = f"M{x:.1f} {y + 4:.1f}l4 -7h-8z"
    cross = f"M{left:.1f} {top:.1f}l{width:g} {width:g}m0 {-width:g}l{-width:g} {width:g}"
    shapes = (circle, square, triangle_up, diamond, triangle_down, cross)
    return Markup(shapes[style % STYLES])


def _restrict(curve: _AnyCurve | None, sizes: Sequence[int]) -> _AnyCurve | None:
    """Keeps only the points at measured sizes, so that they do not extend the axes. None without a point."""
    if curve is None:
        return None
    points = {size: curve.points[size] for size in sizes if size in curve.points}
    return replace(curve, points=points) if points else None


def _all_values(plot: CurvePlot) -> list[float]:
    values = [value for line in plot.lines for value in line.points.values()]
    if plot.expected:
        values += [value for range_values in plot.expected.points.values() for value in range_values]
    if plot.reference:
        values += plot.reference.points.values()
    return values


def _draw_curve(line: Curve, style: int, x: Scale, y: Scale) -> Markup:
    coordinates = [(x(size), y(value)) for size, value in sorted(line.points.items())]
    marks = Markup("").join(mark(style, *coordinate) for coordinate in coordinates)
    return group(
        element("path", d=path_data(coordinates), class_="line"),
        element("path", d=str(marks), class_="mark"),
        class_=f"s{style % STYLES}",
    )


def _draw_range(expected: RangeCurve, x: Scale, y: Scale) -> Markup:
    ranges = sorted(expected.points.items())
    upper_end = [(x(size), y(high)) for size, (_, _, high) in ranges]
    lower_end = [(x(size), y(low)) for size, (low, _, _) in ranges]
    if len(ranges) == 1:
        upper_end, lower_end = _widen(*upper_end), _widen(*lower_end)
    outline = [*upper_end, *reversed(lower_end)]
    typical = [(x(size), y(middle)) for size, (_, middle, _) in ranges]
    return group(
        element("path", d=path_data(outline) + "z", class_="range"),
        element("path", d=path_data(typical), class_="typical"),
    )


def _widen(point: tuple[float, float]) -> list[tuple[float, float]]:
    """Returns a horizontal line with this point in its middle."""
    x, y = point
    return [(x - _SINGLE_RANGE_HALF_WIDTH, y), (x + _SINGLE_RANGE_HALF_WIDTH, y)]


def _draw_reference(line: Curve, x: Scale, y: Scale) -> Markup:
    coordinates = [(x(size), y(value)) for size, value in sorted(line.points.items())]
    crosses = "".join(
        f"M{cross_x - 3:.1f} {cross_y:.1f}h6M{cross_x:.1f} {cross_y - 3:.1f}v6" for cross_x, cross_y in coordinates
    )
    return group(
        element("path", d=path_data(coordinates), class_="line"),
        element("path", d=crosses, class_="mark"),
        class_="ref",
    )


def _legend(plot: CurvePlot) -> tuple[LegendEntry, ...]:
    entries = [LegendEntry(_line_sample(style), line.label) for style, line in enumerate(plot.lines)]
    if plot.expected:
        sample = group(
            element("rect", x=1.0, y=1.0, width=LEGEND_ICON_WIDTH - 2, height=12.0, class_="range"),
            element("path", d=f"M1 7H{LEGEND_ICON_WIDTH - 1:g}", class_="typical"),
        )
        entries.append(LegendEntry(legend_icon(sample), plot.expected.label))
    if plot.reference:
        sample = group(
            element("path", d=f"M1 7H{LEGEND_ICON_WIDTH - 1:g}", class_="line"),
            element("path", d="M14 7h6M17 4v6", class_="mark"),
            class_="ref",
        )
        entries.append(LegendEntry(legend_icon(sample), plot.reference.label))
    return tuple(entries)


def _line_sample(style: int) -> Markup:
    """Draws the legend sample of a line."""
    return legend_icon(
        group(
            element("path", d=f"M1 7H{LEGEND_ICON_WIDTH - 1:g}", class_="line"),
            element("path", d=str(mark(style, LEGEND_ICON_WIDTH / 2, 7)), class_="mark"),
            class_=f"s{style % STYLES}",
        )
    )


def _point_text(size: int, plot: CurvePlot) -> str:
    """Text of all values at a size: "1 MiB: in place 93.5; healthy 90 to 100 (GB/s)"."""
    parts = [f"{line.label} {number(line.points[size])}" for line in plot.lines if size in line.points]
    if plot.expected and size in plot.expected.points:
        low, _, high = plot.expected.points[size]
        parts.append(f"healthy {number(low)} to {number(high)}")
    if plot.reference and size in plot.reference.points:
        parts.append(f"reference {number(plot.reference.points[size])}")
    return f"{size_text(size)}: {'; '.join(parts)} ({plot.unit})"


def _alt_text(plot: CurvePlot) -> str:
    sentences = []
    for line in plot.lines:
        first, last = min(line.points), max(line.points)
        sentences.append(
            f"{line.label}: {number(line.points[first])} at {size_text(first)} to {number(line.points[last])} "
            f"at {size_text(last)}"
        )
    if plot.expected:
        last = max(plot.expected.points)
        low, _, high = plot.expected.points[last]
        sentences.append(f"healthy at {size_text(last)}: {number(low)} to {number(high)}")
    if plot.reference:
        last = max(plot.reference.points)
        sentences.append(f"{plot.reference.label}: {number(plot.reference.points[last])} at {size_text(last)}")
    return f"{plot.title}, {plot.unit}, over message size. {'. '.join(sentences)}. The table below has every figure."
