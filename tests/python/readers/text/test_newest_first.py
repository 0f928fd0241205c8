"""Logs that a log service exports with the newest line first: their rows belong to the header below them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from busbw import readers
from busbw.logs.log import Log

GOLDEN = Path(__file__).resolve().parents[3] / "golden"
PATHS = [GOLDEN / "nccl_tests_2_19_6_nccl.txt", GOLDEN / "nccl_tests_2_19_6_ten.txt", *(GOLDEN / "logs").glob("*.txt")]
EXPORTS: dict[str, Callable[[int, str], str]] = {
    "lines": lambda index, line: line,
    "time stamps": lambda index, line: f"2026-11-26T10:{index // 60:02}:{index % 60:02}Z {line}",
    "Kibana": lambda index, line: f'"Nov 26, 2026 @ 10:{index // 60:02}:{index % 60:02}.000",{line},gpu012',
    "JSON": lambda index, line: json.dumps({"timestamp": 1_764_150_000 + index, "message": line}),
}


def read(folder: Path, text: str) -> Log:
    file = folder / "log"
    file.write_text(text)
    return readers.read(file)


@pytest.mark.parametrize("export", EXPORTS)
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_rows_above_their_header_are_refused(tmp_path: Path, path: Path, export: str) -> None:
    lines = [EXPORTS[export](index, line) for index, line in enumerate(path.read_text().splitlines())]
    expected_count = len(readers.read(path).rows)
    assert len(read(tmp_path, "\n".join(lines) + "\n").rows) == expected_count
    log = read(tmp_path, "\n".join(reversed(lines)) + "\n")
    assert log.rows == ()
    assert len(log.refused) == expected_count
    assert {refusal.reason for refusal in log.refused} == {
        "it stands above its header: the log is newest first; sort it by time"
    }


def test_rows_without_a_header_from_the_largest_size_are_one_pass(tmp_path: Path) -> None:
    rows = [line for line in (GOLDEN / "logs" / "h200_x4_sweep_c1.txt").read_text().splitlines() if " float " in line]
    log = read(tmp_path, "\n".join(reversed(rows)) + "\n")
    assert log.refused == ()
    assert len(log.rows) == len(rows)
    assert {row.cycle for row in log.rows} == {0}


def test_passes_of_an_excerpt_stay_passes(tmp_path: Path) -> None:
    rows = [line for line in (GOLDEN / "logs" / "h200_x4_sweep_c1.txt").read_text().splitlines() if " float " in line]
    log = read(tmp_path, "\n".join([*rows[-3:], *rows[-3:]]) + "\n")
    assert [row.cycle for row in log.rows] == [0, 0, 0, 1, 1, 1]


def test_an_excerpt_above_another_table_is_read(tmp_path: Path) -> None:
    """Rows without a header, in the usual order, and then a table."""
    lines = (GOLDEN / "logs" / "h200_x4_sweep_c1.txt").read_text().splitlines()
    rows = [line for line in lines if " float " in line]
    log = read(tmp_path, "\n".join([*rows, *lines]) + "\n")
    assert [len(table.rows) for table in log.tables] == [len(rows), len(rows)]


def test_an_invalid_row_does_not_hide_that_a_log_is_newest_first(tmp_path: Path) -> None:
    lines = (GOLDEN / "logs" / "h200_x4_sweep_c1.txt").read_text().splitlines()
    rows = [line for line in lines if " float " in line]
    (columns,) = (line for line in lines if "#wrong" in line)
    invalid = "0 0 float sum -1 1 0.00 0.00 0 -1 0.00 0.00 0"
    log = read(tmp_path, "\n".join([*reversed(rows[-3:]), invalid, *reversed(rows[:3]), columns]) + "\n")
    assert log.rows == ()
    assert len(log.refused) == 7
