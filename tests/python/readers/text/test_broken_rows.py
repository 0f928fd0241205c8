"""Lines that look like a row but are none are recognized by their words."""

import pytest

from busbw.readers.text.broken_rows import reject_broken_row

NO_TYPE = '"quad" is not an element type'
NO_SIZE = "it does not begin with a size and a count"


@pytest.mark.parametrize(
    ("line", "in_table", "elsewhere"),
    [
        ("8 2 quad sum -1 9.85 0.10 0.15 0 9.85 0.10 0.15 0", NO_TYPE, ""),
        ("8 x float sum -1 9.85 0.10 0.15 0 9.85 0.10 0.15 0", NO_SIZE, NO_SIZE),
        ("x float 9.85 0.10 0.15 a", NO_SIZE, ""),
        ("1.024 256 float sum -1 1.009,85 0,10 0,15 0 1.009,85 0,10 0,15 0", NO_SIZE, NO_SIZE),
        ("# 8 2 quad sum -1 9.85 0.10 0.15 0 9.85 0.10 0.15 0", "", ""),
        ("8 2 quad 9.85 0.10", "", ""),
        ("step 12 of 400 loss 2.0012 lr 0.0003 tokens 412123 float", "", ""),
    ],
)
def test_a_line_that_looks_like_a_row(line: str, in_table: str, elsewhere: str) -> None:
    assert reject_broken_row(line.split(), is_in_table=True) == in_table
    assert reject_broken_row(line.split(), is_in_table=False) == elsewhere
