"""ADD AN EXPORTER HERE: writes logs in the formats of other programs, for `busbw export`.

An exporter is one module with `SUFFIX`, the suffix of its files, `HAS_VERDICTS`, and `write(logs, out, verdicts)`. It
writes bytes to a stream. Names of figures contain the unit. An unknown value is empty, never zero.
"""

from collections.abc import Sequence
from typing import BinaryIO, Protocol

from busbw.exporters import csv_table, json_document, junit, markdown, parquet, prometheus
from busbw.judge import JudgedConfiguration
from busbw.logs.log import Log


class Exporter(Protocol):
    """Interface of an exporter module."""

    SUFFIX: str
    HAS_VERDICTS: bool
    """True if the format contains the verdicts. Other exporters ignore them."""

    def write(self, logs: Sequence[Log], out: BinaryIO, verdicts: Sequence[JudgedConfiguration] = ()) -> None:
        """Writes all tables of all logs, and the verdicts on their configurations."""


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
