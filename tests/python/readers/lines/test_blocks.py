"""Lines are the same for blocks of any length, and for single lines."""

import io
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.readers.lines import source
from busbw.readers.lines.line_stream import LineStream
from busbw.readers.lines.source import LogSource

PARTS = st.sampled_from([b"a", b"\r", b"\n", b"\r\n", b"{\n", b'"k": 1,\n', b"}\n", b"}", b"[", b"\xff\xc3"])


@given(parts=st.lists(PARTS, max_size=60), block_bytes=st.integers(1, 30), max_line_bytes=st.integers(1, 40))
def test_blocks_have_the_lines_of_the_file(parts: list[bytes], block_bytes: int, max_line_bytes: int) -> None:
    data = b"".join(parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "_BLOCK_BYTES", block_bytes)
        patch.setattr(source, "MAX_LINE_BYTES", max_line_bytes)
        log = LogSource("log", io.BytesIO(data))
        lines = list(log.lines())
        blocks = list(log.blocks())
    assert lines == list(_read_lines(data, max_line_bytes))
    assert list(LineStream(blocks)) == list(LineStream(lines))


def _read_lines(data: bytes, max_bytes: int) -> list[bytes]:
    """Reads line by line. The rest of a line after a limit is left out, up to text after a carriage return."""
    lines = []
    while data:
        line = data[: data.find(b"\n") + 1] or data
        part, rest = line[:max_bytes], line[max_bytes:]
        lines.append(part)
        if b"\r" not in part:
            rest = rest.partition(b"\r")[2].lstrip(b"\r\n")
        data = rest + data[len(line) :]
    return lines


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("length", range(9, 16))
def test_text_after_a_carriage_return_beyond_the_limit_of_a_line_is_kept(
    length: int, line_end: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "MAX_LINE_BYTES", 8)
    log = LogSource("log", io.BytesIO(b"x" * length + b"\rrow" + line_end + b"last"))
    assert list(log.lines()) == [b"x" * 8, b"row" + line_end, b"last"]


def test_lines_between_carriage_returns_need_little_memory() -> None:
    tracemalloc.start()
    try:
        count = sum(1 for _ in LineStream([b"x\r" * 500_000]))
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 500_000
    assert peak_bytes < 40_000_000
