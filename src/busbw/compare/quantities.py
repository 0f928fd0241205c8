"""Selection of the compared time: device time, or the time that a program spends."""

from collections.abc import Iterable
from statistics import median

from busbw.compare.result import TimeQuantity
from busbw.logs import Figure
from busbw.statistics import stats


def have_device_times(figures: Iterable[Figure]) -> bool:
    """True if every figure has a device time. False for no figures."""
    times = [figure.device_time_us for figure in figures]
    return bool(times) and all(times)


def program_time(figures: Iterable[Figure]) -> TimeQuantity:
    """Selects the field that represents the time a program spends, for figures of both sides.

    It is the median over iterations if all figures have samples. With a device time, samples may be by the device's
    clock and exclude launch time (docs/measuring.md). Then it is the time itself.
    """
    figures = list(figures)
    sampled = all(figure.samples_us and figure.samples_us[0] for figure in figures)
    return "median_us" if sampled and not any(figure.device_time_us for figure in figures) else "time_us"


def value_of(figure: Figure, quantity: TimeQuantity) -> float | None:
    """Returns a figure's value of the quantity. None unless it is above zero."""
    if quantity == "median_us":
        has_samples = figure.samples_us and figure.samples_us[0]
        value = median(stats.slowest_rank_us(figure.samples_us)) if has_samples else None
    else:
        value = getattr(figure, quantity)
    return value if value and value > 0 else None
