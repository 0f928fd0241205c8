"""Trends: runs of the same measurement in order of time, scored by bands of sizes (latency, middle, plateau).

A trend contains only runs with equal `TrendKey`. Bandwidths of different sizes are never averaged. Instead, each time
is compared with the usual time of its size: the median over the runs that have the size. A run's score in a band is the
median of the ratios (usual time / time of the run): 1 is the usual speed, 0.9 is 10 % slower.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from operator import attrgetter
from statistics import median
from typing import NamedTuple

import msgspec

from busbw.history.change_points import FALSE_ALARMS, LevelChange, change_points, min_runs
from busbw.logs.log import Placement
from busbw.statistics.bands import BANDS, BandName, band_of, find_plateau_start
from busbw.store import Filter, MeasuredSeries, list_measured

MIN_SIZE_SHARE = 0.5
"""Minimum fraction of the runs that must have a size. Rarer sizes have no usual time and no effect on the scores."""


class TrendKey(NamedTuple):
    """Properties that the measurements of one trend share. None if unknown or not applicable."""

    collective: str | None
    dtype: str | None
    redop: str | None
    root: int | None
    ranks: int | None
    group: int
    variant: str | None
    placement: Placement
    backend: str | None
    hosts: str
    """Names of all hosts, or only their number if any hosts may be combined."""
    device: str | None
    transport: str | None
    """How the host backend moved data. None for other backends."""
    method: str
    """Settings that change the meaning of a time. Only those that differ from the defaults."""


class CircumstanceChange(NamedTuple):
    """A setting or version that differs between a run and the run before it."""

    name: str
    before: str
    after: str


class BandTrend(NamedTuple):
    """Scores of the runs in one band."""

    band: BandName
    sizes_bytes: tuple[int, ...]
    scores: tuple[float | None, ...]
    """One score per run of the trend. None if the run has no size of the band."""
    changes: tuple[LevelChange, ...]
    """Changes of level; `first_index` is the index of a run of the trend."""
    is_too_short: bool
    """True if there are too few runs to detect any change."""


class Trend(NamedTuple):
    """One measurement over time."""

    key: TrendKey
    names: tuple[str, ...]
    """Names of the runs, in order of time."""
    times_s: tuple[float, ...]
    circumstances: tuple[dict[str, str], ...]
    """Settings and versions of each run that may explain a change."""
    usual_us: dict[int, float]
    """Median time over the runs that have the size, by size in bytes."""
    bands: tuple[BandTrend, ...]

    def differences(self, run_index: int) -> list[CircumstanceChange]:
        """Returns the circumstances that differ between the run with this index and the run before it."""
        before, after = self.circumstances[run_index - 1], self.circumstances[run_index]
        names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
        return [CircumstanceChange(name, before.get(name, "not set"), after.get(name, "not set")) for name in names]


def trends(connection: sqlite3.Connection, wanted: Filter, *, any_host: bool = False) -> list[Trend]:
    """Returns the trends of all matching runs, the longest first.

    Args:
        connection: Connection to the index of the run store.
        wanted: Filter for the runs.
        any_host: True to combine runs on different hosts if the number of hosts is equal.
    """
    runs_by_key: dict[TrendKey, list[MeasuredSeries]] = {}
    for measured in list_measured(connection, wanted):
        runs_by_key.setdefault(_make_trend_key(measured, any_host=any_host), []).append(measured)
    all_trends = [
        _make_trend(key, sorted(runs, key=attrgetter("time_s", "name", "number"))) for key, runs in runs_by_key.items()
    ]
    return sorted(all_trends, key=lambda trend: (-len(trend.names), [str(part) for part in trend.key]))


def _make_trend_key(measured: MeasuredSeries, *, any_host: bool) -> TrendKey:
    properties = {name: getattr(measured, name) for name in TrendKey._fields}
    if any_host:
        properties["hosts"] = f"any {measured.host_count}"
    return TrendKey(**properties)


def _make_trend(key: TrendKey, runs: list[MeasuredSeries]) -> Trend:
    usual_us = _usual_times(runs)
    return Trend(
        key=key,
        names=tuple(run.name for run in runs),
        times_s=tuple(run.time_s for run in runs),
        circumstances=tuple(msgspec.json.decode(run.circumstances, type=dict[str, str]) for run in runs),
        usual_us=usual_us,
        bands=tuple(
            # FALSE_ALARMS is the probability for the whole trend. Each band gets an equal part of it.
            _make_band_trend(band, sizes, runs, usual_us, FALSE_ALARMS / len(BANDS))
            for band, sizes in _split_into_bands(usual_us)
        ),
    )


def _usual_times(runs: list[MeasuredSeries]) -> dict[int, float]:
    """Returns the median time of each size that enough runs have."""
    run_counts = Counter(size for run in runs for size in run.times_us)
    common = [size for size, count in run_counts.items() if size > 0 and count >= MIN_SIZE_SHARE * len(runs)]
    return {size: median(run.times_us[size] for run in runs if size in run.times_us) for size in sorted(common)}


def _split_into_bands(usual_us: dict[int, float]) -> Iterator[tuple[BandName, tuple[int, ...]]]:
    """Yields each band with its sizes. Bands without sizes are omitted."""
    # `find_plateau_start` expects bus bandwidths. Bytes divided by time are proportional to them.
    plateau_start = find_plateau_start([(size, size / time_us) for size, time_us in usual_us.items()])
    for band in BANDS:
        if sizes := tuple(size for size in usual_us if band_of(size, plateau_start) == band):
            yield band, sizes


def _make_band_trend(
    band: BandName, sizes: tuple[int, ...], runs: list[MeasuredSeries], usual_us: dict[int, float], false_alarms: float
) -> BandTrend:
    scores = tuple(_score(run, sizes, usual_us) for run in runs)
    known_scores = {run_index: score for run_index, score in enumerate(scores) if score is not None}
    run_indexes = list(known_scores)  # index of the run by the index of a known score
    level_changes = change_points(list(known_scores.values()), false_alarms=false_alarms)
    changes = tuple(change._replace(first_index=run_indexes[change.first_index]) for change in level_changes)
    return BandTrend(band, sizes, scores, changes, is_too_short=len(known_scores) < min_runs(false_alarms))


def _score(run: MeasuredSeries, sizes: Iterable[int], usual_us: dict[int, float]) -> float | None:
    """Returns the median of (usual time / time of the run) over these sizes. None if the run has none of the sizes."""
    ratios = [usual_us[size] / run.times_us[size] for size in sizes if size in run.times_us]
    return median(ratios) if ratios else None
