"""The fast parser of rows and the full parser read every log alike."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from busbw import readers
from busbw.readers import text
from busbw.readers.tables.assembly import TableAssembler
from busbw.readers.tables.events import UserClaims

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
LOGS = sorted(path for path in GOLDEN.rglob("*.txt") if path.is_file())

HEAD = """# nThread 1 nGpus 4 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 1 iters: 20
# Using devices
#  Rank  0 Group  0 Pid    895 on         vm device  0 [0000:00:06] NVIDIA H200
#  Rank  1 Group  0 Pid    895 on         vm device  1 [0000:00:07] NVIDIA H200
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
"""
NOISE = (
    "",
    "# a remark",
    "vm:895:895 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC",
    "1 2 float sum -1",
    "srun: job 7 has been allocated resources",
    "# Out of bounds values : 0 OK",
    "# Avg bus bandwidth    : 1",
    "        1024           256     float     sum      -1    9.85    0.10",
)


def read_lines(lines: Iterable[str]) -> Any:
    events = text.stream_lines([line.encode() for line in lines], "log", UserClaims())
    return readers.collect("log", events)


def assert_read_alike(lines: list[str]) -> None:
    fast = read_lines(lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TableAssembler, "add_fast_row", lambda *_: False)
        full = read_lines(lines)
    assert fast == full


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_saved_logs_are_read_alike(path: Path) -> None:
    assert_read_alike(path.read_text(errors="replace").splitlines(keepends=True))


@st.composite
def placement_columns(draw: st.DrawFn, size_bytes: int) -> str:
    time_us = draw(st.floats(0.01, 1e6))
    time_text = f"{time_us:.{draw(st.integers(0, 2))}f}"
    algbw = size_bytes / time_us / 1e3 * draw(st.sampled_from([1, 1, 1, 1, 1.01, 1.2]))
    busbw = algbw * 1.5 * draw(st.sampled_from([1, 1, 1, 1, 1.01, 1.2]))
    wrong = draw(st.sampled_from(["0", "0", "0", "3", "N/A", "0e+00"]))
    sign = draw(st.sampled_from(["", "", "", "", "-", "+", "0_"]))
    return f"{sign}{time_text} {algbw:.{draw(st.sampled_from([2, 2, 2, 3, 1]))}f} {busbw:.2f} {wrong}"


@st.composite
def row_line(draw: st.DrawFn) -> str:
    size = draw(st.sampled_from([0, 8, 1000, 1 << 20, 1 << 33]))
    dtype, redop, root = (draw(st.sampled_from(words)) for words in (("float", "half"), ("sum", "none"), ("-1", "0")))
    return f"{size} {size // 4} {dtype} {redop} {root} {draw(placement_columns(size))} {draw(placement_columns(size))}"


INVALID_ROW_AMONG_DESCENDING_ONES = [
    "0 0 float sum -1 1 0.00 0.00 0 -1 0.00 0.00 0",
    "1000 250 float sum -1 1 1.00 1.50 0 1 1.00 1.50 0",
    "0 0 float sum -1 1 0.00 0.00 0 -1 0.00 0.00 0",
    "8 2 float sum -1 1 0.01 0.01 0 1 0.01 0.01 0",
    "0 0 float sum -1 1 0.00 0.00 0 1 0.00 0.00 0",
]
"""The sizes of the valid rows decrease, so that these are no passes of -N."""


@settings(max_examples=60)
@example(lines=INVALID_ROW_AMONG_DESCENDING_ONES, prefix="")
@given(
    lines=st.lists(st.one_of(row_line(), row_line(), row_line(), st.sampled_from(NOISE)), max_size=12),
    prefix=st.sampled_from(["", "[1,0]<stdout>:", "0: "]),
)
def test_generated_logs_are_read_alike(lines: list[str], prefix: str) -> None:
    assert_read_alike([f"{prefix}{line}\n" for line in [*HEAD.splitlines(), *lines]])
