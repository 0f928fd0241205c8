"""Collects the tables of a long log in a temporary file. Only their positions stay in memory.

A table is read whenever it is needed, and its rows only when they are used. The rows of a very long table are read
chunk by chunk.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence

import msgspec

from busbw.logs.log import Row, Table
from busbw.logs.plain_rows import PlainColumns, PlainRows, RowChunks
from busbw.logs.sequences import Extent, ItemFile, LazySequence, SequenceOnDemand, StoredSequence
from busbw.readers.tables.events import TableChunk

_MAX_ROWS = 20_000
"""Maximum number of rows of a table that become a tuple when they are used."""
_EXTENT_BYTES = 1 << 16
"""Length of the encoded chunks, with their plain rows, that are written together."""
_EXTENTS_IN_MEMORY = 4
"""Number of extents that stay in memory. If several processes wrote the log, tables of adjacent extents take turns."""


class _StoredPlainRows(msgspec.Struct, array_like=True):
    collective: str | None
    ranks: int | None
    count: int
    columns: msgspec.Raw
    """Encoded `PlainColumns`. They are decoded when they are needed."""


class _StoredChunk(msgspec.Struct, array_like=True):
    table: Table
    """The table without its rows."""
    plain_rows: _StoredPlainRows | None
    """None if a row is not plain."""
    row_extents: list[Extent]
    """Places of the rows. Empty if `plain_rows` has them."""


_CHUNKS_DECODER = msgspec.msgpack.Decoder(list[_StoredChunk])
_COLUMNS_DECODER = msgspec.msgpack.Decoder(PlainColumns)


class StoredTables(LazySequence[Table]):
    """Tables in a file, in the order of their first lines."""

    def __init__(self) -> None:
        self._file = ItemFile()
        self._first_lines, self._row_counts, self._is_last = array("q"), array("q"), array("b")
        """By chunk: the first line of its table, its number of rows, and 1 if it is the last chunk of its table."""
        self._unwritten: list[msgspec.Raw] = []
        """Encoded chunks of the next extent."""
        self._unwritten_bytes = 0
        self._extents: list[Extent] = []
        self._extent_ends = array("q")
        """Number of chunks up to the end of each extent."""
        self._decoded_extents: dict[int, list[_StoredChunk]] = {}
        self._order, self._table_ends = array("q"), array("q")
        """Numbers of the chunks, ordered by table, and the end of each table in this order."""

    def add(self, chunk: TableChunk) -> None:
        """Adds a chunk. Facts about the end of a table are in its last chunk."""
        table, rows = chunk.table, chunk.table.rows
        plain_rows, row_extents = None, list[Extent]()
        if isinstance(rows, PlainRows):
            columns = msgspec.Raw(msgspec.msgpack.encode(rows.columns))
            plain_rows = _StoredPlainRows(rows.collective, rows.ranks, len(rows), columns)
        else:
            stored_rows = StoredSequence(Row, self._file)
            stored_rows.extend(rows)
            row_extents = stored_rows.flush()
        self._first_lines.append(table.first_line)
        self._row_counts.append(len(rows))
        self._is_last.append(chunk.is_last)
        encoded = msgspec.msgpack.encode(_StoredChunk(msgspec.structs.replace(table, rows=()), plain_rows, row_extents))
        self._unwritten.append(msgspec.Raw(encoded))
        self._unwritten_bytes += len(encoded)
        if self._unwritten_bytes > _EXTENT_BYTES:
            self._write_extent()

    def _write_extent(self) -> None:
        if self._unwritten:
            self._extents.append(self._file.append(self._unwritten))
            self._extent_ends.append(len(self._first_lines))
            self._unwritten, self._unwritten_bytes = [], 0

    def finish_writing(self) -> None:
        """Joins the chunks of each table, and sorts the tables. Call before any read."""
        self._write_extent()
        # The sort keeps the order of the chunks of a table. Tables that begin in parts of one line have the same first
        # line, so a table also ends at its last chunk.
        self._order = array("q", sorted(range(len(self._first_lines)), key=self._first_lines.__getitem__))
        for end, number in enumerate(self._order, start=1):
            next_line = self._first_lines[self._order[end]] if end < len(self._order) else None
            if self._is_last[number] or next_line != self._first_lines[number]:
                self._table_ends.append(end)

    def __len__(self) -> int:
        return len(self._table_ends)

    def __iter__(self) -> Iterator[Table]:
        return map(self._item, range(len(self)))

    def _item(self, position: int) -> Table:
        """Returns the table at a position in the order of first lines."""
        start = self._table_ends[position - 1] if position else 0
        numbers = self._order[start : self._table_ends[position]]
        rows: Sequence[Row]
        last_chunk = self._read_chunk(numbers[-1])
        if len(numbers) == 1 and last_chunk.plain_rows:
            rows = self._read_rows(numbers[0])
        else:
            rows = chunks = RowChunks(
                [self._row_counts[number] for number in numbers], lambda index: self._read_rows(numbers[index])
            )
            if len(rows) <= _MAX_ROWS:
                rows = SequenceOnDemand(len(rows), lambda: tuple(chunks))
        return msgspec.structs.replace(last_chunk.table, rows=rows)

    def _read_rows(self, number: int) -> Sequence[Row]:
        """Returns the rows of a chunk."""
        stored = self._read_chunk(number)
        if plain_rows := stored.plain_rows:
            columns = plain_rows.columns
            return PlainRows(
                plain_rows.collective, plain_rows.ranks, plain_rows.count, lambda: _COLUMNS_DECODER.decode(columns)
            )
        return StoredSequence(Row, self._file, stored.row_extents)

    def _read_chunk(self, number: int) -> _StoredChunk:
        extent_number = bisect_right(self._extent_ends, number)
        if extent_number not in self._decoded_extents:
            if len(self._decoded_extents) == _EXTENTS_IN_MEMORY:
                self._decoded_extents.clear()
            self._decoded_extents[extent_number] = _CHUNKS_DECODER.decode(self._file.read(self._extents[extent_number]))
        first_number = self._extent_ends[extent_number - 1] if extent_number else 0
        return self._decoded_extents[extent_number][number - first_number]
