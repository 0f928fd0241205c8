"""Plots of curves over size on logarithmic axes, with the range of a healthy system and a reference."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from busbw.report import axes
from busbw.report.axes import Scale, number
from busbw.report.page import LegendEntry, Picture
from busbw.svg import element, group
from busbw.units import size_text

STYLES = 6
"""Number of line styles. Each has its own color, mark and dashes; further lines repeat them."""

_KEY_WIDTH = 34.0


@dataclass(frozen=True)
class Curve:
    """One measured curve."""

    label: str
    points: Mapping[int, float]
    """Values by size in bytes, all above zero."""


@dataclass(frozen=True)
class RangeCurve:
    """Ranges by size in bytes: low, typical, high."""

    label: str
    points: Mapping[int, tuple[float, float, float]]


@dataclass(frozen=True)
class CurvePlot:
    """Content of one picture of curves."""

    title: str
    unit: str
    lines: Sequence[Curve]
    expected: RangeCurve | None = None
    reference: Curve | None = None
    note: str = ""


def picture(plot: CurvePlot) -> Picture | None:
    """Draws the curves. None if no line has a point."""
    lines = [line for line in plot.lines if line.points]
    if not lines:
        return None
    sizes = sorted({size for line in lines for size in line.points})
    x = axes.size_scale(sizes)
    expected = _restrict_range(plot.expected, sizes)
    reference = Curve(plot.reference.label, _restrict(plot.reference.points, sizes)) if plot.reference else None
    reference = reference if reference and reference.points else None
    y = axes.value_scale(_values(lines, expected, reference))
    parts = [
        axes.value_axis(y, f"{plot.unit}"),
        axes.size_axis(x, sizes),
        *([_span(expected, x, y)] if expected else []),
        *(_line(line, index, x, y) for index, line in enumerate(lines)),
        *([_reference(reference, x, y)] if reference else []),
        axes.frame(),
        element("path", d=f"M0 {axes.TOP:g}V{axes.BOTTOM:g}", class_="cursor"),
    ]
    text = _alt_text(plot, lines, expected, reference)
    svg = axes.drawing(
        *parts,
        label=text,
        data_at=" ".join(f"{x(size):.1f}" for size in sizes),
        data_says=json.dumps([_point_text(size, plot.unit, lines, expected, reference) for size in sizes]),
    )
    return Picture(plot.title, text, svg, _keys(lines, expected, reference), plot.note)


def mark(style: int, x: float, y: float) -> Markup:
    """Returns the path of a line's mark. Each style has its own shape."""
    r = 3.2
    shapes = (
        f"M{x - r:.1f} {y:.1f}a{r} {r} 0 1 0 {2 * r:g} 0a{r} {r} 0 1 0 {-2 * r:g} 0z",
        f"M{x - r:.1f} {y - r:.1f}h{2 * r:g}v{2 * r:g}h{-2 * r:g}z",
        f"M{x:.1f} {y - 4:.1f}l4 7h-8z",
        f"M{x:.1f} {y - 4.2:.1f}l4.2 4.2l-4.2 4.2l-4.2 -4.2z",
        f"M{x:.1f} {y + 4:.1f}l4 -7h-8z",
        f"M{x - r:.1f} {y - r:.1f}l{2 * r:g} {2 * r:g}m0 {-2 * r:g}l{-2 * r:g} {2 * r:g}",
    )
    return Markup(shapes[style % STYLES])


def _restrict_range(span: RangeCurve | None, sizes: Sequence[int]) -> RangeCurve | None:
    if span is None:
        return None
    points = {size: span.points[size] for size in sizes if size in span.points}
    return RangeCurve(span.label, points) if points else None


def _restrict(points: Mapping[int, float], sizes: Sequence[int]) -> dict[int, float]:
    """Returns the points at sizes of the run, so that a reference does not stretch the axes."""
    return {size: points[size] for size in sizes if size in points}


def _values(lines: Sequence[Curve], expected: RangeCurve | None, reference: Curve | None) -> list[float]:
    found = [value for line in lines for value in line.points.values()]
    found += [value for points in (expected.points.values() if expected else ()) for value in points]
    return found + list(reference.points.values() if reference else ())


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _line(line: Curve, index: int, x: Scale, y: Scale) -> Markup:
    places = [(x(size), y(value)) for size, value in sorted(line.points.items())]
    marks = Markup("").join(mark(index, *place) for place in places)
    return group(
        element("path", d=_path(places), class_="line"),
        element("path", d=str(marks), class_="mark"),
        class_=f"s{index % STYLES}",
    )


def _span(span: RangeCurve, x: Scale, y: Scale) -> Markup:
    places = sorted(span.points.items())
    upper = [(x(size), y(high)) for size, (_, _, high) in places]
    lower = [(x(size), y(low)) for size, (low, _, _) in reversed(places)]
    if len(places) == 1:  # a range at a single size is as wide as a mark
        upper = [(upper[0][0] - 5, upper[0][1]), (upper[0][0] + 5, upper[0][1])]
        lower = [(lower[0][0] + 5, lower[0][1]), (lower[0][0] - 5, lower[0][1])]
    typical = [(x(size), y(middle)) for size, (_, middle, _) in places]
    return group(
        element("path", d=_path(upper + lower) + "z", class_="range"),
        element("path", d=_path(typical), class_="typical"),
    )


def _reference(line: Curve, x: Scale, y: Scale) -> Markup:
    places = [(x(size), y(value)) for size, value in sorted(line.points.items())]
    crosses = "".join(f"M{a - 3:.1f} {b:.1f}h6M{a:.1f} {b - 3:.1f}v6" for a, b in places)
    return group(
        element("path", d=_path(places), class_="line"), element("path", d=crosses, class_="mark"), class_="ref"
    )


def _keys(lines: Sequence[Curve], expected: RangeCurve | None, reference: Curve | None) -> tuple[LegendEntry, ...]:
    found = [LegendEntry(key_sample(index), line.label) for index, line in enumerate(lines)]
    if expected:
        sample = group(
            element("rect", x=1.0, y=1.0, width=_KEY_WIDTH - 2, height=12.0, class_="range"),
            element("path", d=f"M1 7H{_KEY_WIDTH - 1:g}", class_="typical"),
        )
        found.append(LegendEntry(_sample(sample), expected.label))
    if reference:
        sample = group(
            element("path", d=f"M1 7H{_KEY_WIDTH - 1:g}", class_="line"),
            element("path", d="M14 7h6M17 4v6", class_="mark"),
            class_="ref",
        )
        found.append(LegendEntry(_sample(sample), reference.label))
    return tuple(found)


def key_sample(style: int) -> Markup:
    """Draws the legend sample of a line."""
    return _sample(
        group(
            element("path", d=f"M1 7H{_KEY_WIDTH - 1:g}", class_="line"),
            element("path", d=str(mark(style, _KEY_WIDTH / 2, 7)), class_="mark"),
            class_=f"s{style % STYLES}",
        )
    )


def _sample(inner: Markup) -> Markup:
    return element("svg", inner, viewBox=f"0 0 {_KEY_WIDTH:g} 14", class_="sample", aria_hidden="true")


def _point_text(
    size: int, unit: str, lines: Sequence[Curve], expected: RangeCurve | None, reference: Curve | None
) -> str:
    parts = [f"{line.label} {number(line.points[size])}" for line in lines if size in line.points]
    if expected and size in expected.points:
        low, _, high = expected.points[size]
        parts.append(f"healthy {number(low)} to {number(high)}")
    if reference and size in reference.points:
        parts.append(f"reference {number(reference.points[size])}")
    return f"{size_text(size)}: {'; '.join(parts)} ({unit})"


def _alt_text(plot: CurvePlot, lines: Sequence[Curve], expected: RangeCurve | None, reference: Curve | None) -> str:
    sentences = []
    for line in lines:
        first, last = min(line.points), max(line.points)
        sentences.append(
            f"{line.label}: {number(line.points[first])} at {size_text(first)} to {number(line.points[last])} "
            f"at {size_text(last)}"
        )
    if expected:
        last = max(expected.points)
        low, _, high = expected.points[last]
        sentences.append(f"healthy at {size_text(last)}: {number(low)} to {number(high)}")
    if reference:
        last = max(reference.points)
        sentences.append(f"{reference.label}: {number(reference.points[last])} at {size_text(last)}")
    return f"{plot.title}, {plot.unit}, over message size. {'. '.join(sentences)}. The table below has every figure."
