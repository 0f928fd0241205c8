"""Tests how readers report the end of a run: complete, complete but wrong or slow, failed, or stopped."""

import json
from pathlib import Path
from typing import Any

import pytest

from busbw import readers
from busbw.logs.log import Table
from busbw.readers import UserClaims

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
HEAD = """\
# nccl-tests version 2.19.6 nccl-headers=22809 nccl-library=22809
# Collective test starting: all_reduce_perf
# nThread 4 nGpus 1 minBytes 8 maxBytes 1048576 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0 unalign: 0
#
# Using devices
#  Rank  0 Group  0 Pid   1463 on         vm device  0 [0000:0f:00] NVIDIA H200
#
#                                                              out-of-place                       in-place          
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong 
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         
     1048576        262144     float     sum      -1    16.00   65.54   98.30       0    32.00   32.77   49.15       0
"""  # noqa: E501, W291  # nccl-tests' own
FOOTER = """\
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 73.725 
#
# Collective test concluded: all_reduce_perf
#

"""  # noqa: W291  # nccl-tests' own


def the_table(folder: Path, text: str, name: str = "log") -> Table:
    file = folder / name
    file.write_text(text)
    log = readers.read(file, UserClaims())
    assert log.refused == ()
    assert len(log.tables) == 1
    return log.tables[0]


@pytest.mark.parametrize(
    "behind",
    [
        "",
        "# Test failure: wrong data in 12 elements\n",
        "# Test failure: slower than demanded: the average busbw is 1.00 GB/s, below 0.9 x NCCL_TESTS_MIN_BW=2\n",
        " .. vm pid 1463: Test failure common.cu:1401\n .. vm pid 1463: Test failure common.cu:1221\n",
    ],
)
def test_a_footer_means_a_complete_run(tmp_path: Path, behind: str) -> None:
    table = the_table(tmp_path, HEAD + FOOTER + behind)
    assert (table.complete, table.end_reason, len(table.rows)) == (True, None, 1)


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("# Run ended early: interrupted\n# error: interrupted\n", "interrupted"),
        ("# Run ended early: rank lost\n# error: rank 3 died\n# Test failure: Test timeout\n", "rank lost"),
        ("# Run ended early: interrupted\n" + FOOTER, "interrupted"),  # as it once was
        ("vm: Test NCCL failure common.cu:99 'unhandled / '\n .. vm pid 1: Test failure a.cu:1\n", "Test NCCL failure"),
        ("# Test failure: environment\n", "Test failure: environment"),
    ],
)
def test_no_footer_means_an_early_end(tmp_path: Path, end: str, reason: str) -> None:
    table = the_table(tmp_path, HEAD + end)
    assert table.complete is False
    assert table.end_reason is not None
    assert table.end_reason.startswith(reason)
    assert len(table.rows) == 1


def test_engine_footer(tmp_path: Path) -> None:
    first, second = readers.read(GOLDEN / "text_ended_early.txt", UserClaims()).tables
    assert [(table.complete, table.end_reason) for table in (first, second)] == [
        (False, "interrupted"),
        (False, "rank lost"),
    ]
    (wrong,) = readers.read(GOLDEN / "text_wrong_data.txt", UserClaims()).tables
    assert (wrong.complete, wrong.end_reason, wrong.claimed_out_of_bounds) == (True, None, 4)


@pytest.mark.parametrize(("out", "into"), [("out-of-place", "in-place"), ("out of place", "in place")])
def test_lines_after_rows_in_both_spellings(tmp_path: Path, out: str, into: str) -> None:
    remarks = (
        f"# Times: {out}: time 16.00 us, device time 8.00 us, launch time 2.00 us\n"
        f"# Wrong data: all_reduce sum in float, {into}, 8 bytes: rank 2, receive buffer, index 17: expected 3, got 4\n"
        f"# Warning: {into}: the times scatter\n"
        f"# Sum over 2 groups: {out} algbw 125.00 busbw 187.50 GB/s, {into} algbw 62.50 busbw 93.75 GB/s\n"
    )
    row = HEAD.splitlines(keepends=True)[-1]
    table = the_table(tmp_path, HEAD + remarks + row + FOOTER)
    assert [sorted(row.figures) for row in table.rows] == [["in_place", "out_of_place"]] * 2
    assert table.complete is True
    assert f"{into}: the times scatter" in table.warnings


def test_a_name_with_a_suffix(tmp_path: Path) -> None:
    """As nccl-tests built with NAME_SUFFIX=_mpi prints it."""
    table = the_table(tmp_path, (HEAD + FOOTER).replace("_perf", "_perf_mpi"))
    assert (table.program, table.collective, table.complete) == ("all_reduce_perf_mpi", "all_reduce", True)


def document(**changes: Any) -> str:
    """The engine's -J document, with some keys changed and those that are None left out."""
    whole = json.loads((GOLDEN / "nccl_tests.json").read_text())
    return json.dumps({key: value for key, value in (whole | changes).items() if value is not None})


def ours(reason: str | None) -> dict[str, object]:
    return {"version": "0.1.0", "backend": "host", "warnings": [], "end_reason": reason}


@pytest.mark.parametrize(
    ("changes", "complete", "reason"),
    [
        ({}, True, None),
        ({"busbw": None}, True, None),
        ({"busbw": ours("wrong data"), "errors": ["wrong data: see"]}, True, "wrong data: see"),
        ({"busbw": ours("interrupted"), "errors": ["interrupted by SIGINT"]}, False, "interrupted by SIGINT"),
        ({"busbw": ours("interrupted"), "average_bus_bandwidth": None, "out_of_bounds": None}, False, "interrupted"),
        ({"busbw": ours(None), "end_time": None}, False, "the document is cut off"),
    ],
)
def test_documents(tmp_path: Path, changes: dict[str, Any], complete: bool, reason: str | None) -> None:
    table = the_table(tmp_path, document(**changes), "out.json")
    assert (table.complete, table.end_reason) == (complete, reason)


def test_the_document_of_an_interrupted_run() -> None:
    tables = readers.read(GOLDEN / "nccl_tests_groups.json", UserClaims()).tables
    assert {(table.complete, table.end_reason) for table in tables} == {(False, "interrupted by SIGINT")}
