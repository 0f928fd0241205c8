"""Tests of the header of published tables."""

from pathlib import Path

import pytest

from busbw.readers import read
from busbw.readers.other_tables.published_columns import parse_subtables
from busbw.readers.tables.context import DocumentContext
from busbw.readers.tables.events import UserClaims


@pytest.mark.parametrize(
    ("header", "placement"),
    [
        ("Latency (us)", "unstated"),
        ("In-place latency (us)", "in_place"),
        ("Latency of in-place (us)", "in_place"),
        ("Out-of-place latency (us)", "out_of_place"),
        ("Latency of out of place (us)", "out_of_place"),
    ],
)
def test_header_states_placement(header: str, placement: str) -> None:
    (subtable,) = parse_subtables([["Message Size", header]], DocumentContext(), UserClaims())
    assert [column.placement for column in subtable.columns] == [placement]


@pytest.mark.parametrize(
    ("header", "cells", "sizes"),
    [
        ("Size (MB)", ("1", "16 ", "**1024**"), (1 << 20, 16 << 20, 1 << 30)),
        ("Message size [KiB]", ("0.5", "4 MB", "64 B"), (512, 4 << 20, 64)),
        ("Size", ("8", "1K", "1 GB"), (8, 1 << 10, 1 << 30)),
        ("Size (bytes)", ("8", "1,024", "2048"), (8, 1024, 2048)),
    ],
)
def test_the_header_states_the_unit_of_sizes(
    tmp_path: Path, header: str, cells: tuple[str, ...], sizes: tuple[int, ...]
) -> None:
    rows = "".join(f"| {cell} | 100 |\n" for cell in cells)
    (tmp_path / "log.md").write_text(f"# all_reduce, 8x H100\n\n| {header} | time (us) |\n|---|---|\n{rows}")
    assert tuple(row.size_bytes for row in read(tmp_path / "log.md").rows) == sizes
