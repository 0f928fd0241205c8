"""Terminal plot of a trend: the speed of each run in each band of sizes, and the changes of level (`busbw history`)."""

import math
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from statistics import median

from busbw.history.trends import Trend
from busbw.terminal.charts import Chart

MAX_WIDTH, HEIGHT = 120, 14
"""Maximum number of columns, and number of lines, of the plot."""
_MARKERS = {"latency": "dot", "middle": "x", "plateau": "o"}
_TICK_COUNT = 5
_COLUMNS_PER_MARK = 2
"""Minimum number of columns per mark."""


def picture(trend: Trend, *, width: int) -> str:
    """Plots each run's speed, in percent of the usual speed, in order of time. Empty for fewer than three runs.

    If there are fewer than two columns per run, each mark is the median of consecutive runs.
    """
    run_count = len(trend.names)
    if run_count < 3:
        return ""
    width = min(width, MAX_WIDTH)
    runs_per_mark = math.ceil(_COLUMNS_PER_MARK * run_count / width)
    grouping = f", one mark per {runs_per_mark} runs" if runs_per_mark > 1 else ""
    chart = Chart(f"speed in % of the usual{grouping}; |: change of level", width, HEIGHT)
    for band in trend.bands:
        marks = list(_marks(band.scores, runs_per_mark))
        if marks:
            x, y = zip(*marks, strict=True)
            chart.add(x, y, label=band.band, marker=_MARKERS[band.band], are_joined=False)
    for run_index in sorted({change.first_index for band in trend.bands for change in band.changes}):
        chart.add_vertical_line(run_index - 0.5)  # between the runs
    ticks = sorted({round(tick * (run_count - 1) / (_TICK_COUNT - 1)) for tick in range(_TICK_COUNT)})
    chart.set_x_ticks(ticks, _time_labels([trend.times_s[run_index] for run_index in ticks]))
    return chart.text()


def _time_labels(times_s: Sequence[float]) -> list[str]:
    """Returns the days (UTC), with the times of day if two labels have the same day."""
    times = [datetime.fromtimestamp(time_s, timezone.utc) for time_s in times_s]
    days = [f"{time:%Y-%m-%d}" for time in times]
    return days if len(set(days)) == len(days) else [f"{time:%m-%d %H:%M}" for time in times]


def _marks(scores: Sequence[float | None], runs_per_mark: int) -> Iterator[tuple[float, float]]:
    """Yields the position and the percentage of each mark. Runs without a score have no mark."""
    for first in range(0, len(scores), runs_per_mark):
        known = [score for score in scores[first : first + runs_per_mark] if score is not None]
        if known:
            middle = first + (runs_per_mark - 1) / 2
            yield middle, 100 * median(known)
