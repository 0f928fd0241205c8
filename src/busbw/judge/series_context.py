"""Finds the context of a series: system, expectation, NICs and nearest published figures.

The context does not depend on the times of the series. It takes much longer to compute than a verdict, so the tables of
a long log share it if they differ only in their figures.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from busbw.expect import (
    Expectation,
    NetworkNics,
    effective_system,
    expectation_of,
    network_nics_finder,
)
from busbw.judge.nearest import NearestReference, select_nearest
from busbw.judge.reference_selection import ReferenceSelection, ReferenceSeries, read_reference_series
from busbw.judge.series import Series, table_key
from busbw.judge.yardstick import Yardstick, yardstick_from_expectation
from busbw.system import Nics, System

_MAX_CONTEXTS = 256
"""Maximum number of contexts that are kept. A long log may have any number of different tables."""


@dataclass(frozen=True)
class SeriesContext:
    """Facts that are equal for all series of the same configuration and sizes. A field is None if unknown."""

    system: System | None
    expectation: Expectation | None
    """Expectation at the sizes of the series."""
    network_nics: NetworkNics | None
    nearest: NearestReference | None
    """Most similar sweep of the selected reference, or of all published references. None if no sweep is similar. None
    also if a reference log is selected: the log is then the yardstick."""

    @property
    def assumes_nics(self) -> bool:
        """True if neither log nor user states the NICs that the data cross."""
        return self.network_nics is not None and not self.network_nics.is_stated

    @cached_property
    def expectation_yardstick(self) -> Yardstick:
        """Yardstick of the expectation, which must be known."""
        assert self.expectation is not None
        return yardstick_from_expectation(self.expectation, assumes_nics=self.assumes_nics)


class ContextFinder:
    """Finds the contexts of the series of a log, with the user's options. Equal configurations share a context."""

    def __init__(self, system: System | None, nics: Nics | None, selection: ReferenceSelection, *, sharp: bool) -> None:
        """Stores the options, which are those of `judge`."""
        self.selection = selection
        self._system, self._nics, self._sharp = system, nics, sharp
        self._contexts: dict[tuple[object, ...], SeriesContext] = {}

    @cached_property
    def reference_series(self) -> ReferenceSeries:
        """Series of the reference log, which must be selected."""
        assert self.selection.log is not None
        return read_reference_series(self.selection.log)

    def find(self, all_series: Sequence[Series]) -> list[SeriesContext]:
        """Returns the contexts of all series of a table."""
        key_of_table = table_key(all_series[0].table) if all_series else ""
        return [self._find(series, key_of_table) for series in all_series]

    def _find(self, series: Series, key_of_table: str) -> SeriesContext:
        cases = tuple((point.size_bytes, point.placement) for point in series.points)
        key = (key_of_table, series.row.configuration, cases)
        context = self._contexts.get(key)
        if context is None:
            if len(self._contexts) == _MAX_CONTEXTS:
                self._contexts.clear()
            context = self._contexts[key] = self._make_context(series)
        return context

    def _make_context(self, series: Series) -> SeriesContext:
        system = effective_system(series.table, self._system, nics=self._nics, sharp=self._sharp)
        sizes_bytes = [point.size_bytes for point in series.points]
        expectation = expectation_of(series.table, series.row, system, sizes_bytes) if system else None
        states_hardware = self._system is not None or self._nics is not None
        # The expectation's system has the NICs that the user states. If the user states no hardware, or without an
        # expectation, `network_nics_finder` gets None and derives the NICs from the log.
        stated_system = expectation.system if expectation and states_hardware else None
        network_nics = network_nics_finder(series.table, stated_system)(series.row)
        has_log = self.selection.log is not None
        nearest = None if has_log else select_nearest(series.with_stated_nics(network_nics), self.selection)
        return SeriesContext(system, expectation, network_nics, nearest)
