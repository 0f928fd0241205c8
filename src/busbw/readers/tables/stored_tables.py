"""Collects the tables of a long log in a temporary file. Only their positions stay in memory.

A table is read whenever it is needed, and its rows only when they are used. The rows of a very long table also stay in
the file, as `_StoredRows`.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import msgspec

from busbw.logs import Row, Table
from busbw.readers.tables.events import TableChunk
from busbw.readers.tables.plain_rows import PlainColumns, PlainRows
from busbw.sequences import Extent, ItemFile, LazySequence, SequenceOnDemand, StoredSequence

_MAX_ROWS = 20_000
"""Maximum number of rows of a table that become a tuple when they are used."""
_EXTENT_BYTES = 1 << 16
"""Length of the encoded tables, with their plain rows, that are written together."""
_EXTENTS_IN_MEMORY = 4
"""Number of extents that stay in memory. If several processes wrote the log, tables of adjacent extents take turns."""


class _StoredPlainRows(msgspec.Struct, array_like=True):
    collective: str | None
    ranks: int | None
    count: int
    columns: msgspec.Raw
    """Encoded `PlainColumns`. They are decoded when they are needed."""


class _RowExtent(msgspec.Struct, array_like=True):
    """Place of consecutive rows in the file."""

    extent: Extent
    row_count: int
    is_plain: bool
    """True if the only item there is `_StoredPlainRows`. False if its items are rows."""


class _StoredTable(msgspec.Struct, array_like=True):
    table: Table
    """The table without its rows."""
    row_extents: list[_RowExtent]
    """Places of the rows. Empty if `plain_rows` has them."""
    plain_rows: _StoredPlainRows | None


_COLUMNS_DECODER = msgspec.msgpack.Decoder(PlainColumns)
_PLAIN_ROWS_DECODER = msgspec.msgpack.Decoder(list[_StoredPlainRows])


def _store_plain_rows(rows: PlainRows) -> _StoredPlainRows:
    columns = msgspec.Raw(msgspec.msgpack.encode(rows.columns))
    return _StoredPlainRows(rows.collective, rows.ranks, len(rows), columns)


def _load_plain_rows(stored: _StoredPlainRows) -> PlainRows:
    return PlainRows(stored.collective, stored.ranks, stored.count, lambda: _COLUMNS_DECODER.decode(stored.columns))


class _StoredRows(LazySequence[Row]):
    """Rows of a table in a file. They are appended at first and then only read."""

    def __init__(self, file: ItemFile, extents: Iterable[_RowExtent] = ()) -> None:
        self._file = file
        self.extents = list(extents)

    def extend(self, rows: Sequence[Row]) -> None:
        """Writes rows."""
        if isinstance(rows, PlainRows):
            extent = self._file.append([_store_plain_rows(rows)])
            self.extents.append(_RowExtent(extent, len(rows), is_plain=True))
            return
        stored = StoredSequence(Row, self._file)
        stored.extend(rows)
        self.extents += [_RowExtent(extent, extent.item_count, is_plain=False) for extent in stored.flush()]

    def __len__(self) -> int:
        return sum(row_extent.row_count for row_extent in self.extents)

    def __iter__(self) -> Iterator[Row]:
        return chain.from_iterable(map(self._read, self.extents))

    def _read(self, row_extent: _RowExtent) -> Sequence[Row]:
        if not row_extent.is_plain:
            return StoredSequence(Row, self._file, [row_extent.extent])
        (stored,) = _PLAIN_ROWS_DECODER.decode(self._file.read(row_extent.extent))
        return _load_plain_rows(stored)

    def _item(self, position: int) -> Row:
        for row_extent in self.extents:
            if position < row_extent.row_count:
                return self._read(row_extent)[position]
            position -= row_extent.row_count
        raise IndexError(position)


class StoredTables(LazySequence[Table]):
    """Tables in a file, in the order of their first lines."""

    def __init__(self) -> None:
        self._file = ItemFile()
        self._decoder = msgspec.msgpack.Decoder(list[_StoredTable])
        self._open_rows: dict[int, tuple[int, _StoredRows]] = {}
        """Position and rows of each table with further chunks to come, by the table's first line."""
        self._open_tables: dict[int, Table] = {}
        """Latest chunk, without rows, of each table in `_open_rows`."""
        self._first_lines, self._written_numbers = array("q"), array("q")
        """By position: the first line of each table, and the number of tables that were written before it."""
        self._written_count = 0
        self._unwritten: list[msgspec.Raw] = []
        """Encoded tables of the next extent."""
        self._unwritten_bytes = 0
        self._extents: list[Extent] = []
        self._extent_ends = array("q")
        """Number of tables up to the end of each extent."""
        self._decoded_extents: dict[int, list[_StoredTable]] = {}
        self._order: array[int] | None = None

    def add(self, chunk: TableChunk) -> None:
        """Adds a chunk. Facts about the end of a table are in its last chunk."""
        first_line = chunk.table.first_line
        if first_line in self._open_rows:
            position, rows = self._open_rows[first_line]
        else:
            position = len(self._first_lines)
            self._first_lines.append(first_line)
            self._written_numbers.append(0)
            if chunk.is_last and isinstance(chunk.table.rows, PlainRows):  # the whole table
                self._write(position, chunk.table, [], _store_plain_rows(chunk.table.rows))
                return
            rows = _StoredRows(self._file)
        rows.extend(chunk.table.rows)
        if chunk.is_last:
            self._open_rows.pop(first_line, None)
            self._open_tables.pop(first_line, None)
            self._write(position, chunk.table, rows.extents)
        else:
            self._open_rows[first_line] = position, rows
            self._open_tables[first_line] = msgspec.structs.replace(chunk.table, rows=())

    def finish_writing(self) -> None:
        """Ends the tables that wait for further chunks, and sorts all tables. Call before any read."""
        for first_line, (position, rows) in self._open_rows.items():
            self._write(position, self._open_tables[first_line], rows.extents)
        self._open_rows, self._open_tables = {}, {}
        self._write_extent()
        positions = sorted(range(len(self._first_lines)), key=self._first_lines.__getitem__)
        self._order = array("q", map(self._written_numbers.__getitem__, positions))

    def _write(
        self, position: int, table: Table, row_extents: list[_RowExtent], plain_rows: _StoredPlainRows | None = None
    ) -> None:
        self._written_numbers[position] = self._written_count
        self._written_count += 1
        stored = _StoredTable(msgspec.structs.replace(table, rows=()), row_extents, plain_rows)
        encoded = msgspec.msgpack.encode(stored)
        self._unwritten.append(msgspec.Raw(encoded))
        self._unwritten_bytes += len(encoded)
        if self._unwritten_bytes > _EXTENT_BYTES:
            self._write_extent()

    def _write_extent(self) -> None:
        if self._unwritten:
            self._extents.append(self._file.append(self._unwritten))
            self._extent_ends.append(self._written_count)
            self._unwritten, self._unwritten_bytes = [], 0

    def __len__(self) -> int:
        return len(self._first_lines)

    def __iter__(self) -> Iterator[Table]:
        return map(self._item, range(len(self)))

    def _item(self, position: int) -> Table:
        assert self._order is not None  # `finish_writing` was called
        written_number = self._order[position]
        extent_number = bisect_right(self._extent_ends, written_number)
        start = self._extent_ends[extent_number - 1] if extent_number else 0
        stored = self._read_extent(extent_number)[written_number - start]
        return msgspec.structs.replace(stored.table, rows=self._rows_of(stored))

    def _rows_of(self, stored: _StoredTable) -> Sequence[Row]:
        if stored.plain_rows:
            return _load_plain_rows(stored.plain_rows)
        rows = _StoredRows(self._file, stored.row_extents)
        return rows if len(rows) > _MAX_ROWS else SequenceOnDemand(len(rows), lambda: tuple(rows))

    def _read_extent(self, number: int) -> list[_StoredTable]:
        """Returns the tables of an extent."""
        if number not in self._decoded_extents:
            if len(self._decoded_extents) == _EXTENTS_IN_MEMORY:
                self._decoded_extents.clear()
            self._decoded_extents[number] = self._decoder.decode(self._file.read(self._extents[number]))
        return self._decoded_extents[number]
