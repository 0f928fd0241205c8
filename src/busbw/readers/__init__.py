"""ADD A READER HERE: logs of this and other tools become tables of rows.

A reader is one module with two functions: `recognises(beginning)`, which looks at the beginning of a file, and
`stream(source, claims)`, which gives out tables, refused rows and notes one after the other (events.py), so that a log
of any length is read in bounded memory. It takes only what it is sure of, and says what it did not take.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from busbw.errors import UsageError
from busbw.logs import Log
from busbw.readers import busbw_records, csv_tables, json_documents, text
from busbw.readers.source import LogSource, open_source
from busbw.readers.tables import plausibility
from busbw.readers.tables.events import Event, LogNote, TableChunk, UserClaims, collect

_NO_CLAIMS = UserClaims()


class Reader(Protocol):
    """What a reader's module has."""

    def recognises(self, beginning: str) -> bool:
        """Whether a file that begins so is this reader's."""

    def stream(self, source: LogSource, claims: UserClaims) -> Iterator[Event]:
        """What the file holds, one thing after the other."""


READERS: dict[str, Reader] = {
    "records": busbw_records,
    "JSON": json_documents,
    "CSV": csv_tables,
    "text": text,
}
"""Every reader by name, tried in this order; tests loop over them."""


def read(path: Path, claims: UserClaims = _NO_CLAIMS) -> Log:
    """Reads a log whole; `-` is standard input.

    Raises:
        UsageError: The file cannot be read, holds no row that any reader knows, or is a file of records that is broken
            or of another version.
    """
    return collect(str(path), stream(path, claims))


def stream(path: Path, claims: UserClaims = _NO_CLAIMS) -> Iterator[Event]:
    """Reads a log piece by piece, with the first reader that recognises it.

    Raises:
        UsageError: As `read`; that there is no row shows at the end.
    """
    with open_source(path) as source:
        beginning = source.beginning.decode("utf-8", errors="replace")
        reader = next(reader for reader in READERS.values() if reader.recognises(beginning))
        has_rows = False
        refused = 0
        events = reader.stream(source, claims)
        # Readers of others' logs hold every row against arithmetic; what this program wrote follows from nothing else.
        for event in plausibility.refuse_impossible(events) if reader is busbw_records else events:
            if isinstance(event, TableChunk):
                has_rows = has_rows or bool(event.table.rows) or event.table.end_reason is not None
            elif not isinstance(event, LogNote):
                refused += 1
            yield event
        if not has_rows and not refused:
            raise UsageError(
                f"{source.name} holds no row of a known format", remedy="docs/import.md lists what can be read"
            )


__all__ = ["READERS", "Event", "LogNote", "Reader", "TableChunk", "UserClaims", "collect", "read", "stream"]
