"""Selects the time that a comparison uses: device time, or the time that a program spends.

Device time is the time of an operation if all ranks begin together. Program time includes launch time.
"""

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
    """Selects the field that holds the program time, for the figures of both sides.

    It is `median_us`, the median over iterations, if all figures have samples that include launch time
    (docs/explanation/measuring.md). Otherwise it is `time_us`.
    """
    are_sampled = (figure.samples_us and figure.samples_us[0] and figure.samples_include_launches for figure in figures)
    return "median_us" if all(are_sampled) else "time_us"


def value_of(figure: Figure, quantity: TimeQuantity) -> float | None:
    """Returns a figure's value of the quantity. None unless it is above zero."""
    if quantity == "median_us":
        has_samples = figure.samples_us and figure.samples_us[0]
        value = median(stats.slowest_rank_us(figure.samples_us)) if has_samples else None
    else:
        value = getattr(figure, quantity)
    return value if value and value > 0 else None
