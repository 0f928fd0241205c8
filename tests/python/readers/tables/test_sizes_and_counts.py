"""A size that is no multiple of the bytes of its count is damaged, even if the bandwidth is too small to show it."""

from pathlib import Path

import pytest

from busbw.logs.log import Log
from busbw.readers import read

HEADER = """\
# Collective test starting: all_gather_perf
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
"""
ROWS = """\
          32             1     float    none      -1    34.10    0.00    0.00      0    33.90    0.00    0.00      0
          64             2     float    none      -1    34.20    0.00    0.00      0    34.00    0.00    0.00      0
         128             4     float    none      -1    34.30    0.00    0.00      0    34.10    0.00    0.00      0
  1073741824      33554432     float    none      -1   5000.0  214.75  187.90      0   5000.0  214.75  187.90      0
"""


def read_text(folder: Path, text: str) -> Log:
    (folder / "log").write_text(text)
    return read(folder / "log")


@pytest.mark.parametrize("copies", [1, 20])
@pytest.mark.parametrize(
    ("printed", "damaged"),
    [
        ("          32             1 ", "           3             1 "),
        ("         128             4 ", "          18             4 "),
        ("         128             4 ", "         128            47 "),
        ("  1073741824      33554432 ", "  1073741924      33554432 "),
    ],
)
def test_a_damaged_size_or_count_is_refused(tmp_path: Path, printed: str, damaged: str, copies: int) -> None:
    text = HEADER + copies * ROWS
    assert printed in text
    log = read_text(tmp_path, text.replace(printed, damaged, 1))
    assert len(log.rows) == 4 * copies - 1
    (refusal,) = log.refused
    assert "is not a multiple of the bytes of" in refusal.reason
    assert {(row.collective, row.ranks) for row in log.rows} == {("all_gather", 8)}


def test_sizes_of_alltoallv_are_no_multiples_of_the_count(tmp_path: Path) -> None:
    header = HEADER.replace("all_gather", "alltoallv")
    rows = ROWS.replace("         128 ", "         132 ")
    log = read_text(tmp_path, header + rows)
    assert not log.refused
    assert len(log.rows) == 4
