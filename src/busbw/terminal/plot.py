"""Terminal plots of bandwidth and time over size. A curve is one configuration with one placement."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from busbw.logs.log import PLACEMENT_WORDS, Figure, Placement, Row
from busbw.terminal.charts import Chart
from busbw.units import size_text

WIDTH, HEIGHT = 80, 16
"""Maximum width and default height, in characters."""
_TICK_WIDTH = 11
"""Columns for the label of one size on the horizontal axis, including a gap."""
_MARKERS = ("braille", "dot", "x", "+", "*", "#")
"""Marker of each drawn curve. More curves are not drawn."""
_EXPECTED_MARKER = "o"
_AXIS_MARGIN = 0.08
"""Margin of a logarithmic axis around the values, as a fraction of their range."""
_MIN_AXIS_MARGIN = 0.02
"""Minimum margin of a logarithmic axis in decades, so that equal values have an axis of some length."""
_FRAME_DISTANCE = 0.04
"""Minimum distance of a tick from the frame, as a fraction of the axis. A tick may lie in the margin."""


class _CurveKey(NamedTuple):
    """Properties that the points of a curve share."""

    collective: str | None
    variant: str | None
    dtype: str | None
    redop: str | None
    root: int | None
    group: int
    placement: Placement


_Curves = dict[_CurveKey, dict[int, float]]
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

    Of repeated measurements of a point (cycles of -N) the last is drawn. If there are too many curves, the title states
    how many are drawn. The text is empty for fewer than two sizes.

    Args:
        rows: Measured rows.
        width: Available columns; at most WIDTH are used.
        height: Lines of the plot.
        expected: Typical busbw of a healthy system by size, drawn with the measured curves.
    """
    curves = _collect_curves(rows, lambda figure: figure.busbw_gbps)
    if len(_sizes(curves)) < 2:
        return ""
    return _draw(curves, "busbw (GB/s) over size", _Frame(width, height, is_logarithmic=False), expected or {})


def time_over_size(rows: Iterable[Row], *, width: int = WIDTH, height: int = HEIGHT) -> str:
    """Plots the time of an operation in us over the size, both axes logarithmic. Otherwise like `busbw_over_size`."""
    curves = _collect_curves(rows, lambda figure: figure.time_us or None)  # 0 has no logarithm
    if len(_sizes(curves)) < 2:
        return ""
    return _draw(curves, "time (us) over size", _Frame(width, height, is_logarithmic=True), {})


def join_columns(left: str, right: str, width: int) -> str:
    """Joins two texts side by side; the left one gets `width` columns."""
    pairs = zip_longest(left.splitlines(), right.splitlines(), fillvalue="")
    return "\n".join(f"{first:<{width}}{second}".rstrip() for first, second in pairs)


def _collect_curves(rows: Iterable[Row], value_of: Callable[[Figure], float | None]) -> _Curves:
    curves: _Curves = {}
    for row in rows:
        for placement, figure in row.figures.items():
            if row.size_bytes > 0 and (value := value_of(figure)) is not None:
                key = _CurveKey(row.collective, row.variant, row.dtype, row.redop, row.root, row.group, placement)
                curves.setdefault(key, {})[row.size_bytes] = value
    return curves


def _sizes(curves: _Curves) -> list[int]:
    return sorted({size for curve in curves.values() for size in curve})


def _draw(curves: _Curves, title: str, frame: _Frame, expected: Mapping[int, float]) -> str:
    keys = list(curves)
    shown_keys = keys[: len(_MARKERS)]
    if len(shown_keys) < len(keys):
        title += f", the first {len(shown_keys)} of {len(keys)} curves"
    width, sizes = min(frame.width, WIDTH), _sizes(curves)
    chart = Chart(title, width, frame.height)
    to_axis: Callable[[float], float] = math.log10 if frame.is_logarithmic else float
    for marker, key in zip(_MARKERS, shown_keys, strict=False):
        points = sorted(curves[key].items())
        axis_values = [to_axis(value) for _, value in points]
        sizes_log2 = [math.log2(size) for size, _ in points]
        chart.add(sizes_log2, axis_values, label=_label(key, keys), marker=marker, are_joined=True)
    expected_points = [(size, value) for size, value in sorted(expected.items()) if sizes[0] <= size <= sizes[-1]]
    if expected_points:
        axis_values = [to_axis(value) for _, value in expected_points]
        sizes_log2 = [math.log2(size) for size, _ in expected_points]
        chart.add(sizes_log2, axis_values, label="expected", marker=_EXPECTED_MARKER, are_joined=False)
    if frame.is_logarithmic:
        measured_values = [value for curve in curves.values() for value in curve.values()]
        _set_logarithmic_y_axis(chart, measured_values + [value for _, value in expected_points])
    else:
        chart.set_y_range(0, None)
    size_ticks = _size_ticks(sizes, max_count=max(2, width // _TICK_WIDTH))
    labels = [size_text(size).replace(" ", "") for size in size_ticks]
    chart.set_x_ticks([math.log2(size) for size in size_ticks], labels)
    return chart.text()


def _set_logarithmic_y_axis(chart: Chart, values: Sequence[float]) -> None:
    """Sets the range and the ticks of the vertical axis for values that the chart has as logarithms."""
    low, high = _axis_ends(values)
    chart.set_y_range(low, high)
    ticks = _value_ticks(low, high)
    chart.set_y_ticks([math.log10(tick) for tick in ticks], [f"{tick:g}" for tick in ticks])


def _axis_ends(values: Sequence[float]) -> tuple[float, float]:
    """Returns the logarithms of the ends of an axis: the smallest and largest value with a margin."""
    low, high = math.log10(min(values)), math.log10(max(values))
    margin = max(_AXIS_MARGIN * (high - low), _MIN_AXIS_MARGIN)
    return low - margin, high + margin


def _value_ticks(low: float, high: float) -> list[float]:
    """Returns round ticks between two logarithms: powers of ten, or 1, 2 and 5 times powers of ten.

    If fewer than two round ticks are inside, returns one value near each end.
    """
    decades = range(math.floor(low), math.ceil(high) + 1)
    edge = _FRAME_DISTANCE * (high - low)
    for steps in ((1,), (1, 2, 5)):
        ticks = [step * 10.0**decade for decade in decades for step in steps]
        inside = [tick for tick in ticks if low + edge < math.log10(tick) < high - edge]
        if len(inside) > 1:
            return inside
    return [float(f"{10 ** (low + 2 * edge):.3g}"), float(f"{10 ** (high - 2 * edge):.3g}")]


def _label(curve: _CurveKey, all_curves: list[_CurveKey]) -> str:
    """Returns the label of a curve: its placement, and its value of each property in which the curves differ."""
    texts = {
        "collective": curve.collective or "unknown collective",
        "variant": curve.variant or "",
        "dtype": curve.dtype or "unknown type",
        "redop": curve.redop or "no redop",
        "root": f"root {curve.root}",
        "group": f"group {curve.group}",
    }
    parts = [text for field, text in texts.items() if len({getattr(key, field) for key in all_curves}) > 1]
    return " ".join(filter(None, [*parts, PLACEMENT_WORDS[curve.placement]]))


def _size_ticks(sizes: list[int], max_count: int) -> list[int]:
    """Selects at most `max_count` sizes, evenly spaced on the logarithmic axis, with the first and the last."""
    if len(sizes) <= max_count:
        return sizes
    low, high = math.log2(sizes[0]), math.log2(sizes[-1])
    even_positions = [low + (high - low) * index / (max_count - 1) for index in range(max_count)]
    return sorted({min(sizes, key=lambda size: abs(math.log2(size) - position)) for position in even_positions})
