"""Trends of repeated measurements over time, with changes of their level (docs/guides/run-store.md)."""

from busbw.history.change_points import FALSE_ALARMS, change_points
from busbw.history.picture import picture
from busbw.history.trends import BandTrend, Trend, trends

__all__ = ["FALSE_ALARMS", "BandTrend", "Trend", "change_points", "picture", "trends"]
