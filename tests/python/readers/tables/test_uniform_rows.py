"""The fast parser of uniform rows and the full parser read every log alike."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from busbw import readers
from busbw.judge.series import series_of_table
from busbw.logs.log import Log
from busbw.readers.tables.arithmetic import PlacementNumbers
from busbw.readers.tables.assembly import TableAssembler
from busbw.readers.tables.events import UserClaims
from busbw.readers.tables.inference import TableInference
from busbw.readers.tables.layouts import RawRow
from busbw.readers.text import text_logs, uniform_row_reader

GOLDEN = Path(__file__).resolve().parents[3] / "golden"
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


FAST_ROWS = (TableAssembler, "accepts_clean_rows", False)
UNIFORM_ROWS = (uniform_row_reader, "is_uniform_row", lambda *_: False)


def read_lines(lines: Iterable[str], max_items_in_memory: int = 1000) -> Log:
    events = text_logs.stream_lines([line.encode() for line in lines], "log", UserClaims())
    return readers.collect("log", events, max_items_in_memory)


def assert_read_alike(lines: list[str], disabled: tuple[object, str, object] = FAST_ROWS) -> None:
    """Compares the log with that of a reader in which an attribute of an object has another value."""
    fast = read_lines(lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*disabled)
        full = read_lines(lines)
    assert fast == full
    # In a file, plain rows stay columns, of which series are made.
    stored = read_lines(lines, max_items_in_memory=0)
    assert list(map(series_of_table, stored.tables)) == list(map(series_of_table, full.tables))


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


def plain_row(size_bytes: int) -> str:
    """Row that the fast parser accepts."""
    placements = [
        f"{time_us:.2f} {size_bytes / time_us / 1e3:.2f} {size_bytes / time_us / 1e3 * 1.5:.2f} 0"
        for time_us in (20.0, 25.0)
    ]
    return f"{size_bytes} {size_bytes // 4} float sum -1 {' '.join(placements)}"


@st.composite
def plain_rows(draw: st.DrawFn) -> list[str]:
    """Rows of one or two passes."""
    rows = [plain_row(4 << power) for power in range(draw(st.integers(2, 20)))]
    return rows * draw(st.sampled_from([1, 1, 1, 2]))


DEFECTS = ("0 ", "x", "- ", " 0", "\t", ";", "\r", "[", "NaN ", "99999 ", ".5")
"""Texts that make a row wrong if they are inserted, or leave it as it is."""


@settings(max_examples=60)
@given(rows=plain_rows(), defects=st.lists(st.tuples(st.integers(0, 19), st.integers(0, 80), st.sampled_from(DEFECTS))))
def test_rows_with_defects_are_read_alike(rows: list[str], defects: list[tuple[int, int, str]]) -> None:
    for number, position, defect in defects:
        row = rows[number % len(rows)]
        rows[number % len(rows)] = row[:position] + defect + row[position:]
    lines = [f"{line}\n" for line in [*HEAD.splitlines(), *rows, "# Avg bus bandwidth    : 1"]]
    assert_read_alike(lines, disabled=UNIFORM_ROWS)


def test_a_wrong_row_leaves_the_others_to_the_fast_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [plain_row(1 << power) for power in range(12, 27)]
    rows[7] = rows[7].replace(" 20.00 ", " 21.00 ")
    full_rows: list[int] = []
    parse = TableInference._find_contradiction

    def parse_and_count(self: TableInference, raw: RawRow, placements: tuple[PlacementNumbers, ...]) -> str:
        full_rows.append(raw.line)
        return parse(self, raw, placements)

    monkeypatch.setattr(TableInference, "_find_contradiction", parse_and_count)
    log = read_lines(f"{line}\n" for line in [*HEAD.splitlines(), *rows])
    assert [refusal.line for refusal in log.refused] == [7 + 7]
    # The wrong row makes all rows decide about the table, and is then the only one that the fast parser leaves.
    assert full_rows.count(7 + 7) == len(full_rows)


@settings(max_examples=60)
@example(lines=INVALID_ROW_AMONG_DESCENDING_ONES, prefix="")
@given(
    lines=st.lists(st.one_of(row_line(), row_line(), row_line(), st.sampled_from(NOISE)), max_size=40),
    prefix=st.sampled_from(["", "[1,0]<stdout>:", "0: ", "\u00e9: "]),
)
def test_generated_logs_are_read_alike(lines: list[str], prefix: str) -> None:
    assert_read_alike([f"{prefix}{line}\n" for line in [*HEAD.splitlines(), *lines]])
