"""Makes series from a log: all figures of one configuration by size, prepared for judging.

A configuration is the rows that differ only in size and pass (-N). A point is one size in one placement, over all
passes.
"""

import statistics
from array import array
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from busbw.collectives import bus_factor
from busbw.comparability import without_run_identity
from busbw.expect import NetworkNics, hosts_of
from busbw.judge.rate_factors import RateFactors
from busbw.logs.late_ranks import LateRank, late_ranks
from busbw.logs.log import PLACEMENT_WORDS, Figure, Log, Placement, Row, Table
from busbw.logs.plain_rows import FigureColumns, PlainRows, row_chunks
from busbw.units import count_text, names_text

_MAX_NAMED_HOSTS = 4
"""Maximum number of hosts that a title names."""
_MAX_CLAUSES = 100
"""Maximum number of clauses of one kind in a series, because a long log may have any number."""


class SeriesPoint(Struct, kw_only=True, frozen=True, gc=False):
    """One size in one placement, over all passes."""

    size_bytes: int
    placement: Placement
    time_us: float
    """Time of the log's row, usually the mean over iterations. Of several passes, the median of their times."""
    busbw_gbps: float | None
    median_us: float | None = None
    """Median over iterations of the slowest rank's time. `time_us` if the samples exclude launch time. None without
    statistics, and for several passes."""
    median_interval_us: tuple[float, float] | None = None
    """95 % confidence interval of the median. None if unknown, or if the samples exclude launch time."""
    interval_us: tuple[float, float] | None = None
    """`median_interval_us`, widened to include `time_us`."""
    algorithm: str = ""
    """Algorithm and protocol: 'ring/ll128'. Empty if unknown, or if the passes differ."""
    slowest_pass_us: float | None = None
    """Time of the slowest of several passes."""
    spread: float | None = None
    """Relative distance of the 95th percentile from the median. The relative range over the passes if that is larger.
    None if neither is known."""


class Series(Struct, kw_only=True, frozen=True):
    """All figures of one configuration of a table."""

    table: Table
    row: Row
    """First row, for collective, type and ranks."""
    points: tuple[SeriesPoint, ...]
    """Ordered by size, then placement."""
    wrong_clauses: tuple[str, ...] = ()
    """One clause per figure with wrong data, for the first `_MAX_CLAUSES` figures."""
    wrong_count: int = 0
    """Number of figures with wrong data."""
    figure_count: int = 0
    """Number of figures, including those without a time."""
    unchecked_count: int = 0
    """Number of figures without a data check."""
    contradiction_clauses: tuple[str, ...] = ()
    """One clause per figure with inconsistent size, time and bandwidth, for the first `_MAX_CLAUSES` figures."""
    contradiction_count: int = 0
    """Number of figures with inconsistent size, time and bandwidth."""
    late_ranks: tuple[LateRank, ...] = ()
    nics: str | None = None
    """NICs of a node, '8 x 400 Gb/s'. None if neither log nor user states them, or if the data cross no NICs."""

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
    def is_call(self) -> bool:
        """True for a call of comm_ops. The size of its point is 0 if it moves no data."""
        return self.row.lifecycle is not None

    @property
    def bus_factor(self) -> float | None:
        """Ratio of busbw to bytes / time. None if collective or ranks are unknown."""
        return bus_factor(self.collective, self.ranks)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts of the row's group. Empty if the log does not list its ranks."""
        return tuple(hosts_of(self.table, self.row))

    @property
    def hosts_text(self) -> str:
        """Clause on the hosts, such as " on gpu-07, gpu-08". Empty if they are unknown."""
        hosts = self.hosts
        return f" on {names_text(hosts, _MAX_NAMED_HOSTS)}" if hosts else ""

    @property
    def title(self) -> str:
        """Description of the configuration."""
        names = [self.collective or "unknown collective", self.row.dtype, self.row.redop]
        ranks = count_text(self.ranks, "rank") if self.ranks else "unknown number of ranks"
        root = f"root {self.row.root}" if self.row.root is not None else None
        has_groups = self.row.group or any(rank.group != self.row.group for rank in self.table.rank_list)
        group = f"group {self.row.group}{self.hosts_text}" if has_groups else None
        known_names = " ".join(name for name in names if name and name != "none")
        return ", ".join(filter(None, [known_names, ranks, root, group, self.row.variant]))


def series_of(log: Log) -> Iterator[Series]:
    """Yields the series of all configurations of a log, in its order."""
    return (series for table in log.tables for series in series_of_table(table))


def table_key(table: Table) -> str:
    """Returns a key of the facts about a table, without rows, footers, and facts of one run such as its start time."""
    facts = replace(
        table,
        first_line=1,
        start_time=None,
        rank_list=tuple(replace(rank, pid=None) for rank in table.rank_list),
        settings=without_run_identity(table.settings),
        environment=without_run_identity(table.environment),
        rows=(),
        claimed_average_busbw_gbps=None,
        claimed_out_of_bounds=None,
        warnings=(),
    )
    return repr(facts)  # unlike a JSON encoder, `repr` accepts invalid Unicode


def series_of_table(table: Table) -> list[Series]:
    """Returns the series of all configurations of a table. Its rows may be too long for memory."""
    builders: dict[tuple[object, ...], _SeriesBuilder] = {}

    def builder_of(row: Row) -> _SeriesBuilder:
        configuration = row.configuration
        builder = builders.get(configuration)
        if builder is None:
            builder = builders[configuration] = _SeriesBuilder(table, row)
        return builder

    for chunk in row_chunks(table.rows):
        is_added = (
            isinstance(chunk, PlainRows)
            and chunk.have_one_configuration
            and builder_of(chunk.first_row).add_plain_rows(chunk)
        )
        if is_added:
            continue
        for row in chunk:
            builder_of(row).add(row)
    return [builder.series() for builder in builders.values()]


def has_medians(series: Series) -> bool:
    """True if the series has points, and each point has a median."""
    return bool(series.points) and all(point.median_us is not None for point in series.points)


def replace_means_by_medians(series: Series) -> Series:
    """Returns a copy of a series that `has_medians`, with medians instead of means. Outliers do not affect medians."""
    return replace(series, points=tuple(_replace_mean_by_median(point) for point in series.points))


def _replace_mean_by_median(point: SeriesPoint) -> SeriesPoint:
    assert point.median_us is not None
    busbw = point.busbw_gbps * point.time_us / point.median_us if point.busbw_gbps is not None else None
    return replace(point, time_us=point.median_us, busbw_gbps=busbw, interval_us=point.median_interval_us)


class _SeriesBuilder:
    """Collects the rows of one configuration. Keeps only the values that a `SeriesPoint` needs, not the figures."""

    def __init__(self, table: Table, first_row: Row) -> None:
        self._table, self._first_row = table, first_row
        self._factors = RateFactors.of(table, first_row)
        self._points: dict[tuple[int, Placement], SeriesPoint] = {}
        """Point of the first pass by size and placement. Most logs have no further pass."""
        self._passes: dict[tuple[int, Placement], _Passes] = {}
        """All passes of each size and placement that has several passes."""
        self._wrong_clauses: list[str] = []
        self._contradiction_clauses: list[str] = []
        self._wrong_count = self._contradiction_count = self._figure_count = self._unchecked_count = 0
        self._sizes_bytes: set[int] = set()
        self._late_rows: list[Row] = []
        """Rows with late ranks. To save memory, their figures contain nothing but the late ranks."""

    def add(self, row: Row) -> None:
        """Adds a row."""
        size_bytes = row.size_bytes
        self._sizes_bytes.add(size_bytes)
        is_call_without_data = row.lifecycle is not None and size_bytes == 0
        has_late_ranks = False
        for placement, figure in row.figures.items():
            has_late_ranks = has_late_ranks or bool(figure.late_ranks)
            self._figure_count += 1
            if figure.check != "checked" and not is_call_without_data:
                self._unchecked_count += 1
            if figure.wrong_elements:
                self._add_wrong_data(f"line {row.line}", figure.wrong_elements, placement)
            if contradiction := self._factors.contradiction_text(row, figure):
                self._add_contradiction(contradiction)
            if (size_bytes > 0 or row.lifecycle) and (time_us := self._factors.time_us(row, figure)):
                busbw_gbps = self._factors.busbw_gbps(row, figure, time_us)
                self._add_figure((size_bytes, placement), time_us, busbw_gbps, figure)
        if has_late_ranks:
            figures = {name: Figure(late_ranks=figure.late_ranks) for name, figure in row.figures.items()}
            self._late_rows.append(replace(row, figures=figures))

    def add_plain_rows(self, rows: PlainRows) -> bool:
        """Adds rows with one configuration and right data in both placements. This is faster than `add`.

        Returns false, and adds nothing, if a row has a size of 0, no time, or perhaps a contradiction.
        """
        columns = rows.columns
        sizes_bytes = columns.sizes_bytes
        figures_by_placement: dict[Placement, FigureColumns] = {
            "in_place": columns.in_place,
            "out_of_place": columns.out_of_place,
        }
        all_agree = all(self._factors.agree_with(sizes_bytes, figures) for figures in figures_by_placement.values())
        if min(sizes_bytes) <= 0 or not all_agree:
            return False
        self._sizes_bytes.update(sizes_bytes)
        self._figure_count += 2 * len(rows)
        for placement, figures in figures_by_placement.items():
            for size_bytes, time_us, busbw_gbps in zip(sizes_bytes, figures.times_us, figures.busbws_gbps, strict=True):
                case = (size_bytes, placement)
                if case in self._points:
                    self._passes_of(case).add(time_us, busbw_gbps)
                else:
                    self._points[case] = SeriesPoint(
                        size_bytes=size_bytes, placement=placement, time_us=time_us, busbw_gbps=busbw_gbps
                    )
        return True

    def _passes_of(self, case: tuple[int, Placement]) -> "_Passes":
        """Returns all passes of a size and placement that has a point."""
        passes = self._passes.get(case)
        if passes is None:
            passes = self._passes[case] = _Passes(self._points[case])
        return passes

    def _add_figure(
        self, case: tuple[int, Placement], time_us: float, busbw_gbps: float | None, figure: Figure
    ) -> None:
        if case not in self._points:
            # A reader may leave a whole number of JSON as int. Series have floats, as the arrays of several passes do.
            known_busbw_gbps = None if busbw_gbps is None else float(busbw_gbps)
            self._points[case] = _make_point(*case, float(time_us), known_busbw_gbps, figure)
            return
        self._passes_of(case).add(time_us, busbw_gbps, figure.algorithm_text, _spread_of(figure))

    def _add_wrong_data(self, line_text: str, wrong_elements: int, placement: Placement) -> None:
        self._wrong_count += 1
        if len(self._wrong_clauses) < _MAX_CLAUSES:
            parts = filter(None, [f"{wrong_elements:,} wrong", PLACEMENT_WORDS[placement]])
            self._wrong_clauses.append(f"{line_text}: {', '.join(parts)}")

    def _add_contradiction(self, clause: str) -> None:
        self._contradiction_count += 1
        if len(self._contradiction_clauses) < _MAX_CLAUSES:
            self._contradiction_clauses.append(clause)

    def series(self) -> Series:
        """Returns the series of all added rows."""
        return Series(
            table=self._table,
            row=self._first_row,
            points=tuple(
                self._passes[case].point() if case in self._passes else self._points[case]
                for case in sorted(self._points)
            ),
            wrong_clauses=tuple(self._wrong_clauses),
            wrong_count=self._wrong_count,
            figure_count=self._figure_count,
            unchecked_count=self._unchecked_count,
            contradiction_clauses=tuple(self._contradiction_clauses),
            contradiction_count=self._contradiction_count,
            late_ranks=late_ranks(self._late_rows, len(self._sizes_bytes)) if self._late_rows else (),
        )


def _make_point(
    size_bytes: int, placement: Placement, time_us: float, busbw_gbps: float | None, figure: Figure
) -> SeriesPoint:
    """Makes the point of a single pass from its figure, with its time and its busbw, if known."""
    stats = figure.stats
    median_us = None
    median_interval_us = None
    interval_us = None
    if stats is not None and figure.samples_include_launches:
        median_us = stats.median_us
        median_interval_us = stats.median_ci95_us
        if median_interval_us:
            # Outliers can move the mean out of the median's interval, so the interval is widened to include the mean.
            interval_us = (min(median_interval_us[0], time_us), max(median_interval_us[1], time_us))
    elif stats is not None:
        median_us = time_us
    return SeriesPoint(
        size_bytes=size_bytes,
        placement=placement,
        time_us=time_us,
        busbw_gbps=busbw_gbps,
        median_us=median_us,
        median_interval_us=median_interval_us,
        interval_us=interval_us,
        algorithm=figure.algorithm_text,
        spread=_spread_of(figure),
    )


def _spread_of(figure: Figure) -> float | None:
    """Returns the relative distance of the 95th percentile from the median. None without samples with launches."""
    stats = figure.stats
    if stats is None or not figure.samples_include_launches or stats.median_us <= 0:
        return None
    return stats.p95_us / stats.median_us - 1


class _Passes:
    """Combines the figures of several passes over one size in one placement to one point: medians over the passes."""

    def __init__(self, first: SeriesPoint) -> None:
        """Adds the figure of the first pass."""
        self._first = first
        self._times_us = array("d", (first.time_us,))
        self._busbws_gbps = array("d", () if first.busbw_gbps is None else (first.busbw_gbps,))
        self._max_spread = first.spread or 0.0
        self._algorithms = {first.algorithm}

    def add(self, time_us: float, busbw_gbps: float | None, algorithm: str = "", spread: float | None = None) -> None:
        """Adds a figure: fields of a `SeriesPoint`."""
        self._times_us.append(time_us)
        self._algorithms.add(algorithm)
        if busbw_gbps is not None:
            self._busbws_gbps.append(busbw_gbps)
        if spread is not None:
            self._max_spread = max(spread, self._max_spread)

    def point(self) -> SeriesPoint:
        """Returns the point of all added figures."""
        times_us = self._times_us
        median_us = statistics.median(times_us)
        spread_of_passes = (max(times_us) - min(times_us)) / median_us
        return SeriesPoint(
            size_bytes=self._first.size_bytes,
            placement=self._first.placement,
            time_us=median_us,
            busbw_gbps=statistics.median(self._busbws_gbps) if self._busbws_gbps else None,
            algorithm=next(iter(self._algorithms)) if len(self._algorithms) == 1 else "",
            slowest_pass_us=max(times_us),
            spread=max(spread_of_passes, self._max_spread),
        )
