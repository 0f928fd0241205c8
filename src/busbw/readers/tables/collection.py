"""Combines the events of a reader into a log. A long log stays in a temporary file."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from busbw.logs.log import Log, Refusal, Row, Table
from busbw.logs.plain_rows import PlainRows, join_chunks
from busbw.logs.sequences import StoredSequence
from busbw.readers.tables.events import Event, LogNote, TableChunk
from busbw.readers.tables.stored_tables import StoredTables

MAX_ITEMS_IN_MEMORY = 50_000
"""Maximum number of rows, tables and refused rows of a log in memory. Each takes about 1 KB without samples."""
_SAMPLES_PER_ITEM = 32
"""Number of samples that take as much memory as a row without any."""


def collect(source: str, events: Iterable[Event], max_items_in_memory: int = MAX_ITEMS_IN_MEMORY) -> Log:
    """Combines all events of a log."""
    kept: deque[Event] = deque()
    item_count = 0
    remaining = iter(events)
    for event in remaining:
        kept.append(event)
        item_count += 1 + (_count_items(event.table.rows) if isinstance(event, TableChunk) else 0)
        if item_count > max_items_in_memory:
            return _collect_in_file(source, _drain(kept, remaining))
    return _collect_in_memory(source, kept)


def _count_items(rows: Sequence[Row]) -> int:
    """Returns the number of items that the memory of these rows corresponds to. Plain rows have no samples."""
    return len(rows) if isinstance(rows, PlainRows) else sum(map(_count_items_of_row, rows))


def _count_items_of_row(row: Row) -> int:
    sample_count = sum(len(samples) for figure in row.figures.values() for samples in figure.samples_us)
    return 1 + sample_count // _SAMPLES_PER_ITEM


def _drain(kept: deque[Event], remaining: Iterator[Event]) -> Iterator[Event]:
    """Yields the kept events and then the remaining events. Each kept event is released when it is yielded."""
    while kept:
        yield kept.popleft()
    yield from remaining


def _collect_in_file(source: str, events: Iterable[Event]) -> Log:
    tables, refused, notes, row_count = StoredTables(), StoredSequence(Refusal), list[str](), 0
    for event in events:
        if isinstance(event, TableChunk):
            row_count += len(event.table.rows)
            tables.add(event)
        elif isinstance(event, Refusal):
            refused.extend([event])
        else:
            notes.append(event.sentence)
    tables.finish_writing()
    # Refused rows are in the order in which their tables end. Sorting would need all refused rows in memory.
    return Log(
        source=source,
        tables=tables,
        candidate_rows=row_count + len(refused),
        refused=refused,
        warnings=tuple(notes),
    )


def _collect_in_memory(source: str, events: Iterable[Event]) -> Log:
    refused: list[Refusal] = []
    notes: list[str] = []
    chunks: list[TableChunk] = []
    for event in events:
        if isinstance(event, TableChunk):
            chunks.append(event)
        elif isinstance(event, Refusal):
            refused.append(event)
        elif isinstance(event, LogNote):
            notes.append(event.sentence)
    # If several processes wrote the log, the chunks are in the order in which their tables end.
    tables = tuple(sorted(_join_chunks(chunks), key=lambda table: table.first_line))
    return Log(
        source=source,
        tables=tables,
        candidate_rows=sum(len(table.rows) for table in tables) + len(refused),
        refused=tuple(sorted(refused, key=lambda refusal: refusal.line)),
        warnings=tuple(notes),
    )


def _join_chunks(chunks: list[TableChunk]) -> list[Table]:
    """Joins the chunks of each table."""
    chunks_of_tables: list[list[Table]] = []
    open_tables: dict[int, list[Table]] = {}  # chunks so far of each table with further chunks to come, by first line
    for table, is_last in chunks:
        if table.first_line not in open_tables:
            open_tables[table.first_line] = []
            chunks_of_tables.append(open_tables[table.first_line])
        open_tables[table.first_line].append(table)
        if is_last:
            del open_tables[table.first_line]
    return list(map(_join_table, chunks_of_tables))


def _join_table(chunks: list[Table]) -> Table:
    """Returns the whole table. The last chunk has the facts about the end of the table."""
    if len(chunks) == 1:
        return chunks[0]
    return msgspec.structs.replace(chunks[-1], rows=join_chunks([chunk.rows for chunk in chunks if chunk.rows]))
