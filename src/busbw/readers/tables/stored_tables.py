"""Collects the tables of a long log in a temporary file. Only their positions stay in memory.

A table is read whenever it is needed. The rows of a very long table also stay in the file, as a `StoredSequence`.
"""

from array import array
from collections.abc import Iterator

import msgspec

from busbw.logs import Row, Table
from busbw.readers.tables.events import TableChunk
from busbw.sequences import Block, ItemFile, LazySequence, StoredSequence

_MAX_ROWS = 20_000
"""Maximum number of rows of a table that become a tuple when the table is read."""


class _StoredTable(msgspec.Struct, array_like=True):
    table: Table
    """Contains the rows only if `row_blocks` is empty."""
    row_blocks: list[Block]
    """Blocks of the rows of a table that was read in several chunks."""


class StoredTables(LazySequence[Table]):
    """Tables in a file, in the order of their first lines."""

    def __init__(self) -> None:
        self._file = ItemFile()
        self._decoder = msgspec.msgpack.Decoder(list[_StoredTable])
        self._open_rows: dict[int, tuple[int, StoredSequence[Row]]] = {}
        """Position and rows of each table with further chunks to come, by the table's first line."""
        self._open_tables: dict[int, Table] = {}
        """Latest chunk, without rows, of each table in `_open_rows`."""
        self._first_lines, self._offsets, self._lengths = array("q"), array("q"), array("q")
        self._order: array[int] | None = None

    def add(self, chunk: TableChunk) -> None:
        """Adds a chunk. Facts about the end of a table are in its last chunk."""
        first_line = chunk.table.first_line
        if first_line in self._open_rows:
            position, rows = self._open_rows[first_line]
        else:
            position = len(self._first_lines)
            self._first_lines.append(first_line)
            self._offsets.append(0)
            self._lengths.append(0)
            if chunk.is_last:  # the whole table
                self._write(position, chunk.table, [])
                return
            rows = StoredSequence(Row, self._file)
        rows.extend(chunk.table.rows)
        table = msgspec.structs.replace(chunk.table, rows=())
        if chunk.is_last:
            self._open_rows.pop(first_line, None)
            self._open_tables.pop(first_line, None)
            self._write(position, table, rows.flush())
        else:
            self._open_rows[first_line] = position, rows
            self._open_tables[first_line] = table

    def finish_writing(self) -> None:
        """Ends the tables that wait for further chunks, and sorts all tables. Call before any read."""
        for first_line, (position, rows) in self._open_rows.items():
            self._write(position, self._open_tables[first_line], rows.flush())
        self._open_rows, self._open_tables = {}, {}
        self._order = array("q", sorted(range(len(self._first_lines)), key=self._first_lines.__getitem__))

    def _write(self, position: int, table: Table, row_blocks: list[Block]) -> None:
        block = self._file.append([_StoredTable(table, row_blocks)])
        self._offsets[position], self._lengths[position] = block.offset, block.length

    def __len__(self) -> int:
        return len(self._first_lines)

    def __iter__(self) -> Iterator[Table]:
        return map(self._item, range(len(self)))

    def _item(self, position: int) -> Table:
        assert self._order is not None  # `finish_writing` was called
        index = self._order[position]
        block = Block(self._offsets[index], self._lengths[index], 1)
        (stored,) = self._decoder.decode(self._file.read(block))
        if not stored.row_blocks:
            return msgspec.structs.replace(stored.table, rows=tuple(stored.table.rows))
        rows = StoredSequence(Row, self._file, stored.row_blocks)
        return msgspec.structs.replace(stored.table, rows=rows if len(rows) > _MAX_ROWS else tuple(rows))
