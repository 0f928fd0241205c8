"""Lines that are recognized early as unrelated, or as having no wrapper but a prefix, change no result."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from log_wrappers import ALL_WRAPPERS, Wrapper

from busbw import readers
from busbw.logs.log import Log
from busbw.readers.tables import unrelated_lines
from busbw.readers.tables.events import UserClaims
from busbw.readers.text import clean_line_reader, line_reader, text_logs
from busbw.readers.wrappers import unwrapping

GOLDEN = Path(__file__).resolve().parents[3] / "golden"
LOGS = {path.stem: path.read_text().splitlines() for path in (*GOLDEN.glob("*.txt"), *(GOLDEN / "logs").glob("*.txt"))}
UNRELATED = (
    "2026-11-26 10:21:50,123 INFO trainer [rank 0/32] step 12 loss 2.0012 lr 0.0003 tokens/s 412123",
    "srun: job 7 has been allocated resources.",
    "vm:895:895 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC",
    "12",
    "",
)
OTHERS = (
    "nccl rccl mscclpp",
    "Warning: slow",
    "error: no device",
    "1 2 3 4 5 6",
    "8 a 2 b 3 c 4 5 6",
    "a b nan 1 x 2 y 3 z inf",
    "float a 1 b 2 c 3",
    "a 1.0[0] 2.0[1] 3.0 4.0 5.0",
    "  512 128 float sum -1 9.85 0.10",
    "0.15 0 9.9 0.1 0.1 0",
    "NCCL version 2.28.9",
    "Test failure common.cu:1",
    "== 16x H100 ==",
    "2 nodes, 8 GPUs/node",
    "all_reduce_perf -b 8",
    "[BENCHMARK] hcclAllReduce(dataSize=8, dtype=float)",
    "[BENCHMARK] NW Bandwidth : 2.5 GB/s",
    "[BENCHMARK] Algo Bandwidth : 2.5 GB/s",
    "Size Time AlgBW BusBW",
    "8 1.0 2.0 3.0",
    "10 words 2.5",
    '"text": [',
    "]",
    "<b>1</b> a",
    "Avg bus bandwidth : 3",
    "all in-place results",
    "1\t2",
    "| a | b |",
)
WRAPPERS: dict[str, Wrapper] = {"none": lambda lines: "".join(f"{line}\n" for line in lines), **ALL_WRAPPERS}


def read(data: bytes) -> Log:
    return readers.collect("log", text_logs.stream_lines(data.splitlines(keepends=True), "log", UserClaims()))


def assert_read_alike(lines: Sequence[str], wrapper: str) -> None:
    data = WRAPPERS[wrapper](lines).encode()
    log = read(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clean_line_reader, "is_unrelated", lambda *_: False)
        patch.setattr(unwrapping, "has_only_prefix", lambda _: False)
        patch.setattr(line_reader, "has_only_prefix", lambda _: False)
        patch.setattr(unrelated_lines.UnrelatedShapes, "__contains__", lambda *_: False)
        assert log == read(data)


@settings(max_examples=2, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_logs_with_other_lines_are_read_alike(wrapper: str, data: st.DataObject) -> None:
    lines = list(LOGS[data.draw(st.sampled_from(sorted(LOGS)))])
    others = st.tuples(st.integers(0, len(lines)), st.sampled_from(UNRELATED + OTHERS), st.sampled_from([1, 1, 50]))
    for position, line, count in data.draw(st.lists(others, max_size=20)):
        lines[position:position] = [line] * count
    assert_read_alike(lines, wrapper)


NUMBERS = ("8", "1.5", ".5", "1e+05", "1,5", "-1", "N/A", "nan", "inf", "2[1]", "10:21:50", "2026-11-26")
WORDS = st.sampled_from(
    (*NUMBERS, "float", "half", "a", "b", "in", "step=3", "[0]", "#", "|", "'", "GB/s)", "node", "nodes", "Rank")
)


@settings(max_examples=200, deadline=None)
@given(lines=st.lists(st.lists(WORDS, max_size=14).map(" ".join), min_size=1, max_size=6))
def test_any_words_are_read_alike(lines: list[str]) -> None:
    assert_read_alike([*LOGS["nccl_tests_2_19_6_single"][:20], *lines], "none")


NAMES = st.sampled_from(("int8", "uint5", "float16", "fp8", "f8e4m3", "gpu0", "x", "step=7", "[3]", "loss", "took"))


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_lines_that_differ_in_digits_are_read_alike(data: st.DataObject) -> None:
    number = st.integers(0, 10**9).map(str)
    lines = []
    for words in data.draw(
        st.lists(st.lists(st.one_of(NAMES, WORDS), min_size=1, max_size=14), min_size=1, max_size=4)
    ):
        line = " ".join(words)
        lines += [line, re.sub("[0-9]+", lambda _: data.draw(number), line), re.sub("[0-9]", "8", line)]
    assert_read_alike([*LOGS["nccl_tests_2_19_6_single"][:20], *lines, *LOGS["nccl_tests_2_19_6_single"]], "none")


def test_the_shapes_of_unrelated_lines_need_bounded_memory() -> None:
    shapes = unrelated_lines.UnrelatedShapes()
    for number in range(10_000):
        shapes.add(b"x" * (number % 100) + b"y" * (number // 100))
    assert len(shapes._shapes) <= 4096
    shapes.add(b"z" * 2000)
    assert b"z" * 2000 not in shapes


def test_a_shape_of_an_element_type_is_not_kept() -> None:
    shapes, shape_of = unrelated_lines.UnrelatedShapes(), unrelated_lines.shape_of
    for line in (b"uint5 took 3 s", b"INT7 took 3 s", b"step 12 took 3 s"):
        shapes.add(shape_of(line))
    assert [shape_of(line) in shapes for line in (b"uint8 took 3 s", b"INT8 took 3 s")] == [False, False]
    assert shape_of(b"step 123456789 took 4711 s") in shapes


def test_a_row_after_a_message_of_nccl_with_other_digits_is_read() -> None:
    run = list(LOGS["nccl_tests_2_19_6_single"])
    rows = [line for line in run if " float " in line]
    message = "[12:34:56] h:1:2 [0] NCCL INFO " + rows[0]
    row = "[1:2:3] h:1:2 [0] NCCL INFO " + rows[0]
    assert_read_alike([*run, *[UNRELATED[0]] * 3000, message, *[UNRELATED[0]] * 3000, row], "none")


def test_unrelated_lines_of_a_log_without_wrappers_are_not_unwrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    unwrapped: list[str] = []
    unwrap = unwrapping.Unwrapper.unwrap

    def unwrap_and_keep(self: unwrapping.Unwrapper, line: str, look_ahead: Any) -> Any:
        unwrapped.append(line)
        return unwrap(self, line, look_ahead)

    monkeypatch.setattr(unwrapping.Unwrapper, "unwrap", unwrap_and_keep)
    run = LOGS["nccl_tests_2_19_6_single"]
    log = read(WRAPPERS["none"]([*run, *UNRELATED[:2] * 100, *run]).encode())
    assert len(log.tables) == 2
    assert not [line for line in unwrapped if line.rstrip() in UNRELATED[:2]]


@pytest.mark.parametrize("line", UNRELATED)
def test_unrelated_lines_are_recognized(line: str) -> None:
    assert unrelated_lines.is_unrelated(line, line.split())


@pytest.mark.parametrize("line", OTHERS[:16])
def test_other_lines_are_not(line: str) -> None:
    assert not unrelated_lines.is_unrelated(line, line.split())
