"""Data frames of measurements, with the columns of the CSV exporter. pandas and polars are optional extras."""

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from busbw.errors import BusbwError
from busbw.exporters.flat import column_types, flat_columns, flat_rows
from busbw.logs import Log

if TYPE_CHECKING:
    import pandas
    import polars


def to_pandas(logs: Sequence[Log]) -> "pandas.DataFrame":
    """Returns the measurements as a data frame of pandas with nullable types."""
    pandas = _import_extra("pandas")
    dtypes = {str: "string", int: "Int64", float: "Float64"}
    columns, types = flat_columns(flat_rows(logs)), column_types()
    return pandas.DataFrame({name: pandas.array(values, dtype=dtypes[types[name]]) for name, values in columns.items()})


def to_polars(logs: Sequence[Log]) -> "polars.DataFrame":
    """Returns the measurements as a data frame of polars."""
    library = _import_extra("polars")
    dtypes = {str: library.String, int: library.Int64, float: library.Float64}
    schema = {name: dtypes[kind] for name, kind in column_types().items()}
    frame: polars.DataFrame = library.DataFrame(flat_columns(flat_rows(logs)), schema=schema)
    return frame


def _import_extra(name: str) -> Any:
    """Imports an optional package, which has the name of its extra. Raises BusbwError if it is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        raise BusbwError(f"{name} is not installed", remedy=f"pip install 'busbw[{name}]'") from error
