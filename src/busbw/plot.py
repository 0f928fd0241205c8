"""A small picture of bandwidth over size, for a terminal."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import plotext

from busbw.logs import Placement, Row
from busbw.units import size_text

WIDTH, HEIGHT = 80, 16
_MOST_SERIES = 6
_MARKERS = ("braille", "dot", "x", "+", "*", "o")
_PLACEMENTS: dict[Placement, str] = {"out_of_place": "out of place", "in_place": "in place", "unstated": ""}


class _Curve(NamedTuple):
    """What the points of a curve have in common."""

    collective: str | None
    variant: str | None
    dtype: str | None
    redop: str | None
    root: int | None
    group: int
    placement: Placement


def busbw_over_size(rows: Iterable[Row], *, width: int = WIDTH) -> str:
    """Draws busbw in GB/s over the size on a logarithmic axis, a curve per configuration and placement.

    Repeated measurements of a point (cycles of -N) are drawn as their last. Returns an empty string when there are
    fewer than two sizes, and says so in the title when there are more curves than a small picture can show.
    """
    curves: dict[_Curve, dict[int, float]] = {}
    for row in rows:
        for placement, figure in row.figures.items():
            if row.size_bytes > 0 and figure.busbw_gbps is not None:
                key = _Curve(row.collective, row.variant, row.dtype, row.redop, row.root, row.group, placement)
                curves.setdefault(key, {})[row.size_bytes] = figure.busbw_gbps
    sizes = sorted({size for curve in curves.values() for size in curve})
    if len(sizes) < 2:
        return ""
    shown = list(curves)[:_MOST_SERIES]
    title = "busbw (GB/s) over size"
    if len(shown) < len(curves):
        title += f", the first {len(shown)} of {len(curves)} curves"

    width = min(width, WIDTH)
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plot_size(width, HEIGHT)
    plotext.title(title)
    for marker, key in zip(_MARKERS, shown, strict=False):
        points = sorted(curves[key].items())
        plotext.plot(
            [math.log2(size) for size, _ in points],
            [busbw for _, busbw in points],
            label=_label(key, list(curves)),
            marker=marker,
        )
    plotext.ylim(0, None)
    ticks = _ticks(sizes, most=max(2, width // 11))
    plotext.xticks([math.log2(size) for size in ticks], [size_text(size).replace(" ", "") for size in ticks])
    picture = plotext.uncolorize(plotext.build())
    return "\n".join(line.rstrip() for line in picture.splitlines())


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
    return " ".join(filter(None, [*parts, _PLACEMENTS[curve.placement]]))


def _ticks(sizes: list[int], most: int) -> list[int]:
    """At most `most` of the sizes, spread evenly on the logarithmic axis and always the first and the last."""
    if len(sizes) <= most:
        return sizes
    low, high = math.log2(sizes[0]), math.log2(sizes[-1])
    places = [low + (high - low) * i / (most - 1) for i in range(most)]
    return sorted({min(sizes, key=lambda size: abs(math.log2(size) - place)) for place in places})
