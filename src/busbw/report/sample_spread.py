"""Plots of the scatter of iterations: for each size the quartiles, the median and the extremes."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from busbw.logs import Figure
from busbw.report import axes
from busbw.report.axes import Scale, number
from busbw.report.page import LegendEntry, Picture
from busbw.svg import element, group
from busbw.units import count_text, size_text

_MAX_DOTS = 1500
"""Maximum number of iterations in one picture for which each gets a dot."""


@dataclass(frozen=True)
class SampleSpread:
    """Statistics of the iterations of one size. None for values that the log does not contain."""

    size_bytes: int
    samples: int | None
    low_us: float
    high_us: float
    median_us: float | None = None
    quartiles_us: tuple[float, float] | None = None
    p99_us: float | None = None
    values_us: tuple[float, ...] = ()
    """Times of all iterations, in order. Empty if the log has only statistics."""


def spread_of(size_bytes: int, figures: Sequence[Figure], skip: int = 0) -> SampleSpread | None:
    """Returns the scatter over the iterations of all passes. None if the log has no data on it.

    Args:
        size_bytes: The size.
        figures: One figure per pass over the size.
        skip: Leading iterations of each pass to exclude.
    """
    # An iteration lasts until its last rank has ended.
    values = [
        max(ranks)
        for figure in figures
        if figure.samples_us
        for ranks in list(zip(*figure.samples_us, strict=False))[skip:]
    ]
    if values and min(values) > 0:
        import numpy as np

        lower, median, upper, p99 = (float(one) for one in np.percentile(values, [25, 50, 75, 99]))
        return SampleSpread(
            size_bytes=size_bytes,
            samples=len(values),
            low_us=min(values),
            high_us=max(values),
            median_us=median,
            quartiles_us=(lower, upper),
            p99_us=p99,
            values_us=tuple(values),
        )
    return _spread_from_statistics(size_bytes, figures[0]) if len(figures) == 1 else None


def _spread_from_statistics(size_bytes: int, figure: Figure) -> SampleSpread | None:
    if figure.stats and figure.stats.min_us > 0:
        stats = figure.stats
        return SampleSpread(size_bytes, stats.samples, stats.min_us, stats.max_us, stats.median_us, None, stats.p99_us)
    known = figure.per_iteration
    low, high = known.get("min_us"), known.get("max_us")
    if not low or not high:
        return None
    return SampleSpread(size_bytes, None, low, high, figure.time_us, None, known.get("p99_us"))


def picture(title: str, spreads: Sequence[SampleSpread]) -> Picture | None:
    """Draws a column for each size. None without sizes."""
    if not spreads:
        return None
    spreads = sorted(spreads, key=lambda one: one.size_bytes)
    y = axes.value_scale([value for one in spreads for value in (one.low_us, one.high_us)])
    step = (axes.RIGHT - axes.LEFT) / len(spreads)
    places = [axes.LEFT + step * (index + 0.5) for index in range(len(spreads))]
    total = sum(len(one.values_us) for one in spreads)
    columns = [
        _column(one, place, min(step * 0.62, 22.0), y, dots=0 < total <= _MAX_DOTS)
        for one, place in zip(spreads, places, strict=True)
    ]
    every = max(1, -(-len(spreads) // 8))
    labels = [
        element("text", axes.short_size(one.size_bytes), x=place, y=axes.BOTTOM + 18, class_="tick mid")
        for one, place in list(zip(spreads, places, strict=True))[::every]
    ]
    bottom = element(
        "text", "message size, bytes", x=(axes.LEFT + axes.RIGHT) / 2, y=axes.HEIGHT - 8, class_="axis mid"
    )
    text = _alt_text(title, spreads)
    svg = axes.drawing(axes.value_axis(y, "time, us"), *columns, *labels, bottom, axes.frame(), label=text)
    note = "" if total <= _MAX_DOTS else f"{total:,} iterations: too many for single dots."
    return Picture(title, text, svg, _keys(spreads, has_dots=0 < total <= _MAX_DOTS), note)


def _column(one: SampleSpread, x: float, width: float, y: Scale, *, dots: bool) -> Markup:
    half = width / 2
    parts = [element("path", d=f"M{x:.1f} {y(one.low_us):.1f}V{y(one.high_us):.1f}", class_="whisker")]
    if one.quartiles_us:
        low, high = one.quartiles_us
        parts.append(element("rect", x=x - half, y=y(high), width=width, height=y(low) - y(high), class_="box"))
    if dots:
        # Ordered by time from left to right, so that a drift is visible as a slope.
        count = len(one.values_us)
        marks = "".join(
            f"M{x - half + width * (index + 0.5) / count:.1f} {y(value):.1f}h0"
            for index, value in enumerate(one.values_us)
        )
        parts.append(element("path", d=marks, class_="dots"))
    if one.median_us:
        parts.append(element("path", d=f"M{x - half:.1f} {y(one.median_us):.1f}h{width:.1f}", class_="median"))
    if one.p99_us and not one.values_us:
        parts.append(element("path", d=f"M{x - half / 2:.1f} {y(one.p99_us):.1f}h{half:.1f}", class_="whisker"))
    return group(*parts)


def _keys(spreads: Sequence[SampleSpread], *, has_dots: bool) -> tuple[LegendEntry, ...]:
    def sample(*children: Markup) -> Markup:
        return element("svg", *children, viewBox="0 0 34 14", class_="sample", aria_hidden="true")

    found = [
        LegendEntry(sample(element("path", d="M6 7h22", class_="median")), "median"),
        LegendEntry(sample(element("path", d="M17 1V13", class_="whisker")), "shortest to longest"),
    ]
    if any(one.quartiles_us for one in spreads):
        found.append(LegendEntry(sample(element("rect", x=8, y=2, width=18, height=10, class_="box")), "middle half"))
    if has_dots:
        found.append(
            LegendEntry(
                sample(element("path", d="M9 9h0M17 5h0M25 8h0", class_="dots")), "one iteration, in order of time"
            )
        )
    if any(one.p99_us and not one.values_us for one in spreads):
        found.append(LegendEntry(sample(element("path", d="M11 7h12", class_="whisker")), "99th percentile"))
    return tuple(found)


def _alt_text(title: str, spreads: Sequence[SampleSpread]) -> str:
    worst = max(spreads, key=lambda one: one.high_us / one.low_us)
    counts = {one.samples for one in spreads if one.samples}
    each = f" of {count_text(min(counts), 'iteration')}" if len(counts) == 1 else ""
    return (
        f"{title}: times{each} at {count_text(len(spreads), 'size')}. The largest scatter is at "
        f"{size_text(worst.size_bytes)}: {number(worst.low_us)} to {number(worst.high_us)} us."
    )
