"""The fast parser of uniform rows of CSV and the parser of single lines read every file alike."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from busbw import readers
from busbw.logs.log import Log
from busbw.logs.plain_rows import PlainRows
from busbw.readers.documents import csv_tables, table_builder, uniform_csv_rows
from busbw.readers.documents.uniform_csv_rows import CsvLine, UniformCsvParser
from busbw.readers.lines import source
from busbw.readers.lines.source import LogSource
from busbw.readers.tables.events import UserClaims

RCCL_HEADER = "numCycle,name,nodes,ranks,ranksPerNode,gpusPerRank,size,type,redop,inPlace,time,algBw,busBw,#wrong"
COUNT_HEADER = "name,gpus,size,count,type,redop,root,placement,time(us),algbw(GB/s),busbw(GB/s),errors"
AWS_HEADER = (
    "Size_Bytes,Size_KB,Count,Data_Type,Operation,Root,OOP_Time_us,OOP_AlgBW_GBps,OOP_BusBW_GBps,OOP_Errors,"
    "IP_Time_us,IP_AlgBW_GBps,IP_BusBW_GBps,IP_Errors"
)


def figures(size_bytes: int, time_us: float) -> str:
    algbw_gbps = size_bytes / time_us / 1e3
    return f"{time_us:.2f},{algbw_gbps:.2f},{1.5 * algbw_gbps:.2f},0"


def rccl_lines(number: int, size_bytes: int, time_us: float) -> list[str]:
    start = f"{number // 8},AllReduce,1,4,4,1,{size_bytes},float,sum"
    return [f"{start},{placement},{figures(size_bytes, time_us + placement)}" for placement in (0, 1)]


def count_lines(_number: int, size_bytes: int, time_us: float) -> list[str]:
    start = f"all_reduce,4,{size_bytes},{size_bytes // 4},fp32,sum,-1"
    return [f"{start},{placement},{figures(size_bytes, time_us)}" for placement in ("Out_of_place", "in_place")]


def aws_lines(_number: int, size_bytes: int, time_us: float) -> list[str]:
    start = f"{size_bytes},{size_bytes / 1024},{size_bytes // 4},float,sum,-1"
    return [f"{start},{figures(size_bytes, time_us)},{figures(size_bytes, time_us + 1)}"]


FORMATS: dict[str, Callable[[int, int, float], list[str]]] = {
    RCCL_HEADER: rccl_lines,
    COUNT_HEADER: count_lines,
    AWS_HEADER: aws_lines,
}
CELLS: tuple[str, ...] = (
    "",
    " ",
    "0",
    "1",
    "2",
    "-1",
    "3",
    "007",
    "1e3",
    "N/A",
    "nan",
    "-0.0",
    "7.123",
    "half",
    "none",
    "AllGather",
)
CELLS += ("8", '"8"', '"', '"1,5"', " 8", "8 ", "\u0663", "\ufeff", "\0", "\r", "x\ry", "\x1c", "9" * 18, "9" * 19)
LINES = ("", " ", ",", "# a remark", '"', "\r", "x" * 40, RCCL_HEADER)


def set_cell(lines: list[str], index: int, column: int, cell: str) -> None:
    cells = lines[index].split(",")
    cells[column % len(cells)] = cell
    lines[index] = ",".join(cells)


@st.composite
def files(draw: st.DrawFn) -> str:
    """Files of uniform rows with a few damages of cells and lines."""
    header, make_lines = draw(st.sampled_from(sorted(FORMATS.items())))
    sizes = draw(st.lists(st.sampled_from([8, 1 << 12, 1 << 20, 1 << 28]), min_size=1, max_size=40))
    lines = [line for number, size in enumerate(sizes) for line in make_lines(number, size, draw(st.floats(1, 1e5)))]
    for _ in range(draw(st.integers(0, 4))):
        index, other = draw(st.integers(0, len(lines) - 1)), draw(st.integers(0, len(lines) - 1))
        match draw(st.sampled_from(["cell", "cell", "cell", "insert", "cut", "copy", "swap", "delete"])):
            case "cell":
                set_cell(lines, index, draw(st.integers(0, 13)), draw(st.sampled_from(CELLS)))
            case "insert":
                lines.insert(index, draw(st.sampled_from(LINES)))
            case "cut":
                lines[index] = lines[index][: draw(st.integers(0, 60))]
            case "copy":
                lines.insert(index, lines[other])
            case "swap":
                lines[index], lines[other] = lines[other], lines[index]
            case _ if len(lines) > 1:
                del lines[index]
    line_end = draw(st.sampled_from(["\n", "\n", "\r\n"]))
    return line_end.join([header, *lines]) + draw(st.sampled_from(["", line_end]))


def split_into_single_lines(_parser: object, lines: list[CsvLine]) -> Iterator[tuple[list[CsvLine], None]]:
    yield lines, None


def read(text: str, *, block_length: int, chunk_rows: int, is_fast: bool) -> Log:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "_BLOCK_BYTES", block_length)
        patch.setattr(table_builder, "CHUNK_ROWS", chunk_rows)
        patch.setattr(uniform_csv_rows, "_MIN_ROWS", 2)
        if not is_fast:
            patch.setattr(UniformCsvParser, "split", split_into_single_lines)
        return readers.collect("log", csv_tables.stream(LogSource("log", io.BytesIO(text.encode())), UserClaims()))


def assert_read_alike(text: str, block_length: int = 1 << 16, chunk_rows: int = 20_000) -> None:
    fast, full = (
        read(text, block_length=block_length, chunk_rows=chunk_rows, is_fast=is_fast) for is_fast in (True, False)
    )
    assert fast == full
    assert repr(fast.tables) == repr(full.tables)  # 0.0 differs from -0.0


def rccl_file(*placements: str) -> str:
    """Returns a file of lines that differ only in their placement."""
    lines = rccl_lines(0, 1 << 20, 20.0)[0]
    return "\n".join([RCCL_HEADER, *(lines.replace(",sum,0,", f",sum,{placement},") for placement in placements), ""])


@settings(max_examples=150, deadline=None)
@given(files(), st.sampled_from([1, 300, 1 << 16]), st.sampled_from([3, 8, 20_000]))
@example(rccl_file(*"01" * 5 + "2"), 1 << 16, 20_000)  # a line without placement after those with both
@example(rccl_file(*"1" + "01" * 5), 1 << 16, 20_000)  # each line in place continues the row before
@example(rccl_file(*"01" * 5), 300, 3)
def test_files_are_read_alike(text: str, block_length: int, chunk_rows: int) -> None:
    assert_read_alike(text, block_length, chunk_rows)


@pytest.mark.parametrize("header", FORMATS)
@pytest.mark.parametrize("cell", CELLS, ids=repr)
def test_a_cell_of_another_form_is_read_alike(header: str, cell: str) -> None:
    for column in range(header.count(",") + 1):
        lines = [line for number in range(12) for line in FORMATS[header](number, 4096 << number, 20 + number / 7)]
        set_cell(lines, 6 + column % 2, column, cell)
        assert_read_alike("\n".join([header, *lines, ""]))


@pytest.mark.parametrize("header", FORMATS)
@pytest.mark.parametrize("column", range(14))
def test_a_file_without_a_column_is_read_alike(header: str, column: int) -> None:
    lines = [line for number in range(12) for line in FORMATS[header](number, 4096 << number, 20.0)]
    cells = [line.split(",") for line in (header, *lines)]
    text = "\n".join(",".join(words[:column] + words[column + 1 :]) for words in cells)
    assert_read_alike(text)


@pytest.mark.parametrize("header", FORMATS)
def test_uniform_rows_are_kept_as_columns(tmp_path: Path, header: str) -> None:
    lines = [FORMATS[header](number, 4096 << number, 20.0) for number in range(16)]
    path = tmp_path / "log.csv"
    path.write_text("\n".join([header, *(line for row in lines for line in row), ""]))
    [chunk] = [event for event in readers.stream(path) if isinstance(event, readers.TableChunk)]
    assert isinstance(chunk.table.rows, PlainRows)
    assert [row.line for row in chunk.table.rows] == [2 + number * len(lines[0]) for number in range(16)]
    assert {(row.collective, row.ranks, row.dtype, row.redop) for row in chunk.table.rows} == {
        ("all_reduce", 4, "float", "sum")
    }
