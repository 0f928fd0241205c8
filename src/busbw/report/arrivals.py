"""Heat map of the ranks' arrivals: start of each rank relative to the first, by size (`rank_arrivals_us`).

Samples cannot show a late rank: each rank's samples begin at its own first timestamp, so the ranks that wait for the
late one have the longest samples.
"""

from collections.abc import Mapping, Sequence
from statistics import median

from markupsafe import Markup

from busbw.logs import Figure, Table
from busbw.report.axes import number, short_size
from busbw.report.page import LegendEntry, Picture
from busbw.svg import drawing, element, group
from busbw.units import size_text

MAX_RANKS = 32
"""Maximum number of ranks in one picture. If there are more, the latest are shown."""

_LEFT, _TOP, _CELL_HEIGHT = 54.0, 8.0, 22.0
_WIDTH, _RIGHT = 460.0, 448.0
_SHADES_US = (10, 30, 100, 300)
"""Upper limits of the shades; later arrivals have the strongest shade. The engine warns from 100 us on
(docs/measuring.md)."""


def arrivals(figures: Sequence[Figure]) -> list[float] | None:
    """Returns the arrival of each rank of the group after the first, in microseconds. None if unknown.

    Args:
        figures: One figure per pass over a size. The result is the median over the passes.
    """
    known = [figure.arrivals_us for figure in figures if figure.arrivals_us]
    if not known or len(set(map(len, known))) != 1:
        return None
    return [median(passes) for passes in zip(*known, strict=True)]


def members(table: Table, group: int) -> list[int]:
    """Returns the ranks of a group, as numbered in the whole job."""
    return sorted(rank.rank for rank in table.rank_list if rank.group == group)


def heat_map(title: str, by_size: Mapping[int, Sequence[float]], ranks: Sequence[int]) -> Picture | None:
    """Draws a heat map of rank by size. None without data.

    Args:
        title: Title of the picture.
        by_size: Arrivals at each size, in microseconds.
        ranks: Ranks that the arrivals belong to, as numbered in the whole job. Sizes with another number of arrivals
            are omitted.
    """
    sizes = sorted(size for size, found in by_size.items() if len(found) == len(ranks) > 1)
    if not sizes:
        return None
    latest = {index: max(by_size[size][index] for size in sizes) for index in range(len(ranks))}
    shown = sorted(sorted(latest, key=lambda index: -latest[index])[:MAX_RANKS])
    width = (_RIGHT - _LEFT) / len(sizes)
    cells = [
        _cell(by_size[size][index], _LEFT + width * column, _TOP + _CELL_HEIGHT * line, width)
        for line, index in enumerate(shown)
        for column, size in enumerate(sizes)
    ]
    bottom = _TOP + _CELL_HEIGHT * len(shown)
    every = max(1, -(-len(sizes) // 8))
    labels = [
        element("text", short_size(size), x=_LEFT + width * (column + 0.5), y=bottom + 16, class_="tick mid")
        for column, size in list(enumerate(sizes))[::every]
    ]
    names = [
        element("text", f"rank {ranks[index]}", x=_LEFT - 5, y=_TOP + _CELL_HEIGHT * (line + 0.68), class_="tick end")
        for line, index in enumerate(shown)
    ]
    max_us, size, rank = max(
        (by_size[size][index], size, ranks[index]) for size in sizes for index in range(len(ranks))
    )
    latest_text = f"The latest is rank {rank} at {size_text(size)}: it began {number(max_us)} us after the first rank."
    text = f"{title}. {latest_text}"
    svg = drawing(group(*cells), *labels, *names, label=text, width=_WIDTH, height=bottom + 24)
    note = (
        f"{latest_text} Start of each rank after a common barrier, in microseconds after the first rank; median over "
        "passes. Ranks leave a barrier one after another, so a few microseconds are insignificant."
    )
    if len(ranks) > len(shown):
        note += f" Of {len(ranks)} ranks, the {len(shown)} latest are shown."
    return Picture(title, text, svg, _keys(), note)


def shade_level(late_us: float) -> int:
    """Returns the shade of a cell, 0 to 4: up to 10, 30, 100 and 300 us, and above."""
    return sum(late_us > limit for limit in _SHADES_US)


def _keys() -> tuple[LegendEntry, ...]:
    labels = [*(f"to {limit} us" for limit in _SHADES_US), "above"]
    boxes = [element("rect", x=4, y=1, width=26, height=12, class_=f"heat{shade}") for shade in range(len(labels))]
    return tuple(
        LegendEntry(element("svg", box, viewBox="0 0 34 14", class_="sample", aria_hidden="true"), label)
        for box, label in zip(boxes, labels, strict=True)
    )


def _cell(late_us: float, x: float, y: float, width: float) -> Markup:
    shade = shade_level(late_us)
    parts = [
        element(
            "rect",
            element("title", f"{number(late_us)} us after the first"),
            x=x + 0.5,
            y=y + 0.5,
            width=width - 1,
            height=_CELL_HEIGHT - 1,
            class_=f"heat{shade}",
        )
    ]
    text = _short(late_us)
    if width >= 7.2 * len(text):
        parts.append(element("text", text, x=x + width / 2, y=y + _CELL_HEIGHT * 0.68, class_=f"cell mid on{shade}"))
    return group(*parts)


def _short(value: float) -> str:
    if value >= 1000:
        return f"{value / 1000:.2g}k" if value < 1e4 else f"{value / 1000:.0f}k"
    return f"{value:.2g}" if value < 99.5 else f"{value:.0f}"
