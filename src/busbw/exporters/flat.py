"""Flat table: one line per measurement, with all properties of its run and configuration.

The CSV, Parquet and Prometheus exporters write it, and the Python API makes data frames of it. A measurement is one
placement of one row.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args, get_type_hints

from msgspec import Struct

from busbw.expect import hosts_of
from busbw.logs import COMPARISON_HEADINGS, Figure, Log, Row, Table, comparison_value
from busbw.records import LateRankRecord, StatsRecord


class FlatRow(Struct, kw_only=True, frozen=True):
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
    median_ci95_low_us: float | None
    median_ci95_high_us: float | None
    algorithm: str | None = None
    protocol: str | None = None
    channels: int | None = None
    together_time_us: float | None
    """Time per operation next to a neighbor (--with)."""
    together_ratio_to_alone: float | None
    """That time relative to `time_us`."""
    together_neighbor_time_us: float | None
    """Time of the neighbor's operation meanwhile."""
    skew_imbalance: float | None
    """Bytes of the busiest rank relative to an even share (--skew)."""
    skew_bound_us: float | None
    """Time that the busiest rank needs at the bandwidth of the balanced operation."""
    skew_ratio_to_bound: float | None
    """`time_us` relative to this bound."""
    late_ranks: str | None = None
    """Ranks that the others waited for, each with host and delay, separated by commas."""
    warnings: str | None
    """Sentences about the row, separated by spaces."""
    timestamp: str | None


COLUMNS: tuple[str, ...] = FlatRow.__struct_fields__
_ROW_COLUMNS, _FIGURE_COLUMNS, _STATS_COLUMNS = (
    tuple(name for name in source.__struct_fields__ if name in COLUMNS) for source in (Row, Figure, StatsRecord)
)
"""Columns that are copied from the structs of the same field names."""


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
    for log in logs:
        for table_number, table in enumerate(log.tables, start=1):
            values_of_table = _values_of_table(log, table_number, table)
            hosts_by_group: dict[int, str | None] = {}
            for row in table.rows:
                if row.group not in hosts_by_group:
                    hosts_by_group[row.group] = " ".join(hosts_of(table, row)) or None
                values_of_row = _copied_values(row, _ROW_COLUMNS) | {
                    "hosts": hosts_by_group[row.group],
                    "collective": table.collective_of(row),
                    "ranks": table.ranks_of(row),
                }
                for placement, figure in row.figures.items():
                    yield FlatRow(**values_of_table, **values_of_row, **_values_of_figure(placement, figure))


def _copied_values(source: Struct, columns: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(source, name) for name in columns}


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


def _values_of_figure(placement: str, figure: Figure) -> dict[str, Any]:
    stats = figure.stats
    low_us, high_us = (stats.median_ci95_us if stats else None) or (None, None)
    values = _copied_values(figure, _FIGURE_COLUMNS) | {
        "placement": placement,
        "derived": " ".join(figure.derived) or None,
        "median_ci95_low_us": low_us,
        "median_ci95_high_us": high_us,
        **{column: comparison_value(figure, column) for column in COMPARISON_HEADINGS},
        "late_ranks": ", ".join(_late_rank_text(late) for late in figure.late_ranks) or None,
        "warnings": " ".join(figure.warnings) or None,
    }
    return values | _copied_values(stats, _STATS_COLUMNS) if stats else values


def _late_rank_text(late: LateRankRecord) -> str:
    return f"rank {late.rank} on {late.host}: {late.late_us:.1f} us"
