"""Sparkline of a configuration: a small busbw curve, with the busbw of the largest size as text."""

from collections.abc import Callable, Mapping

from markupsafe import Markup

from busbw.report.axes import Scale, number
from busbw.report.page import Sparkline
from busbw.svg import element
from busbw.units import size_text

_WIDTH, _HEIGHT, _EDGE = 150.0, 40.0, 4.0


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
    text = f"{number(_digits(measured[largest]))} GB/s at {size_text(largest)}"
    if limits:
        text += f" (healthy {number(_digits(limits[0]))} to {number(_digits(limits[2]))})"
    return Sparkline(_picture(measured, {size: healthy[size] for size in measured if size in healthy}), text)


def _digits(value: float) -> float:
    """Rounds to three significant digits."""
    return float(f"{value:.3g}")


def _picture(measured: Mapping[int, float], healthy: Mapping[int, tuple[float, float, float]]) -> Markup:
    sizes = sorted(measured)
    maximum = max([*measured.values(), *(one[2] for one in healthy.values())])
    x = Scale(sizes[0] / 1.01, sizes[-1] * 1.01, _EDGE, _WIDTH - _EDGE)

    def y(value: float) -> float:
        """Linear scale, so that a loss is visible even at this size."""
        return _HEIGHT - _EDGE - value / maximum * (_HEIGHT - 2 * _EDGE)

    parts = []
    if healthy:
        known = sorted(healthy)
        corners = [(size, healthy[size][2]) for size in known] + [(size, healthy[size][0]) for size in reversed(known)]
        parts.append(element("path", d=_path(corners, x, y) + "z", class_="range"))
    parts.append(element("path", d=_path([(size, measured[size]) for size in sizes], x, y), class_="line"))
    last = (x(sizes[-1]), y(measured[sizes[-1]]))
    parts.append(element("circle", cx=last[0], cy=last[1], r=3, class_="mark"))
    box = f"0 0 {_WIDTH:g} {_HEIGHT:g}"
    return element("svg", *parts, viewBox=box, class_="glance s0", aria_hidden="true")


def _path(points: list[tuple[int, float]], x: Scale, y: Callable[[float], float]) -> str:
    return "M" + "L".join(f"{x(size):.1f} {y(value):.1f}" for size, value in points)
