"""Terminal plots of bandwidth and time over size."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

import plotext

from busbw.logs import PLACEMENT_WORDS, Figure, Placement, Row
from busbw.units import size_text

WIDTH, HEIGHT = 80, 16
_MAX_SERIES = 6
_MARKERS = ("braille", "dot", "x", "+", "*", "o")


class _Curve(NamedTuple):
    """Properties that the points of a curve share."""

    collective: str | None
    variant: str | None
    dtype: str | None
    redop: str | None
    root: int | None
    group: int
    placement: Placement


_Curves = dict[_Curve, dict[int, float]]
"""Values by size in bytes, for each curve."""


class _Frame(NamedTuple):
    """Size of a plot in characters, and the type of its vertical axis."""

    width: int
    height: int
    is_logarithmic: bool


def busbw_over_size(
    rows: Iterable[Row], *, width: int = WIDTH, height: int = HEIGHT, expected: Mapping[int, float] | None = None
) -> str:
    """Plots busbw in GB/s over the size on a logarithmic axis, one curve per configuration and placement.

    Of repeated measurements of a point (cycles of -N) the last is drawn. The title states how many curves are omitted
    if there are too many. Empty for fewer than two sizes.

    Args:
        rows: Measured rows.
        width: Available columns; at most WIDTH are used.
        height: Lines of the plot.
        expected: Typical busbw of a healthy system by size, drawn with the measured curves.
    """
    curves = _curves(rows, lambda figure: figure.busbw_gbps)
    if len(_sizes(curves)) < 2:
        return ""
    return _drawn(curves, "busbw (GB/s) over size", _Frame(width, height, is_logarithmic=False), expected or {})


def time_over_size(rows: Iterable[Row], *, width: int = WIDTH, height: int = HEIGHT) -> str:
    """Plots the time of an operation in us over the size, both axes logarithmic. Otherwise like `busbw_over_size`."""
    curves = _curves(rows, lambda figure: figure.time_us or None)
    if len(_sizes(curves)) < 2:
        return ""
    return _drawn(curves, "time (us) over size", _Frame(width, height, is_logarithmic=True), {})


def join_columns(left: str, right: str, width: int) -> str:
    """Joins two texts side by side; the left one gets `width` columns."""
    pairs = zip_longest(left.splitlines(), right.splitlines(), fillvalue="")
    return "\n".join(f"{first:<{width}}{second}".rstrip() for first, second in pairs)


def _curves(rows: Iterable[Row], value_of: Callable[[Figure], float | None]) -> _Curves:
    curves: _Curves = {}
    for row in rows:
        for placement, figure in row.figures.items():
            if row.size_bytes > 0 and (value := value_of(figure)) is not None:
                key = _Curve(row.collective, row.variant, row.dtype, row.redop, row.root, row.group, placement)
                curves.setdefault(key, {})[row.size_bytes] = value
    return curves


def _sizes(curves: _Curves) -> list[int]:
    return sorted({size for curve in curves.values() for size in curve})


def _drawn(curves: _Curves, title: str, frame: _Frame, expected: Mapping[int, float]) -> str:
    shown = list(curves)[:_MAX_SERIES]
    if len(shown) < len(curves):
        title += f", the first {len(shown)} of {len(curves)} curves"
    width, sizes = min(frame.width, WIDTH), _sizes(curves)
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plot_size(width, frame.height)
    plotext.title(title)
    height_of: Callable[[float], float] = math.log10 if frame.is_logarithmic else float
    for marker, key in zip(_MARKERS, shown, strict=False):
        points = sorted(curves[key].items())
        heights = [height_of(value) for _, value in points]
        plotext.plot([math.log2(size) for size, _ in points], heights, label=_label(key, list(curves)), marker=marker)
    if points := [(size, value) for size, value in sorted(expected.items()) if sizes[0] <= size <= sizes[-1]]:
        heights = [height_of(value) for _, value in points]
        plotext.scatter([math.log2(size) for size, _ in points], heights, label="expected", marker="o")
    if frame.is_logarithmic:
        drawn = [value for curve in curves.values() for value in curve.values()] + [value for _, value in points]
        low, high = _axis_ends(drawn)
        plotext.ylim(low, high)
        marks = _marks_between(low, high)
        plotext.yticks([math.log10(mark) for mark in marks], [f"{mark:g}" for mark in marks])
    else:
        plotext.ylim(0, None)
    ticks = _ticks(sizes, max_count=max(2, width // 11))
    plotext.xticks([math.log2(size) for size in ticks], [size_text(size).replace(" ", "") for size in ticks])
    picture = plotext.uncolorize(plotext.build())
    return "\n".join(line.rstrip() for line in picture.splitlines())


def _axis_ends(values: Sequence[float]) -> tuple[float, float]:
    """Returns the logarithms of an axis's ends, with a margin so that no tick falls on the frame."""
    low, high = math.log10(min(values)), math.log10(max(values))
    margin = max(0.08 * (high - low), 0.02)
    return low - margin, high + margin


def _marks_between(low: float, high: float) -> list[float]:
    """Returns round ticks between two logarithms: powers of ten, or 1, 2 and 5 times those, or values near the ends."""
    decades = range(math.floor(low), math.ceil(high) + 1)
    edge = 0.04 * (high - low)
    for steps in ((1,), (1, 2, 5)):
        marks = [step * 10.0**decade for decade in decades for step in steps]
        inside = [mark for mark in marks if low + edge < math.log10(mark) < high - edge]
        if len(inside) > 1:
            return inside
    return [float(f"{10 ** (low + 2 * edge):.3g}"), float(f"{10 ** (high - 2 * edge):.3g}")]


def _label(curve: _Curve, curves: list[_Curve]) -> str:
    """Label of a curve: its placement, and the properties in which the curves differ."""
    texts = {
        "collective": curve.collective or "unknown collective",
        "variant": curve.variant or "",
        "dtype": curve.dtype or "unknown type",
        "redop": curve.redop or "no redop",
        "root": f"root {curve.root}",
        "group": f"group {curve.group}",
    }
    parts = [text for field, text in texts.items() if len({getattr(other, field) for other in curves}) > 1]
    return " ".join(filter(None, [*parts, PLACEMENT_WORDS[curve.placement]]))


def _ticks(sizes: list[int], max_count: int) -> list[int]:
    """Selects at most `max_count` sizes, evenly spaced on the logarithmic axis, with the first and the last."""
    if len(sizes) <= max_count:
        return sizes
    low, high = math.log2(sizes[0]), math.log2(sizes[-1])
    targets = [low + (high - low) * i / (max_count - 1) for i in range(max_count)]
    return sorted({min(sizes, key=lambda size: abs(math.log2(size) - target)) for target in targets})
