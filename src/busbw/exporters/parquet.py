"""Parquet for data frames and query engines: one typed line per measurement. Needs pyarrow, an optional extra."""

from collections.abc import Sequence
from itertools import islice
from typing import BinaryIO

from busbw.errors import BusbwError
from busbw.exporters.flat import column_types, flat_columns, flat_rows
from busbw.judge import JudgedConfiguration
from busbw.logs.log import Log

SUFFIX = ".parquet"
HAS_VERDICTS = False
_GROUP_ROWS = 50_000
"""Rows per row group, which are in memory together."""


def write(logs: Sequence[Log], out: BinaryIO, verdicts: Sequence[JudgedConfiguration] = ()) -> None:
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
    schema = pyarrow.schema([(name, arrow_types[kind]) for name, kind in column_types().items()])
    rows = flat_rows(logs)
    with parquet.ParquetWriter(out, schema) as writer:
        while group := list(islice(rows, _GROUP_ROWS)):
            writer.write_table(pyarrow.table(flat_columns(group), schema=schema))
