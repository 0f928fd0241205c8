"""Selects the time that a comparison uses: device time, or the time that a program spends.

Device time is the time of an operation if all ranks begin together. Program time includes launch time.
"""

from busbw.compare.figures import PointFigures
from busbw.compare.result import TimeQuantity


def have_device_times(*sides: PointFigures) -> bool:
    """True if every figure has a device time. False for no figures."""
    times_us = [side.known_values("device_time_us") for side in sides]
    figure_count = sum(map(len, sides))
    return 0 < figure_count == sum(map(len, times_us)) and all(map(all, times_us))


def program_time(*sides: PointFigures) -> TimeQuantity:
    """Selects the field that holds the program time, for the figures of all sides.

    The field is `median_us`, the median over iterations, if all figures have samples that include launch time
    (docs/explanation/measuring.md). Otherwise the field is `time_us`.
    """
    return "median_us" if all(side.have_program_samples for side in sides) else "time_us"
