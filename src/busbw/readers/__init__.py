"""ADD A READER HERE: logs of this and other tools become tables of rows.

A reader is one module of `documents` or `text` with two functions. `recognizes(beginning)` checks the beginning of a
file. `stream(source, claims)` yields tables, refused rows and notes one by one (events.py), so that a log of any length
is read in bounded memory. Claims are facts that the user states. A reader accepts only rows that it can interpret
reliably, and reports every refused row.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from busbw.errors import UsageError
from busbw.logs.log import Log, Refusal
from busbw.readers.documents import busbw_records, csv_tables, json_documents
from busbw.readers.lines.source import LogSource, open_source
from busbw.readers.tables import plausibility
from busbw.readers.tables.collection import collect
from busbw.readers.tables.events import Event, LogNote, TableChunk, UserClaims
from busbw.readers.text import text_logs
from busbw.support.files import path_text

_NO_CLAIMS = UserClaims()


class Reader(Protocol):
    """Interface of a reader module."""

    def recognizes(self, beginning: str) -> bool:
        """True if the reader handles a file with this beginning."""

    def stream(self, source: LogSource, claims: UserClaims) -> Iterator[Event]:
        """Yields the tables, refused rows and notes of the file in order."""


READERS: dict[str, Reader] = {
    "records": busbw_records,
    "JSON": json_documents,
    "CSV": csv_tables,
    "text": text_logs,
}
"""Every reader by name, in the order in which `stream` tries them. The last one accepts any text."""


def read(path: Path, claims: UserClaims = _NO_CLAIMS) -> Log:
    """Reads a whole log; `-` is standard input.

    Raises:
        UsageError: The file cannot be read or has no row of a known format, or its records are broken or have another
            version.
    """
    return collect(path_text(path), stream(path, claims))


def stream(path: Path, claims: UserClaims = _NO_CLAIMS) -> Iterator[Event]:
    """Reads a log in chunks with the first reader that recognizes it.

    Raises:
        UsageError: As in `read`. The error for a log without rows is raised at the end.
    """
    with open_source(path) as source:
        beginning = source.beginning.decode("utf-8", errors="replace")
        reader = next(reader for reader in READERS.values() if reader.recognizes(beginning))
        has_content = False
        events = reader.stream(source, claims)
        # Printed tables are checked by arithmetic. Records are not checked that way, so their figures are compared with
        # the limits of plausible values.
        for event in plausibility.refuse_implausible(events) if reader is busbw_records else events:
            if isinstance(event, TableChunk):
                table = event.table
                is_unfinished = not table.complete if reader is busbw_records else table.complete is False
                # A run that ended before its first row is content too.
                has_content |= bool(table.rows) or table.end_reason is not None or is_unfinished
            elif isinstance(event, Refusal):
                has_content = True
            yield event
        if not has_content:
            raise UsageError(
                f"{source.name} has no row of a known format",
                remedy="see docs/reference/log-formats.md for the supported formats",
            )


__all__ = ["READERS", "Event", "LogNote", "Reader", "TableChunk", "UserClaims", "collect", "read", "stream"]
