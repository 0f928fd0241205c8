"""Sorts the sizes of a band by the outcomes of their figures, and finds noise in their times.

A figure is one size in one placement. Its outcome is the position of its time relative to its range: inside, slower or
faster. It is unclear if the measurement is too imprecise to tell inside from slower. It is undecided inside a range so
wide that it could hide a fault. An unhealthy size has a figure that is neither inside nor faster.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from busbw.judge.series import SeriesPoint
from busbw.judge.types import JudgedFigure, Outcome
from busbw.logs.log import Placement

MIN_UNSTEADY_FACTOR = 1.5
"""Minimum ratio of one pass to the median of all passes that shows a fault that comes and goes."""
_MAX_QUIET_DIFFERENCE = 0.30
"""Maximum relative difference between the placements of one size on a quiet machine."""
_MIN_DROP = 0.15
"""Minimum relative decrease of the time from one size to the next larger one that counts as a drop."""
_MIN_NOISY_DROPS = 2
"""Number of drops that indicate a busy machine. The library's switch to another protocol may cause a single drop."""


class BandSizes(NamedTuple):
    """Sizes of a band in bytes, ascending, and those with each kind of figure."""

    all: Sequence[int]
    slow: Sequence[int]
    """Sizes at which every placement is slower than its range."""
    undecided: Sequence[int]
    """Sizes at which each figure is undecided or slower, and at least one is undecided."""
    unclear: Sequence[int]
    """Sizes with an unclear figure."""
    noisy: Sequence[int]
    """Sizes at which the placements disagree. All sizes if the times drop repeatedly."""
    slow_in_one_placement: Sequence[int]
    """Sizes at which one placement is slower than its range, and another placement is not.

    The slow placement is the same at all these sizes. If each placement is the slow one at some sizes, the placement
    with more of these sizes decides, and the sizes of the other placement are left out.
    """
    unsteady: Sequence[int]
    """Sizes with a pass that is slower than the range and takes `MIN_UNSTEADY_FACTOR` times the median or more."""

    @classmethod
    def of(cls, points: Sequence[SeriesPoint], figures: Sequence[JudgedFigure]) -> "BandSizes":
        """Sorts the sizes of a band by the outcomes of their figures. Each point has one figure, in the same order."""
        times_by_placement: dict[Placement, list[float]] = {}
        min_by_size: dict[int, float] = {}
        max_by_size: dict[int, float] = {}
        for point in points:
            size_bytes, time_us = point.size_bytes, point.time_us
            times_by_placement.setdefault(point.placement, []).append(time_us)
            if size_bytes not in min_by_size:
                min_by_size[size_bytes] = max_by_size[size_bytes] = time_us
            elif time_us > max_by_size[size_bytes]:
                max_by_size[size_bytes] = time_us
            elif time_us < min_by_size[size_bytes]:
                min_by_size[size_bytes] = time_us
        all_sizes = sorted(min_by_size)
        noisy_sizes = [
            size_bytes
            for size_bytes in all_sizes
            if max_by_size[size_bytes] > (1 + _MAX_QUIET_DIFFERENCE) * min_by_size[size_bytes]
        ]
        unsteady_sizes = {
            point.size_bytes
            for point, figure in zip(points, figures, strict=True)
            if point.slowest_pass_us is not None and _is_unsteady(point.slowest_pass_us, figure)
        }
        outcomes_by_size = _outcomes_of_unhealthy_sizes(figures)
        return cls(
            all=all_sizes,
            slow=[size_bytes for size_bytes, outcomes in outcomes_by_size.items() if outcomes == {"slower"}],
            undecided=[
                size_bytes
                for size_bytes, outcomes in outcomes_by_size.items()
                if outcomes in ({"undecided"}, {"slower", "undecided"})
            ],
            unclear=[size_bytes for size_bytes, outcomes in outcomes_by_size.items() if "unclear" in outcomes],
            noisy=all_sizes if _max_drops(times_by_placement.values()) >= _MIN_NOISY_DROPS else noisy_sizes,
            slow_in_one_placement=_slow_in_one_placement(figures, outcomes_by_size),
            unsteady=sorted(unsteady_sizes),
        )


def _outcomes_of_unhealthy_sizes(figures: Sequence[JudgedFigure]) -> dict[int, set[Outcome]]:
    """Returns the outcomes of all placements at each unhealthy size, by size in ascending order."""
    unhealthy_sizes = {figure.size_bytes for figure in figures if figure.outcome not in ("inside", "faster")}
    outcomes_by_size: dict[int, set[Outcome]] = {size_bytes: set() for size_bytes in sorted(unhealthy_sizes)}
    for figure in figures:
        if figure.size_bytes in unhealthy_sizes:
            outcomes_by_size[figure.size_bytes].add(figure.outcome)
    return outcomes_by_size


def _is_unsteady(slowest_pass_us: float, figure: JudgedFigure) -> bool:
    """True if one of several passes is far slower than their median, and slower than the range."""
    return slowest_pass_us > max(figure.range_us.high, MIN_UNSTEADY_FACTOR * figure.time_us)


def _max_drops(times_of_placements: Iterable[Sequence[float]]) -> int:
    """Returns the number of drops of the placement with the most drops.

    A drop is a size that takes much less time than the next smaller size. The speed of a link cannot explain a drop.
    Both placements may show the same drop, so their numbers are not added.
    """
    return max(
        sum(time_us < (1 - _MIN_DROP) * previous_us for previous_us, time_us in itertools.pairwise(times_us))
        for times_us in times_of_placements
    )


def _slow_in_one_placement(figures: Sequence[JudgedFigure], outcomes_by_size: Mapping[int, set[Outcome]]) -> list[int]:
    """Returns the sizes of `BandSizes.slow_in_one_placement`, for the placement that has most of them."""
    if not outcomes_by_size:  # the usual case
        return []
    sizes_by_placement: dict[Placement, list[int]] = {figure.placement: [] for figure in figures}
    for figure in figures:
        if figure.outcome == "slower" and outcomes_by_size[figure.size_bytes] != {"slower"}:
            sizes_by_placement[figure.placement].append(figure.size_bytes)
    return max(sizes_by_placement.values(), key=len)
