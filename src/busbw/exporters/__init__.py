"""ADD AN EXPORTER HERE: writes logs in the formats of other programs, for `busbw export`.

An exporter is one module with `SUFFIX`, the suffix of its files, and `write(logs, out)`, which writes bytes to a
stream. Names of figures contain the unit. An unknown value is empty, never zero.
"""

from collections.abc import Sequence
from typing import BinaryIO, Protocol

from busbw.exporters import csv_table, json_document, junit, markdown, parquet, prometheus
from busbw.logs import Log


class Exporter(Protocol):
    """Interface of an exporter module."""

    SUFFIX: str

    def write(self, logs: Sequence[Log], out: BinaryIO) -> None:
        """Writes all tables of all logs."""


EXPORTERS: dict[str, Exporter] = {
    "csv": csv_table,
    "json": json_document,
    "markdown": markdown,
    "junit": junit,
    "prometheus": prometheus,
    "parquet": parquet,
}
"""Every exporter by name."""

__all__ = ["EXPORTERS", "Exporter"]
