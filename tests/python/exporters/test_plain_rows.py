"""Columns of rows give the same results as single rows, and the cells of CSV are those of Python's `csv`."""

import csv
import io
from itertools import chain
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_logs import table

from busbw.exporters import csv_table, flat
from busbw.logs.log import Figure, Log, Rank, Row
from busbw.logs.plain_rows import (
    FigureColumns,
    PlainColumns,
    PlainRows,
    RowChunks,
    field_values,
    first_rows,
    have_wrong_data,
    join_rows,
    last_rows_of_points,
    rows_with_details,
)

NUMBERS = st.floats(0, 1e9) | st.sampled_from([0.0, -0.0, 1.0, 12.5])
TEXTS = st.none() | st.text() | st.sampled_from(["", " ", '"', ",", "a\nb", "\r", "=1", "sum", "-"])
COUNTS = st.none() | st.integers(0, 1 << 62)
RANKS = tuple(Rank(rank=rank, host=f"node,{rank}") for rank in range(4))


@st.composite
def plain_rows(draw: st.DrawFn) -> PlainRows:
    count = draw(st.integers(1, 12))

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        shared = st.builds(lambda value: [value] * count, values)
        return draw(shared | st.lists(values, min_size=count, max_size=count))

    placements = [FigureColumns(column(NUMBERS), column(NUMBERS), column(NUMBERS)) for _ in range(2)]
    columns = PlainColumns(
        column(st.integers(1, 1 << 40)),
        column(st.integers(0, 1 << 40)),
        column(COUNTS),
        column(st.text(max_size=5)),
        column(TEXTS),
        column(COUNTS),
        column(st.integers(0, 3)),
        *placements,
    )
    rows = join_rows([columns], draw(TEXTS), draw(st.none() | st.integers(1, 8)))
    assert isinstance(rows, PlainRows)
    return rows


def log_of(rows: object, *, has_ranks: bool = True) -> Log:
    ranks = RANKS if has_ranks else ()
    return Log(source="a,log", tables=(msgspec.structs.replace(table(), rows=rows, rank_list=ranks, ranks=None),))


@given(chunks=st.lists(plain_rows(), min_size=1, max_size=3), has_ranks=st.booleans(), block_rows=st.integers(1, 15))
def test_columns_are_flattened_as_rows(chunks: list[PlainRows], has_ranks: bool, block_rows: int) -> None:
    chunked = RowChunks(list(map(len, chunks)), chunks.__getitem__)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flat, "_BLOCK_ROWS", block_rows)
        blocks = list(flat.column_blocks([log_of(chunked, has_ranks=has_ranks)]))
    expected = list(flat.flat_rows([log_of(tuple(chain.from_iterable(chunks)), has_ranks=has_ranks)]))
    assert [tuple(block) for block in blocks] == [flat.COLUMNS] * len(blocks)
    assert [flat.FlatRow(*values) for block in blocks for values in zip(*block.values(), strict=True)] == expected


@given(rows=plain_rows(), awkward=TEXTS)
def test_csv_is_that_of_the_csv_module(rows: PlainRows, awkward: str | None) -> None:
    log = log_of((*rows, Row(line=1, size_bytes=8, variant=awkward, figures=rows[0].figures)))
    out, expected = io.BytesIO(), io.StringIO(newline="")
    csv_table.write([log], out)
    writer = csv.writer(expected)
    writer.writerow(flat.COLUMNS)
    for row in flat.flat_rows([log]):
        values = msgspec.structs.astuple(row)
        writer.writerow([csv_table._escape_formula(v) if isinstance(v, str) else v for v in values])
    assert out.getvalue() == expected.getvalue().encode(errors="replace")


@given(rows=plain_rows(), size=st.integers(1, 15))
def test_parts_have_all_rows_in_order(rows: PlainRows, size: int) -> None:
    parts = list(rows.parts(size))
    assert list(chain.from_iterable(parts)) == list(rows)
    assert [len(part) for part in parts[:-1]] == [size] * (len(parts) - 1)
    assert rows.first_row == rows[0]


@given(chunks=st.lists(plain_rows(), min_size=1, max_size=3))
def test_questions_to_columns_have_the_answers_of_rows(chunks: list[PlainRows]) -> None:
    rows = tuple(chain.from_iterable(chunks))
    chunked = RowChunks(list(map(len, chunks)), chunks.__getitem__)
    for field in Row.__struct_fields__:
        if field != "figures":
            assert set(field_values(chunked, field)) == {getattr(row, field) for row in rows}
    last_rows = {(row.configuration, row.size_bytes): row for row in last_rows_of_points(chunked)}
    assert last_rows == {(row.configuration, row.size_bytes): row for row in rows}
    assert not list(rows_with_details(chunked))
    other = Row(line=1, size_bytes=8, figures={"in_place": Figure(wrong_elements=1)})
    assert list(rows_with_details((other,))) == [other]
    assert (have_wrong_data(chunked), have_wrong_data((other,))) == (False, True)
    assert tuple(first_rows(chunked, 5)) == rows[:5]


def test_rows_are_made_together_if_each_is_the_last_of_its_point(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = FigureColumns([1.0] * 3, [1.0] * 3, [1.0] * 3)
    columns = PlainColumns(
        [1, 2, 3], [8, 16, 32], [None] * 3, ["float"] * 3, [None] * 3, [None] * 3, [0] * 3, *[figures] * 2
    )
    rows = join_rows([columns], "all_reduce", 8)
    monkeypatch.delattr(PlainColumns, "part")  # makes the columns of a single row
    assert tuple(last_rows_of_points(rows)) == rows
