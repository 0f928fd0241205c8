"""Flat table: one line per measurement, with all properties of its run and configuration.

The CSV, Parquet and Prometheus exporters write it, and the Python API makes data frames of it. A measurement is one
placement of one row.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby, islice
from operator import attrgetter
from typing import Any, get_args, get_type_hints

from msgspec import Struct

from busbw.expect import hosts_of
from busbw.logs.log import COMPARISON_HEADINGS, Figure, Log, Row, Table, comparison_values
from busbw.logs.plain_rows import PlainRows, row_chunks
from busbw.records import LateRankRecord, StatsRecord


class FlatRow(Struct, frozen=True):
    """One placement of one row. None means unknown, never zero."""

    log: str
    table: int
    """Number of the table in its log, from 1."""
    line: int
    """Line of the row in the log."""
    start_time: str | None
    program: str | None
    library: str | None
    backend: str | None
    hosts: str | None
    """Hosts of the row's group, separated by spaces."""
    device_name: str | None
    collective: str | None
    size_bytes: int
    """Value of the size column."""
    count: int | None
    dtype: str | None
    redop: str | None
    root: int | None
    ranks: int | None
    group: int
    cycle: int
    variant: str | None
    placement: str
    """in_place, out_of_place or unstated."""
    time_us: float | None
    """Time per operation, combined over the ranks."""
    cpu_time_us: float | None
    device_time_us: float | None
    """Time of an operation on the device if all ranks begin together."""
    launch_time_us: float | None
    """Time that the host needs to issue an operation."""
    algbw_gbps: float | None
    busbw_gbps: float | None
    """Bandwidth per link in GB/s (1e9 bytes per second)."""
    derived: str | None
    """Names of the figures that are computed from others because the log lacks them, separated by spaces."""
    check: str
    """checked, not_checked, not_applicable or unstated."""
    wrong_elements: int | None
    samples: int | None = None
    """Number of iterations in the statistics that follow."""
    mean_us: float | None = None
    median_us: float | None = None
    p95_us: float | None = None
    p99_us: float | None = None
    min_us: float | None = None
    max_us: float | None = None
    stdev_us: float | None = None
    cv_percent: float | None = None
    median_ci95_low_us: float | None = None
    median_ci95_high_us: float | None = None
    algorithm: str | None = None
    protocol: str | None = None
    channels: int | None = None
    together_time_us: float | None = None
    """Time per operation while another operation, the neighbor, runs (--with)."""
    together_ratio_to_alone: float | None = None
    """`together_time_us` relative to `time_us`."""
    together_neighbor_time_us: float | None = None
    """Time per operation of the neighbor while both run."""
    skew_imbalance: float | None = None
    """Bytes of the busiest rank relative to an even share (--skew)."""
    skew_bound_us: float | None = None
    """Time that the busiest rank needs at the bandwidth of the balanced operation."""
    skew_ratio_to_bound: float | None = None
    """`time_us` relative to `skew_bound_us`."""
    late_ranks: str | None = None
    """Ranks that the other ranks waited for, each with host and delay, separated by commas."""
    warnings: str | None = None
    """Sentences about the row, separated by spaces."""
    timestamp: str | None = None


COLUMNS: tuple[str, ...] = FlatRow.__struct_fields__
_BLOCK_ROWS = 1000
"""Maximum number of rows in a block of columns."""


def _fields_with_column(source: type[Struct]) -> tuple[str, ...]:
    """Returns the fields of a struct that are copied to the column of the same name."""
    return tuple(name for name in source.__struct_fields__ if name in COLUMNS)


@cache
def column_types() -> dict[str, type]:
    """Returns the type of each column's known values: str, int or float."""
    return {name: _type_without_none(hint) for name, hint in get_type_hints(FlatRow).items()}


def _type_without_none(hint: Any) -> Any:
    """Returns X for the type `X | None`."""
    return next((part for part in get_args(hint) if part is not type(None)), hint)


def flat_columns(rows: Iterable[FlatRow]) -> dict[str, list[Any]]:
    """Returns the values of each column over the measurements. None means unknown."""
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for row in rows:
        for name, values in columns.items():
            values.append(getattr(row, name))
    return columns


def flat_rows(logs: Sequence[Log]) -> Iterator[FlatRow]:
    """Yields every measurement of every log in order."""
    for columns in column_blocks(logs):
        yield from map(FlatRow, *columns.values())


def column_blocks(logs: Sequence[Log]) -> Iterator[dict[str, list[Any]]]:
    """Yields blocks of measurements, each as columns by name in the order of COLUMNS.

    A block has at most `_BLOCK_ROWS` rows of one table, so that a long log does not fill the memory.
    """
    for log in logs:
        for table_number, table in enumerate(log.tables, start=1):
            groups = _GroupCache(table)
            table_values = _values_of_table(log, table_number, table)
            for chunk in row_chunks(table.rows):
                if isinstance(chunk, PlainRows):
                    for plain_rows in chunk.parts(_BLOCK_ROWS):
                        yield _columns_of_plain_rows(table_values, table, plain_rows, groups)
                    continue
                remaining = iter(chunk)
                while rows := list(islice(remaining, _BLOCK_ROWS)):
                    yield _columns(table_values, table, rows, groups)


def joined_texts(
    columns: Mapping[str, Sequence[Any]],
    names: Sequence[str],
    make_texts: Callable[[str, Sequence[Any]], Iterable[str]],
    separator: str,
) -> Iterator[str]:
    """Yields the joined texts of some columns for each measurement of a block.

    Most columns have the same value in a whole block, so their texts are made and joined once.

    Args:
        columns: The block.
        names: Columns to join.
        make_texts: Returns the texts of the values of a column, which has this name.
        separator: Text between two columns.
    """
    count = len(columns["line"])
    texts: list[Iterable[str]] = []
    for is_shared, group in groupby(names, lambda name: _is_shared(name, columns[name])):
        if is_shared:
            shared_texts = [text for name in group for text in make_texts(name, columns[name][:1])]
            texts.append([separator.join(shared_texts)] * count)
        else:
            texts += [make_texts(name, columns[name]) for name in group]
    return map(separator.join, zip(*texts, strict=True))


def _is_shared(name: str, values: Sequence[Any]) -> bool:
    """True if all values of a column have the same text. Equal floats may have two texts: 0.0 and -0.0."""
    first = values[0]
    return (first is None or column_types()[name] is not float) and values.count(first) == len(values)


class _GroupCache:
    """Keeps hosts and number of ranks of each group of a table, because finding them searches all ranks of the job."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._hosts: dict[int, str | None] = {}
        self._ranks: dict[tuple[int, int | None], int | None] = {}

    def hosts(self, row: Row) -> str | None:
        """Returns the hosts of the row's group, separated by spaces."""
        if row.group not in self._hosts:
            self._hosts[row.group] = " ".join(hosts_of(self._table, row)) or None
        return self._hosts[row.group]

    def ranks(self, row: Row) -> int | None:
        """Returns the number of ranks of the row."""
        key = (row.group, row.ranks)
        if key not in self._ranks:
            self._ranks[key] = self._table.ranks_of(row)
        return self._ranks[key]


def _columns_of_plain_rows(
    table_values: dict[str, Any], table: Table, rows: PlainRows, groups: _GroupCache
) -> dict[str, list[Any]]:
    """Returns what `_columns` returns, without making the rows, of which a long log has millions."""
    first_row, columns, figure_count = rows.first_row, rows.columns, 2 * len(rows)
    shared_values = {
        **dict.fromkeys(COLUMNS),
        **table_values,
        "hosts": groups.hosts(first_row),
        "collective": table.collective_of(first_row),
        "ranks": groups.ranks(first_row),
        "group": first_row.group,
        "check": "checked",
        "wrong_elements": 0,
    }
    out_of_place, in_place = columns.out_of_place, columns.in_place
    varying_values: dict[str, tuple[list[Any], list[Any]]] = {
        "line": (columns.lines, columns.lines),
        "size_bytes": (columns.sizes_bytes, columns.sizes_bytes),
        "count": (columns.counts, columns.counts),
        "dtype": (columns.dtypes, columns.dtypes),
        "redop": (columns.redops, columns.redops),
        "root": (columns.roots, columns.roots),
        "cycle": (columns.cycles, columns.cycles),
        "placement": (["out_of_place"] * len(rows), ["in_place"] * len(rows)),
        "time_us": (out_of_place.times_us, in_place.times_us),
        "algbw_gbps": (out_of_place.algbws_gbps, in_place.algbws_gbps),
        "busbw_gbps": (out_of_place.busbws_gbps, in_place.busbws_gbps),
    }
    flat: dict[str, list[Any]] = {name: [value] * figure_count for name, value in shared_values.items()}
    for name, values_by_placement in varying_values.items():
        flat[name][::2], flat[name][1::2] = values_by_placement  # both placements of a row are adjacent
    return flat


def _columns(
    table_values: dict[str, Any], table: Table, rows: Sequence[Row], groups: _GroupCache
) -> dict[str, list[Any]]:
    """Returns the columns for some rows of a table."""
    figures = [figure for row in rows for figure in row.figures.values()]
    row_of_each_figure = [row for row in rows for _ in row.figures]
    all_stats = [figure.stats for figure in figures]
    intervals_us = list(map(_median_interval_us, all_stats))
    columns = {name: [value] * len(figures) for name, value in table_values.items()}
    columns |= {name: list(map(attrgetter(name), row_of_each_figure)) for name in _fields_with_column(Row)}
    columns |= {name: list(map(attrgetter(name), figures)) for name in _fields_with_column(Figure)}
    # Half of the columns are statistics and comparisons, which most logs lack. Filling them at once saves time.
    columns |= dict.fromkeys((*_fields_with_column(StatsRecord), *COMPARISON_HEADINGS), [None] * len(figures))
    if any(all_stats):
        columns |= {
            name: [getattr(stats, name, None) for stats in all_stats] for name in _fields_with_column(StatsRecord)
        }
    if any(figure.together or figure.skew for figure in figures):
        columns |= {name: comparison_values(figures, name) for name in COMPARISON_HEADINGS}
    columns |= {
        "hosts": list(map(groups.hosts, row_of_each_figure)),
        "collective": list(map(table.collective_of, row_of_each_figure)),
        "ranks": list(map(groups.ranks, row_of_each_figure)),
        "placement": [placement for row in rows for placement in row.figures],
        "derived": [" ".join(figure.derived) or None for figure in figures],
        "median_ci95_low_us": [low_us for low_us, _ in intervals_us],
        "median_ci95_high_us": [high_us for _, high_us in intervals_us],
        "late_ranks": [", ".join(map(_late_rank_text, figure.late_ranks)) or None for figure in figures],
        "warnings": [" ".join(figure.warnings) or None for figure in figures],
    }
    return {name: columns[name] for name in COLUMNS}


def _median_interval_us(stats: StatsRecord | None) -> tuple[float | None, float | None]:
    """Returns the ends of the confidence interval of the median. None if unknown."""
    if stats is None or stats.median_ci95_us is None:
        return None, None
    return stats.median_ci95_us


def _values_of_table(log: Log, table_number: int, table: Table) -> dict[str, Any]:
    return {
        "log": log.source,
        "table": table_number,
        "start_time": table.start_time,
        "program": table.program,
        "library": table.library,
        "backend": table.settings.get("backend"),
        "device_name": ", ".join(table.devices) or None,
    }


def _late_rank_text(late: LateRankRecord) -> str:
    return f"rank {late.rank} on {late.host}: {late.late_us:.1f} us"
