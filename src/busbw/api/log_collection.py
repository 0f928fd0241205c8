"""Logs that `busbw.load` has read, with their rows, verdicts, expectations and data frames."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from busbw.errors import BusbwError, UsageError
from busbw.exporters.flat import FlatRow, column_types, flat_columns, flat_rows
from busbw.judge import JudgedConfiguration, ReferenceSelection, judge_configurations
from busbw.launchers.machine_types.named_system import named_system
from busbw.logs.log import Log, Row, Table
from busbw.reference import Reference, references
from busbw.reference import find as find_reference
from busbw.system import Nics, System
from busbw.units import count_text

if TYPE_CHECKING:
    import pandas
    import polars


class LogCollection(Struct, kw_only=True, frozen=True):
    """Logs in the order in which they were read. Times are in microseconds, bandwidths in GB/s of 1e9 bytes."""

    logs: tuple[Log, ...]
    """The logs with all facts that they state: tables with device list, settings and environment, refused lines."""
    skipped: tuple[str, ...] = ()
    """A sentence for each unreadable file of a folder, and for each source that was named twice."""

    @property
    def tables(self) -> tuple[Table, ...]:
        """Tables of all logs: one run each, from header to footer."""
        return tuple(table for log in self.logs for table in log.tables)

    @property
    def rows(self) -> tuple[Row, ...]:
        """Rows of all tables: one size each, with a figure per placement."""
        return tuple(row for log in self.logs for row in log.rows)

    @property
    def measurements(self) -> tuple[FlatRow, ...]:
        """Every placement of every row, with the facts of its run. The data frames have the same columns."""
        return tuple(flat_rows(self.logs))

    def configurations(
        self,
        *,
        system: System | str | None = None,
        nics: Nics | None = None,
        sharp: bool = False,
        reference: "LogCollection | Reference | str | None" = None,
    ) -> tuple[JudgedConfiguration, ...]:
        """Judges each configuration as `busbw check` does, and returns its verdict and expectation.

        Args:
            system: System of the runs, its name in `busbw expect --list-systems`, or a machine type. None or `auto`
                derives the system from each log.
            nics: NICs of a node. None for the NICs of the system.
            sharp: True if the network's switches reduce (InfiniBand SHARP). False to use the system's description.
            reference: Judges by this reference instead of the expectation: a good run, published figures, or their
                name in `busbw refs`. `auto` selects the published figures of the most similar hardware and job.

        Raises:
            UsageError: The system or the reference is unknown, or the reference has more than one log.
        """
        if system == "auto":
            system = None
        run_system = named_system(system, other_values=("auto",)) if isinstance(system, str) else system
        selection = _reference_selection(reference)
        return tuple(
            configuration
            for log in self.logs
            for configuration in judge_configurations(
                log, system=run_system, nics=nics, sharp=sharp, selection=selection
            )
        )

    def to_pandas(self) -> "pandas.DataFrame":
        """Returns the measurements as a data frame of pandas with nullable types. An unknown value is `pandas.NA`.

        Raises:
            BusbwError: pandas is not installed.
        """
        pandas = _import_extra("pandas")
        dtypes = {str: "string", int: "Int64", float: "Float64"}
        types = column_types()
        columns = flat_columns(flat_rows(self.logs)).items()
        return pandas.DataFrame({name: pandas.array(values, dtype=dtypes[types[name]]) for name, values in columns})

    def to_polars(self) -> "polars.DataFrame":
        """Returns the measurements as a data frame of polars. An unknown value is null.

        Raises:
            BusbwError: polars is not installed.
        """
        library = _import_extra("polars")
        dtypes = {str: library.String, int: library.Int64, float: library.Float64}
        schema = {name: dtypes[kind] for name, kind in column_types().items()}
        frame: polars.DataFrame = library.DataFrame(flat_columns(flat_rows(self.logs)), schema=schema)
        return frame


def _import_extra(name: str) -> Any:
    """Imports an optional package, which has the name of its extra. Raises BusbwError if it is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        raise BusbwError(f"{name} is not installed", remedy=f"pip install 'busbw[{name}]'") from error


def _reference_selection(
    reference: "LogCollection | Reference | str | None",
) -> ReferenceSelection | None:
    if reference is None:
        return None
    if isinstance(reference, LogCollection):
        if len(reference.logs) != 1:
            raise UsageError(f"the reference has {count_text(len(reference.logs), 'log')}", remedy="give one log")
        return ReferenceSelection(name=reference.logs[0].source, log=reference.logs[0])
    if isinstance(reference, Reference):
        return ReferenceSelection(name=reference.title, reference=reference)
    if reference == "auto":
        return ReferenceSelection(name="auto", nearest=True)
    if reference in references() or reference.endswith(".toml"):
        return ReferenceSelection(name=reference, reference=find_reference(reference))
    raise UsageError(
        f'there is no published reference "{reference}"',
        remedy="use auto, a name from `busbw refs`, or busbw.load for a log",
    )
