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
    samples: int | None
    mean_us: float | None
    median_us: float | None
    p95_us: float | None
    p99_us: float | None
    min_us: float | None
    max_us: float | None
    stdev_us: float | None
    cv_percent: float | None
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
    stats = figure.stats
    median_interval_us = stats.median_ci95_us if stats else None
    return FlatRow(
        log=log.source,
        table=table_number,
        line=row.line,
        start_time=table.start_time,
        program=table.program,
        library=table.library,
        backend=table.settings.get("backend"),
        hosts=" ".join(table.hosts) or None,
        device_name=", ".join(table.devices) or None,
        collective=table.collective_of(row),
        size_bytes=row.size_bytes,
        count=row.count,
        dtype=row.dtype,
        redop=row.redop,
        root=row.root,
        ranks=table.ranks_of(row),
        group=row.group,
        cycle=row.cycle,
        variant=row.variant,
        placement=placement,
        time_us=figure.time_us,
        cpu_time_us=figure.cpu_time_us,
        device_time_us=figure.device_time_us,
        launch_time_us=figure.launch_time_us,
        algbw_gbps=figure.algbw_gbps,
        busbw_gbps=figure.busbw_gbps,
        derived=" ".join(figure.derived) or None,
        check=figure.check,
        wrong_elements=figure.wrong_elements,
        samples=stats.samples if stats else None,
        mean_us=stats.mean_us if stats else None,
        median_us=stats.median_us if stats else None,
        p95_us=stats.p95_us if stats else None,
        p99_us=stats.p99_us if stats else None,
        min_us=stats.min_us if stats else None,
        max_us=stats.max_us if stats else None,
        stdev_us=stats.stdev_us if stats else None,
        cv_percent=stats.cv_percent if stats else None,
        median_ci95_low_us=median_interval_us[0] if median_interval_us else None,
        median_ci95_high_us=median_interval_us[1] if median_interval_us else None,
        warnings=" ".join(figure.warnings) or None,
        timestamp=row.timestamp,
    )
