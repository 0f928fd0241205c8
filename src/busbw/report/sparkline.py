"""Sparkline of a configuration: a small busbw curve, with the busbw of the largest size as text."""

from collections.abc import Mapping

from markupsafe import Markup

from busbw.report.axes import Scale, number, path_data
from busbw.report.page import Sparkline
from busbw.report.svg import element
from busbw.units import size_text

_WIDTH, _HEIGHT, _EDGE = 150.0, 40.0, 4.0  # SVG units
_SIZE_MARGIN = 1.01
"""Ratio of the upper end of the logarithmic size scale to the largest size, and of the smallest size to the lower end.

Above 1, so that the ends differ even if there is only one size."""


def sparkline(measured: Mapping[int, float], healthy: Mapping[int, tuple[float, float, float]]) -> Sparkline | None:
    """Makes the curve and its text. None if nothing was measured.

    Args:
        measured: Busbw in GB/s by size in bytes, all above zero.
        healthy: Low, typical and high GB/s by size.
    """
    if not measured:
        return None
    max_size = max(measured)
    text = f"{_short_number(measured[max_size])} GB/s at {size_text(max_size)}"
    if max_size in healthy:
        low, _, high = healthy[max_size]
        text += f" (healthy {_short_number(low)} to {_short_number(high)})"
    return Sparkline(_draw_sparkline(measured, {size: healthy[size] for size in measured if size in healthy}), text)


def _short_number(value: float) -> str:
    """Returns the value with three significant digits."""
    return number(float(f"{value:.3g}"))


def _draw_sparkline(measured: Mapping[int, float], healthy: Mapping[int, tuple[float, float, float]]) -> Markup:
    sizes = sorted(measured)
    max_gbps = max([*measured.values(), *(high for _, _, high in healthy.values())])
    x = Scale(sizes[0] / _SIZE_MARGIN, sizes[-1] * _SIZE_MARGIN, _EDGE, _WIDTH - _EDGE)

    def y(value: float) -> float:
        """Returns the coordinate on a linear scale, so that a loss is visible even in this small drawing."""
        return _HEIGHT - _EDGE - value / max_gbps * (_HEIGHT - 2 * _EDGE)

    elements = []
    if healthy:
        ranges = sorted(healthy.items())
        upper_end = [(x(size), y(high)) for size, (_, _, high) in ranges]
        lower_end = [(x(size), y(low)) for size, (low, _, _) in reversed(ranges)]
        elements.append(element("path", d=path_data(upper_end + lower_end) + "z", class_="range"))
    points = [(x(size), y(measured[size])) for size in sizes]
    elements.append(element("path", d=path_data(points), class_="line"))
    elements.append(element("circle", cx=points[-1][0], cy=points[-1][1], r=3, class_="mark"))
    view_box = f"0 0 {_WIDTH:g} {_HEIGHT:g}"
    return element("svg", *elements, viewBox=view_box, class_="glance s0", aria_hidden="true")
