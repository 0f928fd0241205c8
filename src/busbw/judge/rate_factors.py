"""Ratios between size, time, algbw and busbw, for series.py: derives missing values, and finds contradictions."""

from collections.abc import Sequence
from typing import NamedTuple

from busbw.collectives import algbw_factor, bandwidth_ratio, bus_factor
from busbw.logs.log import Figure, Row, Table
from busbw.logs.plain_rows import FigureColumns
from busbw.units import bandwidth_gbps, transfer_time_us

_MAX_CONTRADICTION = 0.03
"""Relative difference between bandwidth and bytes / time up to which both agree. Rounding is allowed in addition."""
_ROUNDING_GBPS = 0.006
"""Maximum difference that rounding to two decimals explains: half of 0.01 GB/s, and a little more for floats."""


class RateFactors(NamedTuple):
    """Ratios of the rates of a configuration. A ratio is None if it depends on an unknown collective or rank count."""

    ranks: int | None
    """Number of ranks. None if unknown."""
    bus: float | None
    """busbw / (bytes / time)."""
    algbw: float | None
    """algbw / (bytes / time)."""
    ratio: float | None
    """busbw / algbw."""
    has_collective: bool
    """False if the collective is unknown. `algbw` is then assumed to be 1, but no time is derived from it."""

    @classmethod
    def of(cls, table: Table, row: Row) -> "RateFactors":
        """Returns the factors of a row's configuration."""
        collective, ranks = table.collective_of(row), table.ranks_of(row)
        return cls(
            ranks=ranks,
            bus=bus_factor(collective, ranks),
            algbw=algbw_factor(collective, ranks),
            ratio=bandwidth_ratio(collective, ranks),
            has_collective=collective is not None,
        )

    def time_us(self, row: Row, figure: Figure) -> float | None:
        """Returns the figure's time, or derives it from its bandwidth. None if neither is known."""
        if figure.time_us:
            return figure.time_us
        if self.bus and figure.busbw_gbps:
            return transfer_time_us(row.size_bytes, figure.busbw_gbps, self.bus)
        if self.algbw and figure.algbw_gbps and self.has_collective:
            return transfer_time_us(row.size_bytes, figure.algbw_gbps, self.algbw)
        return None

    def busbw_gbps(self, row: Row, figure: Figure, time_us: float) -> float | None:
        """Returns the figure's busbw, or derives it from its time. None if the factor is unknown."""
        if figure.busbw_gbps is not None:
            return figure.busbw_gbps
        return bandwidth_gbps(row.size_bytes, time_us, self.bus) if self.bus is not None else None

    def contradiction_text(self, row: Row, figure: Figure) -> str | None:
        """Describes a contradiction between the stated size, time, algbw and busbw. None if they are consistent.

        Figures that busbw derived from others are ignored.
        """
        size_bytes, derived = row.size_bytes, figure.derived
        time_us = None if "time_us" in derived else figure.time_us
        algbw_gbps = None if "algbw_gbps" in derived else figure.algbw_gbps
        busbw_gbps = None if "busbw_gbps" in derived else figure.busbw_gbps
        if size_bytes <= 0:
            return None
        if algbw_gbps is None:
            if not (time_us and busbw_gbps and self.bus):
                return None
            computed_gbps = bandwidth_gbps(size_bytes, time_us, self.bus)
            # A published time may be rounded to whole us.
            rounding_gbps = computed_gbps * 0.5 / time_us if time_us.is_integer() else 0.0
            agrees = _are_close(computed_gbps, busbw_gbps, extra_gbps=rounding_gbps)
            return None if agrees else f"line {row.line}: {size_bytes} B in {time_us:g} us is not {busbw_gbps:g} GB/s"
        if time_us and self.algbw is not None:
            computed_gbps = bandwidth_gbps(size_bytes, time_us, self.algbw)
            if not _are_close(computed_gbps, algbw_gbps):
                return f"line {row.line}: {size_bytes} B in {time_us:g} us is not {algbw_gbps:g} GB/s"
        if not self.ratio or not algbw_gbps or busbw_gbps is None:
            return None
        if not _are_close(algbw_gbps * self.ratio, busbw_gbps, extra_gbps=_ROUNDING_GBPS * self.ratio):
            stated_ratio = busbw_gbps / algbw_gbps
            return (
                f"line {row.line}: busbw / algbw is {stated_ratio:.4g}, but must be {self.ratio:.4g} for "
                f"{self.ranks} ranks"
            )
        return None

    def agree_with(self, sizes_bytes: Sequence[int], figures: FigureColumns) -> bool:
        """Fast test of many rows: true if all have a time, and none has a contradiction.

        False in a case of doubt, as the tolerances are slightly smaller than in `contradiction_text`. The caller then
        tests each row.
        """
        if min(figures.times_us) <= 0:
            return False
        for size_bytes, time_us, algbw_gbps, busbw_gbps in zip(
            sizes_bytes, figures.times_us, figures.algbws_gbps, figures.busbws_gbps, strict=True
        ):
            if self.algbw is not None:
                computed_gbps = size_bytes * self.algbw / time_us / 1e3  # bytes / us / 1e3 is GB/s
                if abs(computed_gbps - algbw_gbps) > _MAX_CONTRADICTION * algbw_gbps + _ROUNDING_GBPS:
                    return False
            if self.ratio:
                tolerance_gbps = _MAX_CONTRADICTION * busbw_gbps + _ROUNDING_GBPS + _ROUNDING_GBPS * self.ratio
                if abs(algbw_gbps * self.ratio - busbw_gbps) > tolerance_gbps:
                    return False
        return True


def _are_close(first_gbps: float, second_gbps: float, extra_gbps: float = 0.0) -> bool:
    """True if two bandwidths agree within `_MAX_CONTRADICTION`, rounding and `extra_gbps`."""
    larger_gbps = first_gbps if first_gbps > second_gbps else second_gbps  # max() takes longer than all other steps
    tolerance_gbps = _MAX_CONTRADICTION * larger_gbps + _ROUNDING_GBPS + extra_gbps
    return abs(first_gbps - second_gbps) <= tolerance_gbps
