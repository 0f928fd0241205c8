"""A row with an invalid field is refused, wherever it stands in its table. It is never lost."""

import json
from pathlib import Path
from typing import Any

import pytest

from busbw import readers
from busbw.logs.log import Log

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
LINES = (GOLDEN / "nccl_tests_2_19_6_single.txt").read_text().splitlines()
ROW_LINES = [index for index, line in enumerate(LINES) if " float " in line]
DOCUMENT = json.loads((GOLDEN / "logs" / "h200_x4_iter.json").read_text())


def read(folder: Path, text: str) -> Log:
    file = folder / "log"
    file.write_text(text)
    return readers.read(file)


def read_changed(folder: Path, line: int, changes: dict[int, str]) -> Log:
    """Reads the log with other words in one row."""
    lines = list(LINES)
    words = lines[line].split()
    for index, word in changes.items():
        words[index] = word
    lines[line] = "  ".join(words)
    return read(folder, "".join(f"{line}\n" for line in lines))


@pytest.mark.parametrize("row", [0, 12, -1])
@pytest.mark.parametrize("word", ["-32", "+32", "1G", "0x20", "1e6", "32.5", "N/A", "9" * 19, "9" * 5000, "9" * 25_000])
@pytest.mark.parametrize("column", [0, 1])
def test_an_invalid_size_or_count_is_refused(tmp_path: Path, column: int, word: str, row: int) -> None:
    line = ROW_LINES[row]
    log = read_changed(tmp_path, line, {column: word})
    assert [refusal.line for refusal in log.refused] == [line + 1]
    assert len(log.rows) == len(ROW_LINES) - 1


def test_an_invalid_size_without_a_header_is_refused(tmp_path: Path) -> None:
    log = read(tmp_path, LINES[ROW_LINES[0]].replace(" 8 ", " -8 ", 1) + "\n")
    assert [refusal.line for refusal in log.refused] == [1]


@pytest.mark.parametrize("grouped", [",", ".", "'"])
def test_rows_of_another_language_are_refused(tmp_path: Path, grouped: str) -> None:
    """A decimal comma in the figures, and grouped digits in sizes and counts."""
    lines = list(LINES)
    for index in ROW_LINES:
        words = lines[index].replace(".", ",").split()
        words[:2] = [f"{int(word):,}".replace(",", grouped) for word in words[:2]]
        lines[index] = "  ".join(words)
    log = read(tmp_path, "".join(f"{line}\n" for line in lines))
    assert log.rows == ()
    assert [refusal.line for refusal in log.refused] == [index + 1 for index in ROW_LINES]


@pytest.mark.parametrize("word", ["inf", "-inf", "nan", "-nan"])
@pytest.mark.parametrize(("column", "name"), [(5, "time"), (6, "algbw"), (7, "busbw"), (9, "time"), (11, "busbw")])
def test_a_figure_that_is_not_finite_is_refused(tmp_path: Path, column: int, name: str, word: str) -> None:
    log = read_changed(tmp_path, ROW_LINES[20], {column: word})
    reasons = [refusal.reason for refusal in log.refused]
    assert reasons == [f'the {name} is "{word}", which is no measured value']
    assert len(log.rows) == len(ROW_LINES) - 1


@pytest.mark.parametrize("word", ["N/A", "inf", "nan"])
def test_a_row_without_numbers_is_refused(tmp_path: Path, word: str) -> None:
    log = read_changed(tmp_path, ROW_LINES[20], dict.fromkeys((5, 6, 7, 9, 10, 11), word))
    assert [refusal.reason for refusal in log.refused] == ["none of its times and bandwidths is a number"]


def test_a_placement_without_numbers_is_missing(tmp_path: Path) -> None:
    log = read_changed(tmp_path, ROW_LINES[20], dict.fromkeys((9, 10, 11, 12), "N/A"))
    assert log.refused == ()
    assert [list(row.figures) for row in log.rows if len(row.figures) == 1] == [["out_of_place"]]


@pytest.mark.parametrize("size", ["-1048576", "1Q", "9" * 5000])
def test_an_invalid_size_in_a_plain_table_is_refused(tmp_path: Path, size: str) -> None:
    text = f"size time algbw busbw\n{size} 11.96 87.67 153.43\n2097152 17.45 120.18 210.32\n"
    log = read(tmp_path, text)
    assert [(refusal.line, refusal.reason) for refusal in log.refused] == [(2, f'"{size[:40]}" is not a size')]
    assert len(log.rows) == 1


def test_an_invalid_size_in_a_table_without_types_is_refused(tmp_path: Path) -> None:
    text = (
        "# size count time algbw busbw #wrong time algbw busbw #wrong\n"
        "-1048576 262144 11.96 87.67 153.43 0 12.50 83.89 146.80 0\n"
        "2097152 524288 17.45 120.18 210.32 0 18.00 116.51 203.89 0\n"
    )
    log = read(tmp_path, text)
    assert [refusal.line for refusal in log.refused] == [2]
    assert len(log.rows) == 1


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"size": -5}, '"-5" is not a size'),
        ({"size": "1G"}, '"1G" is not a size'),
        ({"count": -5}, '"-5" is not a count'),
        ({"count": 12.5}, '"12.5" is not a count'),
        ({"out_of_place": None, "in_place": None}, "the row has no figures"),
    ],
)
def test_an_invalid_row_of_a_document_is_refused(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    rows = [*DOCUMENT["results"]]
    rows[1] = rows[1] | changes
    log = read(tmp_path, json.dumps(DOCUMENT | {"results": rows}))
    assert {refusal.reason for refusal in log.refused} == {reason}
    assert len(log.rows) == len(rows) - 1


def test_a_placement_of_a_document_without_numbers_is_missing(tmp_path: Path) -> None:
    rows = [*DOCUMENT["results"]]
    rows[1] = rows[1] | {"in_place": {"time": "inf", "alg_bw": "nan", "bus_bw": "nan", "nwrong": 0}}
    log = read(tmp_path, json.dumps(DOCUMENT | {"results": rows}))
    assert log.refused == ()
    assert [list(row.figures) for row in log.rows][:2] == [["out_of_place", "in_place"], ["out_of_place"]]
