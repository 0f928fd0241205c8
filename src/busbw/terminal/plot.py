"""Small pictures of bandwidth and time over size, for a terminal."""

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
    """What the points of a curve have in common."""

    collective: str | None
    variant: str | None
    dtype: str | None
    redop: str | None
    root: int | None
    group: int
    placement: Placement


_Curves = dict[_Curve, dict[int, float]]
"""The value at each size of each curve."""


class _Frame(NamedTuple):
    """How large a picture is, and its vertical axis."""

    width: int
    height: int
    is_logarithmic: bool


def busbw_over_size(
    rows: Iterable[Row], *, width: int = WIDTH, height: int = HEIGHT, expected: Mapping[int, float] | None = None
) -> str:
    """Draws busbw in GB/s over the size on a logarithmic axis, a curve per configuration and placement.

    Repeated measurements of a point (cycles of -N) are drawn as their last. Returns an empty string when there are
    fewer than two sizes, and says so in the title when there are more curves than a small picture can show.

    Args:
        rows: What was measured.
        width: Columns of the picture; at most WIDTH are used.
        height: Its lines.
        expected: Busbw by size that a healthy system reaches, drawn beside what was measured.
    """
    curves = _curves(rows, lambda figure: figure.busbw_gbps)
    if len(_sizes(curves)) < 2:
        return ""
    return _drawn(curves, "busbw (GB/s) over size", _Frame(width, height, is_logarithmic=False), expected or {})


def time_over_size(rows: Iterable[Row], *, width: int = WIDTH, height: int = HEIGHT) -> str:
    """Draws the time of an operation in us over the size, both axes logarithmic; otherwise as busbw_over_size."""
    curves = _curves(rows, lambda figure: figure.time_us or None)
    if len(_sizes(curves)) < 2:
        return ""
    return _drawn(curves, "time (us) over size", _Frame(width, height, is_logarithmic=True), {})


def join_columns(left: str, right: str, width: int) -> str:
    """Two pictures next to each other, the left one in so many columns."""
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
        low, high = _room_around(drawn)
        plotext.ylim(low, high)
        marks = _marks_between(low, high)
        plotext.yticks([math.log10(mark) for mark in marks], [f"{mark:g}" for mark in marks])
    else:
        plotext.ylim(0, None)
    ticks = _ticks(sizes, most=max(2, width // 11))
    plotext.xticks([math.log2(size) for size in ticks], [size_text(size).replace(" ", "") for size in ticks])
    picture = plotext.uncolorize(plotext.build())
    return "\n".join(line.rstrip() for line in picture.splitlines())


def _room_around(values: Sequence[float]) -> tuple[float, float]:
    """Logarithms of the ends of an axis that holds the values, with room so that no tick lies in the frame itself."""
    low, high = math.log10(min(values)), math.log10(max(values))
    room = max(0.08 * (high - low), 0.02)
    return low - room, high + room


def _marks_between(low: float, high: float) -> list[float]:
    """Round figures for an axis between two logarithms: powers of ten, or 1, 2 and 5 times those, or its two ends."""
    decades = range(math.floor(low), math.ceil(high) + 1)
    edge = 0.04 * (high - low)
    for steps in ((1,), (1, 2, 5)):
        marks = [step * 10.0**decade for decade in decades for step in steps]
        inside = [mark for mark in marks if low + edge < math.log10(mark) < high - edge]
        if len(inside) > 1:
            return inside
    return [float(f"{10 ** (low + 2 * edge):.3g}"), float(f"{10 ** (high - 2 * edge):.3g}")]


def _label(curve: _Curve, curves: list[_Curve]) -> str:
    """The parts of a curve that tell it from the others; its placement always."""
    texts = {
        "collective": curve.collective or "some collective",
        "variant": curve.variant or "",
        "dtype": curve.dtype or "some type",
        "redop": curve.redop or "no redop",
        "root": f"root {curve.root}",
        "group": f"group {curve.group}",
    }
    parts = [text for field, text in texts.items() if len({getattr(other, field) for other in curves}) > 1]
    return " ".join(filter(None, [*parts, PLACEMENT_WORDS[curve.placement]]))


def _ticks(sizes: list[int], most: int) -> list[int]:
    """At most `most` of the sizes, spread evenly on the logarithmic axis and always the first and the last."""
    if len(sizes) <= most:
        return sizes
    low, high = math.log2(sizes[0]), math.log2(sizes[-1])
    places = [low + (high - low) * i / (most - 1) for i in range(most)]
    return sorted({min(sizes, key=lambda size: abs(math.log2(size) - place)) for place in places})
