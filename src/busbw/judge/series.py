"""Series: the figures of one configuration of a log by size, prepared for judging."""

import statistics

from msgspec import Struct
from msgspec.structs import replace

from busbw.expect import COLLECTIVES, NetworkNics, bus_factor, hosts_of
from busbw.logs import PLACEMENT_WORDS, Figure, Log, Placement, Row, Table
from busbw.units import count_text

_MAX_CONTRADICTION = 0.03
"""Maximum relative difference between bandwidth and bytes / time. `_close` adds an allowance for rounding."""

_GATED_BELOW_US = 300.0
"""Operations with a shorter device time are sampled behind a gate (docs/measuring.md, "What is timed")."""


class SeriesPoint(Struct, kw_only=True, frozen=True):
    """One size in one placement, over all passes."""

    size_bytes: int
    placement: Placement
    time_us: float
    busbw_gbps: float | None
    median_us: float | None = None
    """Median over iterations of the slowest rank. None without statistics or with several passes. Equal to `time_us` if
    the samples exclude launch time."""
    median_interval_us: tuple[float, float] | None = None
    """95 % confidence interval of the median. None if the log does not have it."""
    interval_us: tuple[float, float] | None = None
    """`median_interval_us`, widened to include `time_us`."""
    spread: float | None = None
    """Relative distance of the 95th percentile from the median, or the range over passes. None if neither is known."""


class Series(Struct, kw_only=True, frozen=True):
    """All figures of one configuration of a table."""

    table: Table
    row: Row
    """First row, for collective, type and ranks."""
    points: tuple[SeriesPoint, ...]
    """Ordered by size, then placement."""
    wrong: tuple[str, ...] = ()
    """One clause per figure with wrong data."""
    figures: int = 0
    """Number of figures, including those without a time."""
    unchecked: int = 0
    """Number of figures without a data check."""
    contradictions: tuple[str, ...] = ()
    """One clause per figure with inconsistent size, time and bandwidth."""
    nics: str | None = None
    """NICs of a node, '8 x 400 Gb/s'. None unless log or user state them and the data cross them."""

    def with_stated_nics(self, nics: NetworkNics | None) -> "Series":
        """Returns a copy with these NICs if they are stated."""
        return replace(self, nics=nics.nics.text) if nics and nics.is_stated else self

    @property
    def collective(self) -> str | None:
        """Collective. None if unknown."""
        return self.table.collective_of(self.row)

    @property
    def ranks(self) -> int | None:
        """Number of ranks. None if unknown."""
        return self.table.ranks_of(self.row)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts of the group that the device list contains."""
        return tuple(hosts_of(self.table, self.row))

    @property
    def title(self) -> str:
        """Description of the configuration."""
        names = [self.collective or "unknown collective", self.row.dtype, self.row.redop]
        ranks = count_text(self.ranks, "rank") if self.ranks else "unknown number of ranks"
        root = f"root {self.row.root}" if self.row.root is not None else None
        group = f"group {self.row.group}" if self.row.group else None
        words = " ".join(word for word in names if word and word != "none")
        return ", ".join(filter(None, [words, ranks, root, group, self.row.variant]))


def series_of(log: Log) -> tuple[Series, ...]:
    """Returns the series of all configurations of a log, in its order."""
    return tuple(_one(table, rows) for table in log.tables for rows in _by_configuration(table))


def by_median(series: Series) -> Series | None:
    """Returns a copy with medians instead of means, which outliers do not affect. None if a median is missing."""
    if not series.points or any(point.median_us is None for point in series.points):
        return None
    return replace(series, points=tuple(_median_of(point) for point in series.points))


def _median_of(point: SeriesPoint) -> SeriesPoint:
    assert point.median_us is not None
    busbw = point.busbw_gbps * point.time_us / point.median_us if point.busbw_gbps is not None else None
    return replace(point, time_us=point.median_us, busbw_gbps=busbw, interval_us=point.median_interval_us)


def _by_configuration(table: Table) -> list[list[Row]]:
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in table.rows:
        groups.setdefault(row.configuration, []).append(row)
    return list(groups.values())


def _one(table: Table, rows: list[Row]) -> Series:
    found: dict[tuple[int, Placement], list[tuple[Row, Figure]]] = {}
    wrong, contradictions, unchecked = [], [], 0
    for row in rows:
        for placement, figure in row.figures.items():
            if figure.wrong_elements:
                parts = filter(None, [f"{figure.wrong_elements:,} wrong", PLACEMENT_WORDS[placement]])
                wrong.append(f"line {row.line}: {', '.join(parts)}")
            unchecked += figure.check != "checked"
            if sentence := _contradiction(table, row, figure):
                contradictions.append(sentence)
            if row.size_bytes > 0 and _time_us(table, row, figure):
                found.setdefault((row.size_bytes, placement), []).append((row, figure))
    points = [_measured(table, key, figures) for key, figures in sorted(found.items())]
    return Series(
        table=table,
        row=rows[0],
        points=tuple(points),
        wrong=tuple(wrong),
        figures=sum(len(row.figures) for row in rows),
        unchecked=unchecked,
        contradictions=tuple(contradictions),
    )


def _factor(table: Table, row: Row) -> float | None:
    collective, ranks = table.collective_of(row), table.ranks_of(row)
    return bus_factor(collective, ranks) if collective in COLLECTIVES and ranks else None


def _time_us(table: Table, row: Row, figure: Figure) -> float | None:
    """Returns the log's time, or derives it from its bandwidth. None if neither is known."""
    if figure.time_us:
        return figure.time_us
    factor = _factor(table, row)
    if factor and figure.busbw_gbps:
        return row.size_bytes * factor / figure.busbw_gbps / 1e3
    if figure.algbw_gbps and table.collective_of(row) not in (None, "hypercube"):
        return row.size_bytes / figure.algbw_gbps / 1e3
    return None


def _busbw_gbps(table: Table, row: Row, figure: Figure) -> float | None:
    if figure.busbw_gbps is not None:
        return figure.busbw_gbps
    factor, time_us = _factor(table, row), _time_us(table, row, figure)
    return row.size_bytes * factor / time_us / 1e3 if factor is not None and time_us else None


def _measured(table: Table, key: tuple[int, Placement], figures: list[tuple[Row, Figure]]) -> SeriesPoint:
    times = [time for row, figure in figures if (time := _time_us(table, row, figure))]
    buses = [busbw for row, figure in figures if (busbw := _busbw_gbps(table, row, figure)) is not None]
    known = [figure.stats for _, figure in figures if figure.stats]
    stats = [figure.stats for _, figure in figures if figure.stats and not _is_device_time(figure)]
    intervals = [one.median_ci95_us for one in stats if one.median_ci95_us]
    # Outliers can move the mean out of the median's interval, so the interval is widened to include the mean.
    interval = None
    if intervals and len(figures) == 1:
        interval = (min(intervals[0][0], times[0]), max(intervals[0][1], times[0]))
    spreads = [one.p95_us / one.median_us - 1 for one in stats if one.median_us > 0]
    if len(times) > 1:
        spreads.append((max(times) - min(times)) / statistics.median(times))
    median_us = None
    if known and len(figures) == 1:
        median_us = stats[0].median_us if stats else times[0]
    return SeriesPoint(
        size_bytes=key[0],
        placement=key[1],
        time_us=statistics.median(times),
        busbw_gbps=statistics.median(buses) if buses else None,
        median_us=median_us,
        median_interval_us=intervals[0] if interval else None,
        interval_us=interval,
        spread=max(spreads) if spreads else None,
    )


def _is_device_time(figure: Figure) -> bool:
    """True if the samples are device times. They exclude launch time and do not describe the time with launching."""
    return figure.device_time_us is not None and figure.device_time_us < _GATED_BELOW_US


def _contradiction(table: Table, row: Row, figure: Figure) -> str | None:
    """Describes a contradiction of size, time, algbw and busbw, without derived figures. None if consistent."""
    stated = {
        name: value
        for name in ("time_us", "algbw_gbps", "busbw_gbps")
        if (value := getattr(figure, name)) is not None and name not in figure.derived
    }
    time_us, algbw, busbw = stated.get("time_us"), stated.get("algbw_gbps"), stated.get("busbw_gbps")
    if row.size_bytes <= 0:
        return None
    collective, ranks = table.collective_of(row), table.ranks_of(row)
    algbw_factor, busbw_factor = 1.0, _factor(table, row)
    if collective == "hypercube" and busbw_factor is not None:
        algbw_factor, busbw_factor = busbw_factor, 1.0
    if time_us and algbw is not None and not _close(row.size_bytes * algbw_factor / time_us / 1e3, algbw):
        return f"line {row.line}: {row.size_bytes} B in {time_us:g} us is not {algbw:g} GB/s"
    if (
        busbw_factor
        and algbw
        and busbw is not None
        and not _close(algbw * busbw_factor, busbw, extra=0.006 * busbw_factor)
    ):
        return (
            f"line {row.line}: busbw / algbw is {busbw / algbw:.4g}, but must be {busbw_factor:.4g} for {ranks} ranks"
        )
    return None


def _close(one: float, other: float, extra: float = 0.0) -> bool:
    return abs(one - other) <= _MAX_CONTRADICTION * max(one, other) + 0.006 + extra
