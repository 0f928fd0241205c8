"""CSV with other columns than rccl-tests and AWS's converter write, and lines that do not fit their header."""

from pathlib import Path

import pytest

from busbw.readers import read

HEADER = "name,gpus,size,type,redop,time,algbw,busbw"
LINES = (
    "all_reduce,8,1048576,float,sum,25.00,41.94,73.40",
    "all_reduce,8,2097152,float,sum,30.00,69.91,122.33",
    "all_reduce,8,4194304,float,sum,40.00,104.86,183.50",
)


def write(folder: Path, *lines: str) -> Path:
    file = folder / "log.csv"
    file.write_text("".join(f"{line}\n" for line in lines))
    return file


@pytest.mark.parametrize("end", [",104.86,183.50,0", ",104.86", ",104", ""])
def test_a_line_with_another_number_of_columns_is_refused(tmp_path: Path, end: str) -> None:
    log = read(write(tmp_path, HEADER, *LINES[:2], LINES[2].rpartition(",104.86")[0] + end))
    assert [row.size_bytes for row in log.rows] == [1 << 20, 2 << 20]
    (refusal,) = log.refused
    assert refusal.line == 4
    assert "columns, the header has 8" in refusal.reason


def test_empty_columns_at_the_end_of_a_line_are_ignored(tmp_path: Path) -> None:
    log = read(write(tmp_path, HEADER, *(f"{line},, " for line in LINES)))
    assert (len(log.rows), log.refused) == (3, ())


def test_a_comma_at_the_end_of_the_header_is_ignored(tmp_path: Path) -> None:
    log = read(write(tmp_path, f"{HEADER},", *LINES))
    assert (len(log.rows), log.refused) == (3, ())


@pytest.mark.parametrize("name", ["time_ms", "Time (ms)", "timems"])
@pytest.mark.parametrize("has_algbw", [True, False])
def test_times_in_milliseconds(tmp_path: Path, name: str, has_algbw: bool) -> None:
    lines = [f"{line.rsplit(',', 3)[0]},{int(line.split(',')[5][:2]) / 1e3},{line.split(',', 6)[6]}" for line in LINES]
    header = HEADER.replace("time", name)
    if not has_algbw:
        header = header.replace(",algbw", "")
        lines = [",".join([*line.split(",")[:6], line.split(",")[7]]) for line in lines]
    log = read(write(tmp_path, header, *lines))
    assert log.refused == ()
    assert [row.figures["unstated"].time_us for row in log.rows] == pytest.approx([25.0, 30.0, 40.0])
    assert log.tables[0].warnings == ()
