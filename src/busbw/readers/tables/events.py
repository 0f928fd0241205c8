"""Events that a reader yields one by one, so that a log of any length is read in bounded memory."""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from busbw.logs import Log, Refusal, Row, Table

CHUNK_ROWS = 20_000
"""Number of rows after which a table is split into chunks."""


class TableChunk(NamedTuple):
    """A table, or a part of a long one."""

    table: Table
    is_last: bool = True
    """False if more rows of the same table follow. All chunks of a table have the same first line."""


class LogNote(NamedTuple):
    """A sentence about the whole log."""

    sentence: str


Event = TableChunk | Refusal | LogNote


class UserClaims(NamedTuple):
    """Facts about a log that the user states."""

    collective: str | None = None


def collect(source: str, events: Iterable[Event]) -> Log:
    """Combines all events of a log."""
    refused: list[Refusal] = []
    notes: list[str] = []
    chunks: list[TableChunk] = []
    for event in events:
        if isinstance(event, TableChunk):
            chunks.append(event)
        elif isinstance(event, Refusal):
            refused.append(event)
        else:
            notes.append(event.sentence)
    tables = tuple(sorted(_joined(chunks), key=lambda table: table.first_line))  # several writers end together
    return Log(
        source=source,
        tables=tables,
        candidate_rows=sum(len(table.rows) for table in tables) + len(refused),
        refused=tuple(sorted(refused, key=lambda refusal: refusal.line)),
        warnings=tuple(notes),
    )


def _joined(chunks: list[TableChunk]) -> list[Table]:
    """Joins the chunks of each table. The last chunk has the end of the table."""
    tables: list[Table] = []
    begun: dict[int, tuple[int, list[Row]]] = {}
    for table, is_last in chunks:
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
