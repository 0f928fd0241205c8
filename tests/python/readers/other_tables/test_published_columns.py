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
        ("Bytes", ("8388608", "1,073,741,824"), (8 << 20, 1 << 30)),
        ("Size in bytes (8 B to 1 GB)", ("1024", "2048"), (1024, 2048)),
    ],
)
def test_the_header_states_the_unit_of_sizes(
    tmp_path: Path, header: str, cells: tuple[str, ...], sizes: tuple[int, ...]
) -> None:
    rows = "".join(f"| {cell} | 100 |\n" for cell in cells)
    (tmp_path / "log.md").write_text(f"# all_reduce, 8x H100\n\n| {header} | time (us) |\n|---|---|\n{rows}")
    assert tuple(row.size_bytes for row in read(tmp_path / "log.md").rows) == sizes


@pytest.mark.parametrize("figure", ["72,69", "1,234", "1,5 GB/s"])
def test_a_figure_with_a_comma_that_may_be_decimal_is_refused(tmp_path: Path, figure: str) -> None:
    text = f"# all_reduce, 8x H100\n\n| Size | busbw (GB/s) |\n|---|---|\n| 1 MB | 1,234.5 |\n| 2 MB | {figure} |\n"
    (tmp_path / "log.md").write_text(text)
    log = read(tmp_path / "log.md")
    assert [row.figures["unstated"].busbw_gbps for row in log.rows] == [1234.5]
    assert [refusal.reason for refusal in log.refused] == [f'"{figure}" is not a number']


def test_a_size_with_a_decimal_comma_is_refused(tmp_path: Path) -> None:
    rows = "| 1,024 KB | 50 |\n| 1,5 MB | 60 |\n"
    (tmp_path / "log.md").write_text(f"# all_reduce, 8x H100\n\n| Size | busbw (GB/s) |\n|---|---|\n{rows}")
    log = read(tmp_path / "log.md")
    assert [row.size_bytes for row in log.rows] == [1 << 20]
    assert [refusal.reason for refusal in log.refused] == ['"1,5 MB" is not a size']


def test_sizes_in_elements_are_not_bytes() -> None:
    header = [["Size (elements)", "time (us)"]]
    assert list(parse_subtables(header, DocumentContext(), UserClaims())) == []


def test_columns_state_their_ranks(tmp_path: Path) -> None:
    header = "| Size | busbw 16 GPUs (GB/s) | busbw 4 nodes (GB/s) | busbw (GB/s) |\n|---|---|---|---|\n"
    (tmp_path / "log.md").write_text(f"# all_reduce, 8x H100\n\n{header}| 1 MB | 50 | 60 | 70 |\n")
    log = read(tmp_path / "log.md")
    assert [log.tables[0].ranks_of(row) for row in log.rows] == [16, None, 8]


@pytest.mark.parametrize("header", ["2 x 8 GPUs", "2 nodes x 8 GPUs", "8 GPUs per node", "16 GPUs"])
def test_nodes_times_gpus_are_the_ranks_of_a_column(tmp_path: Path, header: str) -> None:
    text = f"# all_reduce on 16x H100\n\n| Size | {header} algbw (GB/s) |\n|---|---|\n| 1 MB | 60 |\n"
    (tmp_path / "log.md").write_text(text)
    log = read(tmp_path / "log.md")
    assert [log.tables[0].ranks_of(row) for row in log.rows] == [16]


def test_a_speed_up_belongs_to_the_second_of_two_unknown_variants(tmp_path: Path) -> None:
    header = "| Size | busbw (GB/s) | tuned busbw (GB/s) | Speedup |\n|---|---|---|---|\n"
    (tmp_path / "log.md").write_text(f"# all_reduce, 8x H100\n\n{header}| 1 MB | 100.0 | 150.0 | 1.50x |\n")
    [table] = read(tmp_path / "log.md").tables
    assert not table.warnings
