"""Axes of all pictures with curves, logarithmic or linear. Coordinates are SVG units, y downwards."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from busbw.report import svg
from busbw.report.svg import element, group
from busbw.units import number_text, size_text

WIDTH, HEIGHT = 460.0, 300.0
LEFT, RIGHT, TOP, BOTTOM = 68.0, 448.0, 12.0, 252.0
"""Frame of the curves, in SVG units. Tick labels are outside of it."""
LEGEND_ICON_WIDTH = 34.0

_MAX_SIZE_LABELS = 7
_MAX_VALUE_LABELS = 7
_SIZE_MARGIN = 1.3
"""Ratio of the upper end of the size scale to the largest size, and of the smallest size to the lower end."""
_SINGLE_SIZE_MARGIN = 2.0
"""The same ratio if there is only one size."""
_VALUE_MARGIN_SHARE = 0.05
"""Margin at each end of a logarithmic value scale, as a share of the length from the lowest to the greatest value."""
_MIN_VALUE_MARGIN = 1.08
"""Minimum ratio of the upper end of a logarithmic value scale to the greatest value, likewise at the lower end."""
_LINEAR_MARGIN = 1.06
"""Ratio of the upper end of a linear scale to the greatest value."""
_LINEAR_TICKS_BELOW = 6.0
"""A logarithmic scale has evenly spaced labels if the ratio of its upper to its lower end is below this value."""


@dataclass(frozen=True)
class Scale:
    """Mapping of the values from `low` to `high` to the coordinates from `start` to `end`. By default logarithmic."""

    low: float
    high: float
    start: float
    end: float
    is_linear: bool = False

    def __call__(self, value: float) -> float:
        """Returns the coordinate of a value."""
        if self.is_linear:
            fraction = (value - self.low) / (self.high - self.low)
        else:
            fraction = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + fraction * (self.end - self.start)


def size_scale(sizes: Iterable[int]) -> Scale:
    """Makes the horizontal scale. A single size is in the middle."""
    size_list = list(sizes)
    low, high = float(min(size_list)), float(max(size_list))
    margin = _SIZE_MARGIN if low < high else _SINGLE_SIZE_MARGIN
    return Scale(low / margin, high * margin, LEFT, RIGHT)


def value_scale(values: Iterable[float]) -> Scale:
    """Makes the logarithmic vertical scale, with a margin at both ends."""
    value_list = list(values)
    low, high = min(value_list), max(value_list)
    margin = max((high / low) ** _VALUE_MARGIN_SHARE, _MIN_VALUE_MARGIN)
    return Scale(low / margin, high * margin, BOTTOM, TOP)


def linear_value_scale(values: Iterable[float]) -> Scale:
    """Makes the linear vertical scale, which begins at 0, so that heights are in the ratio of the values."""
    return Scale(0.0, max(values) * _LINEAR_MARGIN, BOTTOM, TOP, is_linear=True)


def size_ticks(sizes: Iterable[int]) -> list[int]:
    """Returns evenly spaced powers of two in the range of the sizes. The smallest size if there is no power of two."""
    size_list = list(sizes)
    first_power, last_power = math.ceil(math.log2(min(size_list))), math.floor(math.log2(max(size_list)))
    if first_power > last_power:
        return [min(size_list)]
    step = max(1, math.ceil((last_power - first_power + 1) / _MAX_SIZE_LABELS))
    return [2**power for power in range(first_power, last_power + 1, step)]


def value_ticks(scale: Scale) -> list[float]:
    """Returns at most seven round values: evenly spaced in a narrow range, otherwise such as 1, 2, 5, 10, 20.

    A linear scale has the value 0 too.
    """
    if scale.is_linear or scale.high / scale.low < _LINEAR_TICKS_BELOW:
        return _even_ticks(scale.low, scale.high)
    low_power, high_power = math.floor(math.log10(scale.low)), math.ceil(math.log10(scale.high))
    ticks: list[float] = []
    for digits in ((1.0, 2.0, 3.0, 5.0), (1.0, 2.0, 5.0), (1.0,)):
        ticks = [
            digit * 10.0**power
            for power in range(low_power, high_power + 1)
            for digit in digits
            if scale.low <= digit * 10.0**power <= scale.high
        ]
        if len(ticks) <= _MAX_VALUE_LABELS:
            break
    return ticks[:: math.ceil(len(ticks) / _MAX_VALUE_LABELS)]


def _even_ticks(low: float, high: float) -> list[float]:
    """Returns the multiples of the smallest round step that needs at most `_MAX_VALUE_LABELS` labels.

    Example: 0, 100, 200 and 300 from 0 to 370, because the step 50 needs eight labels.
    """
    length = high - low
    power_of_ten = 10.0 ** math.floor(math.log10(length / 2))  # the length is from 2 to 20 times this power
    indices_by_step = {
        step: range(math.ceil(low / step), math.floor(high / step) + 1)
        for step in (factor * power_of_ten for factor in (0.5, 1, 2, 5))
    }
    step, indices = next(entry for entry in indices_by_step.items() if len(entry[1]) <= _MAX_VALUE_LABELS)
    return [index * step for index in indices]


def short_size(size_bytes: int) -> str:
    """Label of a tick: 8 B, 64K, 1M, 16G. The axis title has the unit."""
    return size_text(size_bytes).replace(" KiB", "K").replace(" MiB", "M").replace(" GiB", "G").replace(" TiB", "T")


def number(value: float) -> str:
    """Text with four significant digits, or with all digits of the integer part. Extreme values have exponents."""
    is_extreme = abs(value) >= 1e7 or 0 < abs(value) < 1e-4
    return f"{value:.3g}" if is_extreme else number_text(value)


def value_axis(scale: Scale, title: str) -> Markup:
    """Draws horizontal grid lines, labels at the left, and the title."""
    grid_lines = [
        group(
            element("path", d=f"M{LEFT:g} {scale(tick):.1f}H{RIGHT:g}", class_="grid"),
            element("text", number(tick), x=LEFT - 6, y=scale(tick) + 4, class_="tick end"),
        )
        for tick in value_ticks(scale)
    ]
    middle = (TOP + BOTTOM) / 2
    label = element("text", title, x=12.0, y=middle, class_="axis mid", transform=f"rotate(-90 12 {middle:g})")
    return group(*grid_lines, label)


def size_axis(scale: Scale, sizes: Iterable[int]) -> Markup:
    """Draws vertical grid lines, labels at the bottom, and the title."""
    grid_lines = [
        group(
            element("path", d=f"M{scale(tick):.1f} {TOP:g}V{BOTTOM:g}", class_="grid"),
            element("text", short_size(tick), x=scale(tick), y=BOTTOM + 18, class_="tick mid"),
        )
        for tick in size_ticks(sizes)
    ]
    return group(*grid_lines, size_axis_title())


def size_axis_title() -> Markup:
    """Draws the title of the horizontal axis."""
    return element("text", "message size, bytes", x=(LEFT + RIGHT) / 2, y=HEIGHT - 8, class_="axis mid")


def frame() -> Markup:
    """Draws the frame around the curves."""
    return element("rect", x=LEFT, y=TOP, width=RIGHT - LEFT, height=BOTTOM - TOP, class_="frame")


def legend_icon(*children: Markup) -> Markup:
    """Draws the sample of a legend entry, 14 high and `LEGEND_ICON_WIDTH` wide."""
    view_box = f"0 0 {LEGEND_ICON_WIDTH:g} 14"
    return element("svg", *children, viewBox=view_box, class_="sample", aria_hidden="true")


def path_data(coordinates: Iterable[tuple[float, float]]) -> str:
    """Returns the SVG path of a polyline."""
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in coordinates)


def drawing(*children: Markup, label: str, **attributes: str | None) -> Markup:
    """Makes the complete drawing. `label` is its alternative text, `attributes` are further SVG attributes."""
    return svg.drawing(*children, label=label, width=WIDTH, height=HEIGHT, **attributes)
