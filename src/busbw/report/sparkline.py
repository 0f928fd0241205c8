"""Sparkline of a configuration: a small busbw curve, with the busbw of the largest size as text."""

from collections.abc import Mapping

from markupsafe import Markup

from busbw.report.axes import Scale, number, path_data
from busbw.report.page import Sparkline
from busbw.svg import element
from busbw.units import size_text

_WIDTH, _HEIGHT, _EDGE = 150.0, 40.0, 4.0  # SVG units


def sparkline(measured: Mapping[int, float], healthy: Mapping[int, tuple[float, float, float]]) -> Sparkline | None:
    """Makes the curve and its text. None without measured values.

    Args:
        measured: Busbw in GB/s by size in bytes, all above zero.
        healthy: Low, typical and high GB/s by size.
    """
    if not measured:
        return None
    largest = max(measured)
    limits = healthy.get(largest)
    text = f"{number(_round_to_three_digits(measured[largest]))} GB/s at {size_text(largest)}"
    if limits:
        text += f" (healthy {number(_round_to_three_digits(limits[0]))} to {number(_round_to_three_digits(limits[2]))})"
    return Sparkline(_draw_sparkline(measured, {size: healthy[size] for size in measured if size in healthy}), text)


def _round_to_three_digits(value: float) -> float:
    """Rounds to three significant digits."""
    return float(f"{value:.3g}")


def _draw_sparkline(measured: Mapping[int, float], healthy: Mapping[int, tuple[float, float, float]]) -> Markup:
    sizes = sorted(measured)
    max_gbps = max([*measured.values(), *(limits[2] for limits in healthy.values())])
    x = Scale(sizes[0] / 1.01, sizes[-1] * 1.01, _EDGE, _WIDTH - _EDGE)

    def y(value: float) -> float:
        """Linear scale, so that a loss is visible even at this size."""
        return _HEIGHT - _EDGE - value / max_gbps * (_HEIGHT - 2 * _EDGE)

    elements = []
    if healthy:
        healthy_sizes = sorted(healthy)
        corners = [(size, healthy[size][2]) for size in healthy_sizes] + [
            (size, healthy[size][0]) for size in reversed(healthy_sizes)
        ]
        elements.append(
            element("path", d=path_data((x(size), y(gbps)) for size, gbps in corners) + "z", class_="range")
        )
    points = [(x(size), y(measured[size])) for size in sizes]
    elements.append(element("path", d=path_data(points), class_="line"))
    elements.append(element("circle", cx=points[-1][0], cy=points[-1][1], r=3, class_="mark"))
    view_box = f"0 0 {_WIDTH:g} {_HEIGHT:g}"
    return element("svg", *elements, viewBox=view_box, class_="glance s0", aria_hidden="true")
