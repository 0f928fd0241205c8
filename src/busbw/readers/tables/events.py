"""What a reader gives out, one thing after the other, so that a log of any length is read in bounded memory."""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from busbw.logs import Log, Refusal, Row, Table

CHUNK_ROWS = 20_000
"""A table with more rows comes in pieces."""


class TableChunk(NamedTuple):
    """A table, or as much of it as was read at once."""

    table: Table
    is_last: bool = True
    """False where more rows of the same table follow; the pieces have the same first line."""


class LogNote(NamedTuple):
    """A sentence about the whole log."""

    sentence: str


Event = TableChunk | Refusal | LogNote


class UserClaims(NamedTuple):
    """What the user says of a log that the log does not."""

    collective: str | None = None


def collect(source: str, events: Iterable[Event]) -> Log:
    """All of a log at once."""
    refused: list[Refusal] = []
    notes: list[str] = []
    pieces: list[TableChunk] = []
    for event in events:
        if isinstance(event, TableChunk):
            pieces.append(event)
        elif isinstance(event, Refusal):
            refused.append(event)
        else:
            notes.append(event.sentence)
    tables = tuple(sorted(_joined(pieces), key=lambda table: table.first_line))  # several writers end at once
    return Log(
        source=source,
        tables=tables,
        candidate_rows=sum(len(table.rows) for table in tables) + len(refused),
        refused=tuple(sorted(refused, key=lambda refusal: refusal.line)),
        warnings=tuple(notes),
    )


def _joined(pieces: list[TableChunk]) -> list[Table]:
    """The pieces of a table as one; the last of them knows how it ended."""
    tables: list[Table] = []
    begun: dict[int, tuple[int, list[Row]]] = {}
    for table, is_last in pieces:
        if table.first_line in begun:
            at, rows = begun[table.first_line]
            rows.extend(table.rows)
        elif is_last:
            tables.append(table)
            continue
        else:
            at, rows = len(tables), list(table.rows)
            begun[table.first_line] = (at, rows)
            tables.append(table)
        if is_last:
            del begun[table.first_line]
            tables[at] = msgspec.structs.replace(table, rows=tuple(rows))
    for at, rows in begun.values():
        tables[at] = msgspec.structs.replace(tables[at], rows=tuple(rows))
    return tables
