"""Run store: folders of runs, and an index that can be rebuilt from them at any time (docs/guides/run-store.md)."""

from busbw.store.index import Index
from busbw.store.layout import (
    RECORDS,
    STORE_VARIABLE,
    RunFile,
    default_folder,
    entries,
    find,
    new_run,
    run_name,
    write_run_file,
)
from busbw.store.named_logs import NoReadableLogError, read_named_logs
from busbw.store.query import (
    Filter,
    MeasuredSeries,
    RunRow,
    StoredPoint,
    count_points,
    count_runs,
    count_wrong,
    list_measured,
    list_points,
    list_runs,
)
from busbw.store.rows import MAX_INTEGER, series_values

__all__ = [
    "MAX_INTEGER",
    "RECORDS",
    "STORE_VARIABLE",
    "Filter",
    "Index",
    "MeasuredSeries",
    "NoReadableLogError",
    "RunFile",
    "RunRow",
    "StoredPoint",
    "count_points",
    "count_runs",
    "count_wrong",
    "default_folder",
    "entries",
    "find",
    "list_measured",
    "list_points",
    "list_runs",
    "new_run",
    "read_named_logs",
    "run_name",
    "series_values",
    "write_run_file",
]
