"""ADD AN EXPORTER HERE: logs in the form that another program takes.

An exporter is one module with two things: `SUFFIX`, how its files are called, and `write(logs, out)`, which writes
bytes to a stream. Figures keep their unit in their name, and what is not known is left empty and is never zero.
"""

from collections.abc import Sequence
from typing import BinaryIO, Protocol

from busbw.exporters import csv_table, json_document, junit, markdown, parquet, prometheus
from busbw.logs import Log


class Exporter(Protocol):
    """What an exporter's module has."""

    SUFFIX: str

    def write(self, logs: Sequence[Log], out: BinaryIO) -> None:
        """All tables of all logs."""


EXPORTERS: dict[str, Exporter] = {
    "csv": csv_table,
    "json": json_document,
    "markdown": markdown,
    "junit": junit,
    "prometheus": prometheus,
    "parquet": parquet,
}
"""Every exporter by name; tests loop over them."""

__all__ = ["EXPORTERS", "Exporter"]
