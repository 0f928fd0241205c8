"""How the same measurement went over time, and where it changed (docs/store.md)."""

from busbw.history.change_points import FALSE_ALARMS, Change, change_points
from busbw.history.picture import picture
from busbw.history.trends import BandTrend, Sameness, Trend, What, trends

__all__ = [
    "FALSE_ALARMS",
    "BandTrend",
    "Change",
    "Sameness",
    "Trend",
    "What",
    "change_points",
    "picture",
    "trends",
]
