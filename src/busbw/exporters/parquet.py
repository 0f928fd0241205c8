"""Parquet for data frames and query engines: one typed line per measurement. Needs pyarrow, an optional extra."""

from collections.abc import Sequence
from typing import Any, BinaryIO, get_args, get_type_hints

from busbw.errors import BusbwError
from busbw.exporters.flat import COLUMNS, FlatRow, flat_rows
from busbw.logs import Log

SUFFIX = ".parquet"


def write(logs: Sequence[Log], out: BinaryIO) -> None:
    """Writes the columns of the CSV exporter. Null means unknown.

    Raises:
        BusbwError: pyarrow is not installed.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise BusbwError(
            "parquet needs the package pyarrow, which is not installed",
            remedy="pip install 'busbw[parquet]', or export csv",
        ) from error
    arrow_types = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64()}
    hints = get_type_hints(FlatRow)
    schema = pyarrow.schema([(name, arrow_types[_type_without_none(hints[name])]) for name in COLUMNS])
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for row in flat_rows(logs):
        for name in COLUMNS:
            columns[name].append(_replace_surrogates(getattr(row, name)))
    parquet.write_table(pyarrow.table(columns, schema=schema), out)


def _type_without_none(hint: Any) -> Any:
    """Returns X for the type `X | None`."""
    return next((part for part in get_args(hint) if part is not type(None)), hint)


def _replace_surrogates(value: object) -> object:
    """Replaces lone surrogates, which broken logs contain and UTF-8 cannot encode."""
    return value.encode("utf-8", errors="replace").decode() if isinstance(value, str) else value
