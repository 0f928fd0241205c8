"""Tables with one placement: rccl-tests with -O 0 prints only in place; other programs name no placement."""

from pathlib import Path

import pytest

from busbw.readers import read

COLUMNS = "#       size         count      type   redop    root     time   algbw   busbw #wrong"
UNITS = "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)      "
ROWS = """\
     1048576        262144     float     sum      -1    49.49   21.19   37.08      0
  1073741824     268435456     float     sum      -1   5829.1  184.20  322.35      2
"""
NAME = "# " + 48 * " " + "          in-place          \n"


def test_rows_and_their_placement(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(f"{NAME}{COLUMNS}\n{UNITS}\n{ROWS}# Out of bounds values : 2 FAILED\n")
    log = read(tmp_path / "log")
    assert not log.refused
    assert [(row.collective, row.ranks, list(row.figures)) for row in log.rows] == [("all_reduce", 8, ["in_place"])] * 2
    figures = [row.figures["in_place"] for row in log.rows]
    assert [(figure.time_us, figure.algbw_gbps, figure.busbw_gbps, figure.wrong_elements) for figure in figures] == [
        (49.49, 21.19, 37.08, 0),
        (5829.1, 184.20, 322.35, 2),
    ]


def test_a_table_that_is_cut_still_is_refused(tmp_path: Path) -> None:
    cut_name = "# " + 48 * " " + "          out-of-place        \n"
    (tmp_path / "log").write_text(f"{cut_name}{COLUMNS}\n{UNITS}\n{ROWS}")
    log = read(tmp_path / "log")
    assert not log.rows
    assert [refusal.line for refusal in log.refused] == [4, 5]


def test_two_placements_after_a_table_with_one(tmp_path: Path) -> None:
    both = f"{COLUMNS}     time   algbw   busbw #wrong\n{UNITS}      (us)  (GB/s)  (GB/s)\n"
    row = ROWS.partition("\n")[0] + "    48.00   21.85   38.23      0\n"
    (tmp_path / "log").write_text(f"{NAME}{COLUMNS}\n{UNITS}\n{ROWS}# Avg bus bandwidth    : 179.715\n#\n{both}{row}")
    log = read(tmp_path / "log")
    assert not log.refused
    assert [list(row.figures) for row in log.rows] == [["in_place"], ["in_place"], ["out_of_place", "in_place"]]


@pytest.mark.parametrize("has_wrong_column", [True, False])
def test_a_header_with_one_unnamed_placement(tmp_path: Path, has_wrong_column: bool) -> None:
    columns = COLUMNS if has_wrong_column else COLUMNS.removesuffix(" #wrong")
    rows = ROWS if has_wrong_column else "".join(f"{line[:-6]}\n" for line in ROWS.splitlines())
    (tmp_path / "log").write_text(f"{columns}\n{UNITS}\n{rows}# Out of bounds values : 2 FAILED\n{columns}\n{rows}")
    log = read(tmp_path / "log")
    assert not log.refused
    assert [(row.line, row.collective, row.ranks, list(row.figures)) for row in log.rows] == [
        (line, "all_reduce", 8, ["unstated"]) for line in (3, 4, 7, 8)
    ]
    wrong = [row.figures["unstated"].wrong_elements for row in log.rows]
    assert wrong == ([0, 2] * 2 if has_wrong_column else [None] * 4)
    assert [row.figures["unstated"].busbw_gbps for row in log.rows] == [37.08, 322.35] * 2


def test_a_wrapped_header_of_two_placements(tmp_path: Path) -> None:
    lines = f"{COLUMNS}     time   algbw   busbw #wrong\n"
    lines += ROWS.partition("\n")[0] + "    48.00   21.85   38.23      0\n"
    width = len(COLUMNS)
    wrapped = [line[start : start + width] for line in lines.splitlines() for start in range(0, len(line), width)]
    (tmp_path / "log").write_text("".join(f"{line}\n" for line in wrapped))
    log = read(tmp_path / "log")
    assert not log.refused
    assert [list(row.figures) for row in log.rows] == [["out_of_place", "in_place"]]


def test_a_row_that_is_shorter_than_its_header_of_one_placement_is_refused(tmp_path: Path) -> None:
    rows = "".join(f"{line[:-6]}\n" for line in ROWS.splitlines())
    (tmp_path / "log").write_text(f"{COLUMNS}\n{UNITS}\n{rows}")
    log = read(tmp_path / "log")
    assert not log.rows
    assert [refusal.line for refusal in log.refused] == [3, 4]
