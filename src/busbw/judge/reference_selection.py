"""The reference that the user chose to judge by, instead of the expectation."""

from msgspec import Struct

from busbw.judge.series import Series, replace_means_by_medians, series_of_table, table_key
from busbw.logs import Log
from busbw.reference import Reference


class ReferenceSelection(Struct, kw_only=True, frozen=True):
    """The reference chosen with `--reference`. All fields empty: judge by the expectation."""

    name: str = ""
    """Name in messages of `reference` or `log`, of which at most one is set."""
    reference: Reference | None = None
    log: Log | None = None
    nearest: bool = False
    """True to use the nearest published figures (auto)."""

    @property
    def is_empty(self) -> bool:
        """True if the user chose no reference, so that the expectation decides."""
        return self.reference is None and self.log is None and not self.nearest


class ReferenceSeries(Struct, kw_only=True, frozen=True):
    """Series of a reference log, the first one of each configuration. Runs are compared only with this series.

    A log of any length has few different configurations, so all series fit into memory.
    """

    by_mean: tuple[Series, ...]
    by_median: tuple[Series, ...] | None
    """The same series with medians instead of means. None if any series of the log lacks a median."""


def read_reference_series(log: Log) -> ReferenceSeries:
    """Returns the series of a reference log that runs can be compared with."""
    first_by_key: dict[tuple[object, ...], Series] = {}
    has_medians = True
    for table in log.tables:
        key = table_key(table)
        for series in series_of_table(table):
            if not series.points:
                continue
            first_by_key.setdefault((key, series.row.configuration), series)
            has_medians = has_medians and all(point.median_us is not None for point in series.points)
    by_mean = tuple(first_by_key.values())
    by_median = tuple(filter(None, map(replace_means_by_medians, by_mean))) if has_medians else None
    return ReferenceSeries(by_mean=by_mean, by_median=by_median)
