"""Parquet for data frames and query engines: one typed line per measurement. Needs pyarrow, an optional extra."""

from collections.abc import Sequence
from typing import BinaryIO

from busbw.errors import BusbwError
from busbw.exporters.flat import column_types, flat_columns
from busbw.judge import JudgedConfiguration
from busbw.logs import Log

SUFFIX = ".parquet"
HAS_VERDICTS = False


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
    parquet.write_table(pyarrow.table(flat_columns(logs), schema=schema), out)
