"""Who came last: how far each rank is behind the first, by size.

In our own records a rank's samples follow each other without a gap from a barrier on, so their sum is the moment at
which the rank was done, counted from that barrier; ranks leave a barrier within about a microsecond of each other. In
other logs each sample stands alone, and only says whose operation took longest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from busbw.logs import Figure
from busbw.report.axes import number, short_size
from busbw.report.page import Key, Picture
from busbw.svg import drawing, element, group
from busbw.units import size_text

MOST_RANKS = 32
"""In one picture: of more, those that are furthest behind."""

_LEFT, _TOP, _CELL_HEIGHT = 54.0, 8.0, 22.0
_WIDTH, _RIGHT = 460.0, 448.0
_SHADES = (0.02, 0.05, 0.10, 0.25)
"""Of the operation: a cell beyond the last has the strongest shade."""


@dataclass(frozen=True)
class Late:
    """One rank at one size."""

    behind_us: float
    """Behind the first rank, the median over iterations."""
    last_share: float
    """In which share of the iterations it was the last; more than one rank may be."""


def lateness(figures: Sequence[Figure], batch: int | None) -> list[Late] | None:
    """Per rank, over all passes of one size; None without the samples of two ranks.

    Args:
        figures: One for each pass.
        batch: Iterations from one barrier to the next; None where samples do not follow each other.
    """
    import numpy as np

    behind = []
    for figure in figures:
        lengths = {len(one) for one in figure.samples_us}
        if len(figure.samples_us) < 2 or len(lengths) != 1 or lengths == {0}:
            continue
        done = np.array(figure.samples_us, dtype=float)
        if batch:
            done = np.concatenate(
                [np.cumsum(done[:, start : start + batch], axis=1) for start in range(0, done.shape[1], batch)], axis=1
            )
        behind.append(done - done.min(axis=0))
    if not behind or len({one.shape[0] for one in behind}) != 1:
        return None
    every = np.concatenate(behind, axis=1)
    last = every >= every.max(axis=0)
    return [
        Late(float(middle), float(share))
        for middle, share in zip(np.median(every, axis=1), last.mean(axis=1), strict=True)
    ]


def picture(
    title: str, by_size: Mapping[int, Sequence[Late]], times_us: Mapping[int, float], *, is_arrival: bool
) -> Picture | None:
    """A heat map of rank by size; None without data.

    Args:
        title: Of the picture.
        by_size: The ranks of each size.
        times_us: What an operation of each size takes; the shade is lateness as a share of it.
        is_arrival: Whether the figures say when ranks were done, and not only how long they took.
    """
    sizes = sorted(by_size)
    if not sizes:
        return None
    count = max(len(by_size[size]) for size in sizes)
    worst = {
        rank: max(by_size[size][rank].behind_us / times_us[size] for size in sizes if rank < len(by_size[size]))
        for rank in range(count)
    }
    ranks = sorted(sorted(worst, key=lambda rank: -worst[rank])[:MOST_RANKS])
    width = (_RIGHT - _LEFT) / len(sizes)
    cells = [
        _cell(by_size[size][rank], times_us[size], _LEFT + width * column, _TOP + _CELL_HEIGHT * line, width)
        for line, rank in enumerate(ranks)
        for column, size in enumerate(sizes)
        if rank < len(by_size[size])
    ]
    bottom = _TOP + _CELL_HEIGHT * len(ranks)
    every = max(1, -(-len(sizes) // 8))
    labels = [
        element("text", short_size(size), x=_LEFT + width * (column + 0.5), y=bottom + 16, class_="tick mid")
        for column, size in list(enumerate(sizes))[::every]
    ]
    names = [
        element("text", f"rank {rank}", x=_LEFT - 5, y=_TOP + _CELL_HEIGHT * (line + 0.68), class_="tick end")
        for line, rank in enumerate(ranks)
    ]
    text = _in_words(title, by_size, times_us, is_arrival=is_arrival)
    svg = drawing(group(*cells), *labels, *names, label=text, width=_WIDTH, height=bottom + 24)
    note = "Microseconds behind the first rank, median over iterations; the shade is their share of the operation. " + (
        "A rank that is done late begins the next operation late."
        if is_arrival
        else "A rank whose operation is short may have come last: the others waited for it."
    )
    if count > len(ranks):
        note += f" Of {count} ranks the {len(ranks)} that are furthest behind."
    return Picture(title, text, svg, _keys(), note)


def level(share: float) -> int:
    """The shade of a cell, 0 to 4: up to 2, 5, 10 and 25 % of the operation, and beyond."""
    return sum(share > limit for limit in _SHADES)


def _keys() -> tuple[Key, ...]:
    words = [*(f"to {limit:.0%}" for limit in _SHADES), "beyond"]
    boxes = [element("rect", x=4, y=1, width=26, height=12, class_=f"heat{shade}") for shade in range(len(words))]
    return tuple(
        Key(element("svg", box, viewBox="0 0 34 14", class_="sample", aria_hidden="true"), word)
        for box, word in zip(boxes, words, strict=True)
    )


def _cell(late: Late, time_us: float, x: float, y: float, width: float) -> Markup:
    share = late.behind_us / time_us
    said = f"{number(late.behind_us)} us behind, last in {late.last_share:.0%} of the iterations"
    parts = [
        element(
            "rect",
            element("title", said),
            x=x + 0.5,
            y=y + 0.5,
            width=width - 1,
            height=_CELL_HEIGHT - 1,
            class_=f"heat{level(share)}",
        )
    ]
    text = _short(late.behind_us)
    if width >= 7.2 * len(text):
        parts.append(
            element("text", text, x=x + width / 2, y=y + _CELL_HEIGHT * 0.68, class_=f"cell mid on{level(share)}")
        )
    return group(*parts)


def _short(value: float) -> str:
    if value >= 1000:
        return f"{value / 1000:.2g}k" if value < 1e4 else f"{value / 1000:.0f}k"
    return f"{value:.2g}" if value < 99.5 else f"{value:.0f}"


def _in_words(
    title: str, by_size: Mapping[int, Sequence[Late]], times_us: Mapping[int, float], *, is_arrival: bool
) -> str:
    entries = [
        (late.behind_us / times_us[size], size, rank, late)
        for size, ranks in by_size.items()
        for rank, late in enumerate(ranks)
    ]
    share, size, rank, late = max(entries, key=lambda entry: entry[0])
    what = "was done" if is_arrival else "took longest"
    return (
        f"{title}. The rank that is furthest behind for its size is rank {rank} at {size_text(size)}: "
        f"{number(late.behind_us)} us behind the first, {share:.0%} of the operation; it {what} last in "
        f"{late.last_share:.0%} of the iterations."
    )
