"""The reference that the user chose to judge by, instead of the expectation."""

from msgspec import Struct

from busbw.judge.series import Series, has_medians, replace_means_by_medians, series_of_table, table_key
from busbw.logs.log import Log
from busbw.reference import Reference


class ReferenceSelection(Struct, kw_only=True, frozen=True):
    """The reference chosen with `--reference`. At most one of `reference`, `log` and `nearest` is set.

    If none of the three is set, runs are judged by the expectation.
    """

    name: str = ""
    """Name of the chosen reference, for messages."""
    reference: Reference | None = None
    """Reference of busbw's catalog."""
    log: Log | None = None
    """The user's own log."""
    nearest: bool = False
    """True to use the nearest published figures (auto)."""

    @property
    def is_empty(self) -> bool:
        """True if the user chose no reference, so that the expectation decides."""
        return self.reference is None and self.log is None and not self.nearest


class ReferenceSeries(Struct, kw_only=True, frozen=True):
    """The first series of each configuration of a reference log. Later series of a configuration are not used.

    All first series are in memory at once, because logs usually have few configurations.
    """

    by_mean: tuple[Series, ...]
    by_median: tuple[Series, ...] | None
    """The same series with medians instead of means. None if any series of the log lacks a median."""


def read_reference_series(log: Log) -> ReferenceSeries:
    """Returns the series of a reference log that runs can be compared with."""
    first_by_key: dict[tuple[object, ...], Series] = {}
    has_all_medians = True
    for table in log.tables:
        key = table_key(table)
        for series in series_of_table(table):
            if not series.points:
                continue
            first_by_key.setdefault((key, series.row.configuration), series)
            has_all_medians = has_all_medians and has_medians(series)
    by_mean = tuple(first_by_key.values())
    by_median = tuple(map(replace_means_by_medians, by_mean)) if has_all_medians else None
    return ReferenceSeries(by_mean=by_mean, by_median=by_median)
