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
    # Tables of several processes are yielded in the order of their ends, not of their first lines.
    tables = tuple(sorted(_join_chunks(chunks), key=lambda table: table.first_line))
    return Log(
        source=source,
        tables=tables,
        candidate_rows=sum(len(table.rows) for table in tables) + len(refused),
        refused=tuple(sorted(refused, key=lambda refusal: refusal.line)),
        warnings=tuple(notes),
    )


def _join_chunks(chunks: list[TableChunk]) -> list[Table]:
    """Joins the chunks of each table. Facts about the end of a table are in its last chunk."""
    tables: list[Table] = []
    open_tables: dict[int, tuple[int, list[Row]]] = {}  # by first line: index in `tables`, and the rows so far
    for table, is_last in chunks:
        if table.first_line in open_tables:
            index, rows = open_tables[table.first_line]
            rows.extend(table.rows)
        elif is_last:
            tables.append(table)
            continue
        else:
            index, rows = len(tables), list(table.rows)
            open_tables[table.first_line] = (index, rows)
            tables.append(table)
        if is_last:
            del open_tables[table.first_line]
            tables[index] = msgspec.structs.replace(table, rows=tuple(rows))
    for index, rows in open_tables.values():
        tables[index] = msgspec.structs.replace(tables[index], rows=tuple(rows))
    return tables
