"""Flat table: one line per measurement, with all properties of its run and configuration.

The CSV, Parquet and Prometheus exporters write it. A measurement is one placement of one row.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from busbw.logs import Figure, Log, Row, Table


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
    """Separated by spaces."""
    device_name: str | None
    collective: str | None
    size_bytes: int
    count: int | None
    dtype: str | None
    redop: str | None
    root: int | None
    ranks: int | None
    group: int
    cycle: int
    variant: str | None
    placement: str
    time_us: float | None
    cpu_time_us: float | None
    device_time_us: float | None
    launch_time_us: float | None
    algbw_gbps: float | None
    busbw_gbps: float | None
    derived: str | None
    """Names of the figures that are computed from others because the log lacks them, separated by spaces."""
    check: str
    wrong_elements: int | None
    samples: int | None = None
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
    warnings: str | None
    timestamp: str | None


COLUMNS: tuple[str, ...] = FlatRow.__struct_fields__


def flat_rows(logs: Sequence[Log]) -> Iterator[FlatRow]:
    """Yields every measurement of every log in order."""
    for log in logs:
        for table_number, table in enumerate(log.tables, start=1):
            for row in table.rows:
                for placement, figure in row.figures.items():
                    yield _make_flat_row(log, table_number, table, row, placement, figure)


def _make_flat_row(log: Log, table_number: int, table: Table, row: Row, placement: str, figure: Figure) -> FlatRow:
    sources = (row, figure, figure.stats) if figure.stats else (row, figure)
    copied = {name: getattr(source, name) for source in sources for name in source.__struct_fields__ if name in COLUMNS}
    median_interval_us = figure.stats.median_ci95_us if figure.stats else None
    low_us, high_us = median_interval_us or (None, None)
    return FlatRow(
        **copied
        | {
            "log": log.source,
            "table": table_number,
            "start_time": table.start_time,
            "program": table.program,
            "library": table.library,
            "backend": table.settings.get("backend"),
            "hosts": " ".join(table.hosts) or None,
            "device_name": ", ".join(table.devices) or None,
            "collective": table.collective_of(row),
            "ranks": table.ranks_of(row),
            "placement": placement,
            "derived": " ".join(figure.derived) or None,
            "median_ci95_low_us": low_us,
            "median_ci95_high_us": high_us,
            "warnings": " ".join(figure.warnings) or None,
        }
    )
