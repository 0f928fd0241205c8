"""Which times of an operation are compared: the device's, and what a program pays."""

from collections.abc import Iterable
from statistics import median

from busbw.compare.result import TimeQuantity
from busbw.logs import Figure
from busbw.statistics import stats


def have_device_times(figures: Iterable[Figure]) -> bool:
    """Whether each of them, one at least, has the device's time of an operation."""
    times = [figure.device_time_us for figure in figures]
    return bool(times) and all(times)


def paid_time(figures: Iterable[Figure]) -> TimeQuantity:
    """What stands for the time that a program pays, on both sides the same.

    The median over iterations where all have samples. Where a device tells its time, samples may be by its clock and
    without what launching costs (docs/measuring.md), so it is the time itself.
    """
    figures = list(figures)
    sampled = all(figure.samples_us and figure.samples_us[0] for figure in figures)
    return "median_us" if sampled and not any(figure.device_time_us for figure in figures) else "time_us"


def value_of(figure: Figure, quantity: TimeQuantity) -> float | None:
    """A figure's; None where it has none above zero."""
    if quantity == "median_us":
        has_samples = figure.samples_us and figure.samples_us[0]
        value = median(stats.slowest_rank_us(figure.samples_us)) if has_samples else None
    else:
        value = getattr(figure, quantity)
    return value if value and value > 0 else None
