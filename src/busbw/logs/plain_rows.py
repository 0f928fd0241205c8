"""Columns of rows without any special figure, from which a `Row` is made when it is needed.

Most rows of a long log are plain: the data of both placements is checked and right, and nothing else is known of them.
Making a `Row` with its figures takes longer than reading its values, and storing it takes longer still.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any

from msgspec import Struct

from busbw.logs.log import Figure, Log, Row
from busbw.logs.sequences import LazySequence, SequenceOnDemand


class FigureColumns(Struct, array_like=True, frozen=True, gc=False):
    """Figures of one placement with checked and right data, by row."""

    times_us: list[float]
    algbws_gbps: list[float]
    busbws_gbps: list[float]

    def figures(self) -> Iterator[Figure]:
        """Yields the figures of the rows."""
        for time_us, algbw_gbps, busbw_gbps in zip(self.times_us, self.algbws_gbps, self.busbws_gbps, strict=True):
            yield Figure(
                time_us=time_us, algbw_gbps=algbw_gbps, busbw_gbps=busbw_gbps, check="checked", wrong_elements=0
            )

    def part(self, selected: slice) -> "FigureColumns":
        """Returns the figures of some rows."""
        return FigureColumns(*(getattr(self, name)[selected] for name in self.__struct_fields__))


class PlainColumns(Struct, array_like=True, frozen=True, gc=False):
    """Plain rows of a table as columns. The values are those of the fields of `Row`."""

    lines: list[int]
    sizes_bytes: list[int]
    counts: list[int | None]
    dtypes: list[str]
    redops: list[str | None]
    roots: list[int | None]
    cycles: list[int]
    out_of_place: FigureColumns
    in_place: FigureColumns

    def __len__(self) -> int:
        return len(self.lines)

    def part(self, selected: slice) -> "PlainColumns":
        """Returns some of the rows."""
        columns: list[Any] = [getattr(self, name) for name in self.__struct_fields__]
        parts: list[Any] = [
            column.part(selected) if isinstance(column, FigureColumns) else column[selected] for column in columns
        ]
        return PlainColumns(*parts)

    def rows(self, collective: str | None, ranks: int | None) -> Iterator[Row]:
        """Yields the rows of a table with this collective and number of ranks."""
        for line, size_bytes, count, dtype, redop, root, cycle, out_of_place, in_place in zip(
            self.lines,
            self.sizes_bytes,
            self.counts,
            self.dtypes,
            self.redops,
            self.roots,
            self.cycles,
            self.out_of_place.figures(),
            self.in_place.figures(),
            strict=True,
        ):
            yield Row(
                line=line,
                collective=collective,
                size_bytes=size_bytes,
                count=count,
                dtype=dtype,
                redop=redop,
                root=root,
                ranks=ranks,
                cycle=cycle,
                figures={"out_of_place": out_of_place, "in_place": in_place},
            )


_COLUMN_BY_FIELD = {
    "line": "lines",
    "size_bytes": "sizes_bytes",
    "count": "counts",
    "dtype": "dtypes",
    "redop": "redops",
    "root": "roots",
    "cycle": "cycles",
}
"""Columns by the fields of `Row`. Plain rows of a table share the values of all other fields except the figures."""


class PlainRows(SequenceOnDemand[Row]):
    """The rows of a table, all of which are plain."""

    def __init__(
        self, collective: str | None, ranks: int | None, count: int, load_columns: Callable[[], PlainColumns]
    ) -> None:
        """Stores the facts that the rows share. `load_columns` is called when a row or a column is needed first."""
        # The stored functions do not refer to this object: a reference cycle would keep the rows in memory for longer.
        load_once = cache(load_columns)
        super().__init__(count, lambda: tuple(load_once().rows(collective, ranks)))
        self.collective, self.ranks, self._load_columns = collective, ranks, load_once

    @property
    def columns(self) -> PlainColumns:
        """The columns of the rows."""
        return self._load_columns()

    @property
    def first_row(self) -> Row:
        """The first row. Unlike an item of this sequence, it is made without the others."""
        return next(self.columns.rows(self.collective, self.ranks))

    @property
    def have_one_configuration(self) -> bool:
        """True if the rows differ only in size and cycle."""
        columns: tuple[list[Any], ...] = (self.columns.dtypes, self.columns.redops, self.columns.roots)
        return all(column.count(column[0]) == len(column) for column in columns)

    def parts(self, max_count: int) -> "Iterator[PlainRows]":
        """Yields consecutive rows together, up to a number of them."""
        for start in range(0, len(self), max_count):
            yield _make_plain_rows(self.collective, self.ranks, self.columns.part(slice(start, start + max_count)))


def _make_plain_rows(collective: str | None, ranks: int | None, columns: PlainColumns) -> PlainRows:
    return PlainRows(collective, ranks, len(columns), lambda: columns)


class RowChunks(LazySequence[Row]):
    """Rows of a long table in chunks. A chunk is loaded whenever one of its rows is used."""

    def __init__(self, counts: Sequence[int], load_chunk: Callable[[int], Sequence[Row]]) -> None:
        """Stores the number of rows of each chunk, and the function that returns the chunk with a number from 0."""
        self._counts, self._load_chunk = counts, load_chunk

    @property
    def chunks(self) -> Iterator[Sequence[Row]]:
        """All chunks in order."""
        return map(self._load_chunk, range(len(self._counts)))

    def __len__(self) -> int:
        return sum(self._counts)

    def __iter__(self) -> Iterator[Row]:
        return chain.from_iterable(self.chunks)

    def _item(self, position: int) -> Row:
        for number, count in enumerate(self._counts):
            if position < count:
                return self._load_chunk(number)[position]
            position -= count
        raise IndexError(position)


def row_chunks(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Yields the rows of a table in parts, each of which may be `PlainRows`."""
    return rows.chunks if isinstance(rows, RowChunks) else iter((rows,))


def first_rows(rows: Sequence[Row], count: int) -> Sequence[Row]:
    """Returns the first rows of a table, up to a number: as `PlainRows` if they are a part of its first chunk."""
    first_chunk = next(row_chunks(rows))
    if isinstance(first_chunk, PlainRows) and len(first_chunk) >= min(count, len(rows)):
        return next(first_chunk.parts(count))
    return rows[:count]


def rows_with_details(rows: Sequence[Row]) -> Iterator[Row]:
    """Yields the rows of a table that may have wrong data, warnings or late ranks: all but the plain ones."""
    return chain.from_iterable(chunk for chunk in row_chunks(rows) if not isinstance(chunk, PlainRows))


_MIN_CYCLES = 4
"""With at least this many rows for each size, making only the last row of each size takes less time than making all."""


def last_rows_of_points(rows: Sequence[Row]) -> Iterator[Row]:
    """Yields rows of a table, at least the last one of each configuration and size.

    Earlier rows are omitted if that saves time. So the caller must let a later row replace an earlier one.
    """
    for chunk in row_chunks(rows):
        if isinstance(chunk, PlainRows) and chunk.have_one_configuration:
            last_indices = {size_bytes: index for index, size_bytes in enumerate(chunk.columns.sizes_bytes)}
            if _MIN_CYCLES * len(last_indices) <= len(chunk):
                for index in sorted(last_indices.values()):
                    yield from chunk.columns.part(slice(index, index + 1)).rows(chunk.collective, chunk.ranks)
                continue
        yield from chunk


def field_values(rows: Sequence[Row], field: str) -> Iterator[Any]:
    """Yields the values of a field of `Row`. A value that a chunk of plain rows shares may be yielded once."""
    for chunk in row_chunks(rows):
        if not isinstance(chunk, PlainRows):
            yield from (getattr(row, field) for row in chunk)
        elif column := _COLUMN_BY_FIELD.get(field):
            yield from getattr(chunk.columns, column)
        else:
            yield getattr(chunk.first_row, field)


def have_wrong_data(rows: Sequence[Row]) -> bool:
    """True if a row of a table has wrong data."""
    return any(figure.wrong_elements for row in rows_with_details(rows) for figure in row.figures.values())


def has_wrong_data(log: Log) -> bool:
    """True if a row of a log has wrong data."""
    return any(have_wrong_data(table.rows) for table in log.tables)


def join_rows(
    parts: Sequence[Row | PlainColumns], collective: str | None, ranks: int | None
) -> PlainRows | tuple[Row, ...]:
    """Returns the rows of a table: as `PlainRows` if some are columns and all can be plain, otherwise as a tuple."""
    if any(isinstance(part, PlainColumns) for part in parts):
        plain_parts = [part if isinstance(part, PlainColumns) else _to_columns(part) for part in parts]
        known_parts = [part for part in plain_parts if part is not None]
        if len(known_parts) == len(parts):
            return _make_plain_rows(collective, ranks, _join_columns(known_parts))
    return tuple(
        row for part in parts for row in (part.rows(collective, ranks) if isinstance(part, PlainColumns) else (part,))
    )


def join_chunks(chunks: Sequence[Sequence[Row]]) -> PlainRows | tuple[Row, ...]:
    """Returns the rows of all chunks of a table: as `PlainRows` if those of each chunk are plain."""
    plain_chunks = [chunk for chunk in chunks if isinstance(chunk, PlainRows)]
    identities = {(chunk.collective, chunk.ranks) for chunk in plain_chunks}
    if len(plain_chunks) == len(chunks) and len(identities) == 1:
        return join_rows([chunk.columns for chunk in plain_chunks], *identities.pop())
    return tuple(chain.from_iterable(chunks))


def _join_columns(parts: Sequence[PlainColumns]) -> PlainColumns:
    if len(parts) == 1:
        return parts[0]
    joined = PlainColumns([], [], [], [], [], [], [], FigureColumns([], [], []), FigureColumns([], [], []))
    for part in parts:
        _extend(joined, part)
    return joined


def _extend(columns: PlainColumns | FigureColumns, others: PlainColumns | FigureColumns) -> None:
    for name in columns.__struct_fields__:
        column, other = getattr(columns, name), getattr(others, name)
        if isinstance(column, FigureColumns):
            _extend(column, other)
        else:
            column.extend(other)


def _to_columns(row: Row) -> PlainColumns | None:
    """Returns the columns of a single row. None if it is not plain."""
    # `figures` of a plain row are out of place, then in place. In another order, the comparison below fails.
    placements = [
        FigureColumns([figure.time_us], [figure.algbw_gbps], [figure.busbw_gbps])
        for figure in row.figures.values()
        if figure.time_us is not None and figure.algbw_gbps is not None and figure.busbw_gbps is not None
    ]
    if len(placements) != 2 or row.dtype is None:
        return None
    columns = PlainColumns(
        [row.line], [row.size_bytes], [row.count], [row.dtype], [row.redop], [row.root], [row.cycle], *placements
    )
    is_plain = list(columns.rows(row.collective, row.ranks)) == [row]  # columns cannot hold a warning, for example
    return columns if is_plain else None
