"""Draws the arrivals of the ranks as a heat map of rank by size.

An arrival is the start of a rank after the first rank, in microseconds (`rank_arrivals_us` of a record).

Samples do not name a late rank, because each rank's samples begin at its own first timestamp. The ranks that wait for
the late rank have the longest samples.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import median

from markupsafe import Markup

from busbw.logs.log import Figure, Table
from busbw.report.axes import legend_icon, number, short_size
from busbw.report.page import LegendEntry, Picture
from busbw.report.svg import drawing, element, group
from busbw.units import size_text

MAX_RANKS = 32
"""Maximum number of ranks in one picture. If there are more, the latest are shown."""
_MAX_SIZE_LABELS = 8

# Lengths in SVG units.
_LEFT, _TOP, _ROW_HEIGHT = 54.0, 8.0, 22.0
_WIDTH, _RIGHT = 460.0, 448.0
_BASE_LINE = 0.68
"""Distance of the base line of a text from the top of its row, as a share of the height. It centers the text."""
_CHARACTER_WIDTH = 7.2
"""Maximum width of a character in a cell."""
_SHADE_LIMITS_US = (10, 30, 100, 300)
"""Upper limits of the shades; later arrivals have the strongest shade.

docs/explanation/measuring.md has the limits of warnings."""


def arrivals(figures: Sequence[Figure]) -> list[float] | None:
    """Returns the arrival of each rank of the group, in microseconds.

    None if no arrivals are known, or if figures have different numbers of ranks.

    Args:
        figures: One figure per pass over a size. The result is the median over the passes.
    """
    stated = [figure.arrivals_us for figure in figures if figure.arrivals_us]
    if not stated or len(set(map(len, stated))) != 1:
        return None
    return [median(rank_arrivals) for rank_arrivals in zip(*stated, strict=True)]


def group_ranks(table: Table, group: int) -> list[int]:
    """Returns the ranks of a group, as numbered in the whole job."""
    return sorted(rank.rank for rank in table.rank_list if rank.group == group)


def arrival_heat_map(title: str, by_size: Mapping[int, Sequence[float]], ranks: Sequence[int]) -> Picture | None:
    """Draws a heat map of rank by size. None for a single rank, or if no size can be shown.

    Args:
        title: Title of the picture.
        by_size: Arrivals at each size, in microseconds.
        ranks: Ranks that the arrivals belong to, as numbered in the whole job. Sizes with another number of arrivals
            are omitted.
    """
    sizes = sorted(size for size, arrivals_us in by_size.items() if len(arrivals_us) == len(ranks) > 1)
    if not sizes:
        return None
    shown_indices = _latest_indices([by_size[size] for size in sizes])
    cell_width = (_RIGHT - _LEFT) / len(sizes)
    cells = [
        _draw_cell(by_size[size][index], _LEFT + cell_width * column, _TOP + _ROW_HEIGHT * row, cell_width)
        for row, index in enumerate(shown_indices)
        for column, size in enumerate(sizes)
    ]
    bottom = _TOP + _ROW_HEIGHT * len(shown_indices)
    label_step = math.ceil(len(sizes) / _MAX_SIZE_LABELS)
    size_labels = [
        element("text", short_size(size), x=_LEFT + cell_width * (column + 0.5), y=bottom + 16, class_="tick mid")
        for column, size in list(enumerate(sizes))[::label_step]
    ]
    rank_labels = [
        element(
            "text", f"rank {ranks[index]}", x=_LEFT - 5, y=_TOP + _ROW_HEIGHT * (row + _BASE_LINE), class_="tick end"
        )
        for row, index in enumerate(shown_indices)
    ]
    max_us, size, rank = max(
        (by_size[size][index], size, ranks[index]) for size in sizes for index in range(len(ranks))
    )
    latest_text = f"The latest is rank {rank} at {size_text(size)}: it began {number(max_us)} us after the first rank."
    alt_text = f"{title}. {latest_text}"
    svg = drawing(group(*cells), *size_labels, *rank_labels, label=alt_text, width=_WIDTH, height=bottom + 24)
    note = (
        f"{latest_text} A cell is the start of a rank in microseconds after the first rank: the median over passes. "
        "On the host, a pass has the median over its iterations. On a device, it has the first iteration after a "
        "barrier. A few microseconds are insignificant."
    )
    if len(ranks) > len(shown_indices):
        note += f" Of {len(ranks)} ranks, the {len(shown_indices)} latest are shown."
    return Picture(title, alt_text, svg, _legend(), note)


def _latest_indices(arrivals_us_by_size: Sequence[Sequence[float]]) -> list[int]:
    """Returns the indices of the `MAX_RANKS` ranks with the latest arrivals at any size, in their order."""
    latest_us = [max(rank_arrivals_us) for rank_arrivals_us in zip(*arrivals_us_by_size, strict=True)]
    by_lateness = sorted(range(len(latest_us)), key=lambda index: -latest_us[index])
    return sorted(by_lateness[:MAX_RANKS])


def shade_level(arrival_us: float) -> int:
    """Returns the shade of a cell, 0 to 4: up to 10, 30, 100 and 300 us, and above."""
    return sum(arrival_us > limit_us for limit_us in _SHADE_LIMITS_US)


def _legend() -> tuple[LegendEntry, ...]:
    labels = [*(f"to {limit_us} us" for limit_us in _SHADE_LIMITS_US), "above"]
    samples = [element("rect", x=4, y=1, width=26, height=12, class_=f"heat{shade}") for shade in range(len(labels))]
    return tuple(LegendEntry(legend_icon(sample), label) for sample, label in zip(samples, labels, strict=True))


def _draw_cell(arrival_us: float, x: float, y: float, width: float) -> Markup:
    shade = shade_level(arrival_us)
    elements = [
        element(
            "rect",
            element("title", f"{number(arrival_us)} us after the first"),
            x=x + 0.5,
            y=y + 0.5,
            width=width - 1,
            height=_ROW_HEIGHT - 1,
            class_=f"heat{shade}",
        )
    ]
    text = _short_number(arrival_us)
    if width >= _CHARACTER_WIDTH * len(text):
        text_y = y + _ROW_HEIGHT * _BASE_LINE
        elements.append(element("text", text, x=x + width / 2, y=text_y, class_=f"cell mid on{shade}"))
    return group(*elements)


def _short_number(value: float) -> str:
    if value >= 1000:
        return f"{value / 1000:.2g}k" if value < 1e4 else f"{value / 1000:.0f}k"
    return f"{value:.2g}" if value < 99.5 else f"{value:.0f}"
