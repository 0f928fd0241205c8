"""Runs of the same measurement in order of time, judged by bands of sizes.

What is the same is said by `Sameness`, and nothing else is ever put into one trend. Within a band no bandwidths of
unlike sizes are averaged: each size is held against its own median over all runs, and a run's score in a band is the
median of these ratios. 1 is as usual, 0.9 is 10 % slower.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from operator import attrgetter
from statistics import median
from typing import NamedTuple

import msgspec

from busbw.history.change_points import FALSE_ALARMS, LevelChange, change_points, min_runs
from busbw.logs import Placement
from busbw.statistics.bands import BANDS, BandName, band_of, plateau_from
from busbw.store import Filter, MeasuredSeries, list_measured

MIN_SIZE_SHARE = 0.5
"""A size counts when at least this part of the runs have it: the others' scores must not hang on it."""


class TrendKey(NamedTuple):
    """What measurements must share to be one trend."""

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
    """All of them, or only how many there are where any will do."""
    device: str | None
    method: str
    """Settings that make a time mean something else, where they differ from the usual."""


class CircumstanceChange(NamedTuple):
    """What differs between the runs before a change and those after it."""

    name: str
    before: str
    after: str


class BandTrend(NamedTuple):
    """The runs' scores in one band."""

    band: BandName
    sizes_bytes: tuple[int, ...]
    scores: tuple[float | None, ...]
    """Per run of the trend; None where the run has none of the sizes."""
    changes: tuple[LevelChange, ...]
    """Each at a run of the trend."""
    is_too_short: bool
    """Whether there are too few runs to find any change."""


class Trend(NamedTuple):
    """The same measurement over time."""

    same: TrendKey
    names: tuple[str, ...]
    """Of the runs, in order of time."""
    times_s: tuple[float, ...]
    circumstances: tuple[dict[str, str], ...]
    usual_us: dict[int, float]
    """Median time over the runs, by size."""
    bands: tuple[BandTrend, ...]

    def differences(self, at: int) -> list[CircumstanceChange]:
        """What a run was made with that the run before it was not."""
        before, after = self.circumstances[at - 1], self.circumstances[at]
        names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
        return [CircumstanceChange(name, before.get(name, "not set"), after.get(name, "not set")) for name in names]


def trends(
    connection: sqlite3.Connection, wanted: Filter, *, any_host: bool = False, false_alarms: float = FALSE_ALARMS
) -> list[Trend]:
    """The trends of all that matches, the longest first.

    Args:
        connection: Of the index.
        wanted: What to look at.
        any_host: Take runs on other hosts for the same, where there are as many of them.
        false_alarms: The chance that a trend in which nothing changed is reported to have changed; at most. The bands
            share it.
    """
    runs_of: dict[TrendKey, list[MeasuredSeries]] = {}
    for measured in list_measured(connection, wanted):
        runs_of.setdefault(_sameness(measured, any_host=any_host), []).append(measured)
    made = [
        _trend(same, sorted(runs, key=attrgetter("time_s", "name", "number")), false_alarms)
        for same, runs in runs_of.items()
    ]
    return sorted(made, key=lambda trend: (-len(trend.names), [str(part) for part in trend.same]))


def _sameness(measured: MeasuredSeries, *, any_host: bool) -> TrendKey:
    return TrendKey(
        collective=measured.collective,
        dtype=measured.dtype,
        redop=measured.redop,
        root=measured.root,
        ranks=measured.ranks,
        group=measured.group,
        variant=measured.variant,
        placement=measured.placement,
        backend=measured.backend,
        hosts=f"any {measured.host_count}" if any_host else measured.hosts,
        device=measured.device,
        method=measured.method,
    )


def _trend(same: TrendKey, runs: list[MeasuredSeries], false_alarms: float) -> Trend:
    usual_us = _usual(runs)
    return Trend(
        same=same,
        names=tuple(run.name for run in runs),
        times_s=tuple(run.time_s for run in runs),
        circumstances=tuple(msgspec.json.decode(run.circumstances, type=dict[str, str]) for run in runs),
        usual_us=usual_us,
        bands=tuple(
            _band(band, sizes, runs, usual_us, false_alarms / len(BANDS)) for band, sizes in _sizes_of(usual_us)
        ),
    )


def _usual(runs: list[MeasuredSeries]) -> dict[int, float]:
    """The median time of each size that is common enough."""
    seen = Counter(size for run in runs for size in run.times_us)
    common = [size for size, count in seen.items() if size > 0 and count >= MIN_SIZE_SHARE * len(runs)]
    return {size: median(run.times_us[size] for run in runs if size in run.times_us) for size in sorted(common)}


def _sizes_of(usual_us: dict[int, float]) -> Iterator[tuple[BandName, tuple[int, ...]]]:
    """Which sizes are in which band; a band without one is left out."""
    # Bytes over time is busbw but for a factor that all sizes share.
    start = plateau_from([(size, size / time_us) for size, time_us in usual_us.items()])
    for band in BANDS:
        if sizes := tuple(size for size in usual_us if band_of(size, start) == band):
            yield band, sizes


def _band(
    band: BandName, sizes: tuple[int, ...], runs: list[MeasuredSeries], usual_us: dict[int, float], false_alarms: float
) -> BandTrend:
    scores = tuple(_score(run, sizes, usual_us) for run in runs)
    known = [index for index, score in enumerate(scores) if score is not None]
    found = change_points([score for score in scores if score is not None], false_alarms=false_alarms)
    changes = tuple(change._replace(at=known[change.at]) for change in found)
    return BandTrend(band, sizes, scores, changes, is_too_short=len(known) < min_runs(false_alarms))


def _score(run: MeasuredSeries, sizes: Iterable[int], usual_us: dict[int, float]) -> float | None:
    ratios = [usual_us[size] / run.times_us[size] for size in sizes if size in run.times_us]
    return median(ratios) if ratios else None
