"""Tables of other programs: a line that names columns, and a line per size."""

from pathlib import Path

import pytest
from log_wrappers import WRAPPERS

from busbw import readers
from busbw.logs.log import Log

TABLE = """size  time  algbw  busbw
4,096  10.00  0.41  0.72
32_768  11.00  2.98  5.21
1048576  20.00  52.43  91.75
2MiB  40.00  52.43  91.75
"""


def read(folder: Path, text: str) -> Log:
    file = folder / "log"
    file.write_text(text)
    return readers.read(file)


def demand_the_rows(log: Log) -> None:
    assert [refusal.reason for refusal in log.refused] == []
    assert [row.size_bytes for row in log.rows] == [4096, 32768, 1 << 20, 2 << 20]
    figures = [row.figures["unstated"] for row in log.rows]
    assert [figure.time_us for figure in figures] == [10.0, 11.0, 20.0, 40.0]
    assert [figure.algbw_gbps for figure in figures] == [0.41, 2.98, 52.43, 52.43]
    assert [figure.busbw_gbps for figure in figures] == [0.72, 5.21, 91.75, 91.75]
    assert {(row.collective, row.ranks) for row in log.rows} == {("all_reduce", 8)}


@pytest.mark.parametrize(
    "header",
    [
        "size  time  algbw  busbw",
        "# size(B)  time(us)  algbw(GB/s)  busbw(GB/s)",
        "Size (B)  Time (us)  AlgBW (GB/s)  BusBW (GB/s)",
        "bytes time algbw busbw\n(B) (us) (GB/s) (GB/s)",
    ],
)
def test_headers(tmp_path: Path, header: str) -> None:
    demand_the_rows(read(tmp_path, TABLE.replace("size  time  algbw  busbw", header)))


@pytest.mark.parametrize(
    "wrapper", ["loguru", "pdsh", "CRI", "syslog", "Docker json-file", ".ipynb", "HTML paragraphs"]
)
def test_wrappers(tmp_path: Path, wrapper: str) -> None:
    demand_the_rows(read(tmp_path, WRAPPERS[wrapper](TABLE.splitlines())))


def test_columns_in_another_order(tmp_path: Path) -> None:
    lines = [line.split() for line in TABLE.splitlines()]
    demand_the_rows(read(tmp_path, "".join(f"{size} {busbw} {algbw} {time}\n" for size, time, algbw, busbw in lines)))


def test_milliseconds(tmp_path: Path) -> None:
    """Times without a unit are those that fit bytes / algbw."""
    milliseconds = TABLE
    for time_us in ("10.00", "11.00", "20.00", "40.00"):
        milliseconds = milliseconds.replace(time_us, f"0.0{time_us[:2]}0")
    assert [row.figures["unstated"].time_us for row in read(tmp_path, milliseconds).rows] == pytest.approx(
        [10, 11, 20, 40]
    )


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("4194304  80.00", "the row has 2 columns, the header has 4"),
        ("4194304  80.00  52.43  99.75", "busbw 99.75 is not algbw 52.43 x 1.75, as in the rest of the table"),
        ("4194304  80.00  62.43  91.75", "algbw 62.43 is not 4194304 bytes / 80.00 us = 52.43 GB/s"),
        ("4194304  80,000  52.43  91.75", '"80,000" is not a number'),
    ],
)
def test_refused_rows(tmp_path: Path, row: str, reason: str) -> None:
    log = read(tmp_path, TABLE + row + "\n")
    assert [(refusal.line, refusal.reason) for refusal in log.refused] == [(6, reason)]
    assert log.candidate_rows == 5


def test_a_row_at_the_end_of_the_file_may_be_cut(tmp_path: Path) -> None:
    log = read(tmp_path, TABLE.rstrip("\n"))
    assert (len(log.rows), [refusal.line for refusal in log.refused]) == (3, [5])


def test_a_table_of_nccl_tests_ends_a_plain_table(tmp_path: Path) -> None:
    golden = Path(__file__).resolve().parents[3] / "golden" / "nccl_tests_2_19_6_single.txt"
    log = read(tmp_path, TABLE + golden.read_text())
    assert [len(table.rows) for table in log.tables] == [4, len(readers.read(golden).rows)]


def test_grouped_digits_of_nccl_tests_rows(tmp_path: Path) -> None:
    row = "1,048,576  262_144  float  sum  -1  1,020.00  1.03  1.80  0  1020.0  1.03  1.80  0\n"
    (only,) = read(tmp_path, row).rows
    assert (only.size_bytes, only.count) == (1048576, 262144)
    assert [figure.time_us for figure in only.figures.values()] == [1020, 1020]
