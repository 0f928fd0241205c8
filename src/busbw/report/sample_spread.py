"""Draws the scatter of the times of iterations: for each size the quartiles, the median and the extremes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from busbw.logs.log import Figure
from busbw.report import axes
from busbw.report.axes import Scale, legend_icon, number
from busbw.report.page import LegendEntry, Picture
from busbw.report.svg import element, group
from busbw.units import count_text, size_text

_MAX_DOTS = 1500
"""Maximum number of iterations in one picture for which each gets a dot."""
_MAX_SIZE_LABELS = 8
_COLUMN_SHARE = 0.62
"""Width of a column as a share of the distance of two columns."""
_MAX_COLUMN_WIDTH = 22.0


@dataclass(frozen=True)
class SampleSpread:
    """Times of the iterations of one size, from the shortest (low) to the longest (high). None: not in the log."""

    size_bytes: int
    samples: int | None
    low_us: float
    high_us: float
    median_us: float | None = None
    quartiles_us: tuple[float, float] | None = None
    p99_us: float | None = None
    values_us: tuple[float, ...] = ()
    """Times of all iterations, in order. Empty if the log has only statistics."""
    sample_label: str = ""
    """`Figure.sample_label` of the times: 'device', 'sample' or empty, see `_SAMPLE_NOTES`. Empty: the times include
    launches, like the time of the row."""


def spread_of(size_bytes: int, figures: Sequence[Figure]) -> SampleSpread | None:
    """Returns the scatter over the iterations of all passes. None if the log has neither samples nor statistics.

    The statistics of several passes are not combined, so several passes need samples.

    Args:
        size_bytes: The size.
        figures: One figure per pass over the size.
    """
    times_us: list[float] = []
    for figure in figures:
        iterations = list(zip(*figure.samples_us, strict=False))  # the times of all ranks for each iteration
        # The log also has the samples of the first iterations, which -K leaves out of the statistics. With graphs (-G),
        # some iterations have no sample, so the setting is not the number of samples to leave out.
        counted = figure.stats.samples if figure.stats else len(iterations)
        times_us += map(max, iterations[-counted:])  # an iteration lasts until its last rank has ended
    if times_us and min(times_us) > 0:
        import numpy as np

        lower_us, median_us, upper_us, p99_us = (
            float(percentile) for percentile in np.percentile(times_us, [25, 50, 75, 99])
        )
        return SampleSpread(
            size_bytes=size_bytes,
            samples=len(times_us),
            low_us=min(times_us),
            high_us=max(times_us),
            median_us=median_us,
            quartiles_us=(lower_us, upper_us),
            p99_us=p99_us,
            values_us=tuple(times_us),
            sample_label=figures[0].sample_label,
        )
    return _spread_from_statistics(size_bytes, figures[0]) if len(figures) == 1 else None


def _spread_from_statistics(size_bytes: int, figure: Figure) -> SampleSpread | None:
    """Makes the scatter from the statistics of a figure. None if the figure has no statistics."""
    if figure.stats and figure.stats.min_us > 0:
        stats = figure.stats
        return SampleSpread(
            size_bytes=size_bytes,
            samples=stats.samples,
            low_us=stats.min_us,
            high_us=stats.max_us,
            median_us=stats.median_us,
            p99_us=stats.p99_us,
            sample_label=figure.sample_label,
        )
    printed_statistics = figure.per_iteration
    low_us, high_us = printed_statistics.get("min_us"), printed_statistics.get("max_us")
    if not low_us or not high_us:
        return None
    return SampleSpread(
        size_bytes=size_bytes,
        samples=None,
        low_us=low_us,
        high_us=high_us,
        p99_us=printed_statistics.get("p99_us"),
    )


def picture(title: str, spreads: Sequence[SampleSpread]) -> Picture | None:
    """Draws a column for each size. None without sizes."""
    if not spreads:
        return None
    spreads = sorted(spreads, key=lambda spread: spread.size_bytes)
    y = axes.value_scale([value for spread in spreads for value in (spread.low_us, spread.high_us)])
    step = (axes.RIGHT - axes.LEFT) / len(spreads)
    column_centers = [axes.LEFT + step * (index + 0.5) for index in range(len(spreads))]
    dot_count = sum(len(spread.values_us) for spread in spreads)
    has_dots = 0 < dot_count <= _MAX_DOTS
    columns = [
        _draw_column(spread, center_x, min(step * _COLUMN_SHARE, _MAX_COLUMN_WIDTH), y, has_dots=has_dots)
        for spread, center_x in zip(spreads, column_centers, strict=True)
    ]
    label_step = math.ceil(len(spreads) / _MAX_SIZE_LABELS)
    labels = [
        element("text", axes.short_size(spread.size_bytes), x=center_x, y=axes.BOTTOM + 18, class_="tick mid")
        for spread, center_x in zip(spreads[::label_step], column_centers[::label_step], strict=True)
    ]
    alt_text = _alt_text(title, spreads)
    value_axis = axes.value_axis(y, "time, us")
    svg = axes.drawing(value_axis, *columns, *labels, axes.size_axis_title(), axes.frame(), label=alt_text)
    notes = [f"{dot_count:,} iterations: too many for single dots."] if dot_count > _MAX_DOTS else []
    sample_labels = {spread.sample_label for spread in spreads}
    notes += [_sample_note(label, spreads) for label in _SAMPLE_NOTES if label in sample_labels]
    return Picture(title, alt_text, svg, _legend(spreads, has_dots=has_dots), " ".join(notes))


_SAMPLE_NOTES = {
    "device": "device times, which exclude launches. The time in the table includes them",
    "sample": "the log does not state if these times include launches, as the time in the table does",
}
"""Difference between the samples and the time of the row, by `SampleSpread.sample_label`."""


def _sample_note(label: str, spreads: Sequence[SampleSpread]) -> str:
    sizes = [spread.size_bytes for spread in spreads if spread.sample_label == label]
    sizes_text = "At all sizes" if len(sizes) == len(spreads) else f"At {', '.join(map(size_text, sizes))}"
    return f"{sizes_text}: {_SAMPLE_NOTES[label]}."


def _draw_column(spread: SampleSpread, x: float, width: float, y: Scale, *, has_dots: bool) -> Markup:
    """Draws one size, centered at `x`: a line from shortest to longest, quartiles as a box, dots, and the median."""
    half_width = width / 2
    elements = [element("path", d=f"M{x:.1f} {y(spread.low_us):.1f}V{y(spread.high_us):.1f}", class_="whisker")]
    if spread.quartiles_us:
        lower_us, upper_us = spread.quartiles_us
        elements.append(
            element(
                "rect", x=x - half_width, y=y(upper_us), width=width, height=y(lower_us) - y(upper_us), class_="box"
            )
        )
    if has_dots:
        # Ordered by time from left to right, so that a drift is visible as a slope.
        count = len(spread.values_us)
        marks = "".join(
            f"M{x - half_width + width * (index + 0.5) / count:.1f} {y(value):.1f}h0"
            for index, value in enumerate(spread.values_us)
        )
        elements.append(element("path", d=marks, class_="dots"))
    if spread.median_us:
        elements.append(
            element("path", d=f"M{x - half_width:.1f} {y(spread.median_us):.1f}h{width:.1f}", class_="median")
        )
    if spread.p99_us and not spread.values_us:  # the single values show more than their 99th percentile
        elements.append(
            element("path", d=f"M{x - half_width / 2:.1f} {y(spread.p99_us):.1f}h{half_width:.1f}", class_="whisker")
        )
    return group(*elements)


def _legend(spreads: Sequence[SampleSpread], *, has_dots: bool) -> tuple[LegendEntry, ...]:
    entries = [LegendEntry(legend_icon(element("path", d="M17 1V13", class_="whisker")), "shortest to longest")]
    if any(spread.median_us for spread in spreads):
        entries.insert(0, LegendEntry(legend_icon(element("path", d="M6 7h22", class_="median")), "median"))
    if any(spread.quartiles_us for spread in spreads):
        entries.append(
            LegendEntry(legend_icon(element("rect", x=8, y=2, width=18, height=10, class_="box")), "middle half")
        )
    if has_dots:
        entries.append(
            LegendEntry(
                legend_icon(element("path", d="M9 9h0M17 5h0M25 8h0", class_="dots")), "one iteration, in order of time"
            )
        )
    if any(spread.p99_us and not spread.values_us for spread in spreads):
        entries.append(LegendEntry(legend_icon(element("path", d="M11 7h12", class_="whisker")), "99th percentile"))
    return tuple(entries)


def _alt_text(title: str, spreads: Sequence[SampleSpread]) -> str:
    worst = max(spreads, key=lambda spread: spread.high_us / spread.low_us)
    sample_counts = {spread.samples for spread in spreads if spread.samples}
    count_clause = f" of {count_text(min(sample_counts), 'iteration')}" if len(sample_counts) == 1 else ""
    return (
        f"{title}: times{count_clause} at {count_text(len(spreads), 'size')}. The largest scatter is at "
        f"{size_text(worst.size_bytes)}: {number(worst.low_us)} to {number(worst.high_us)} us."
    )
