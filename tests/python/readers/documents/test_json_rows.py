"""Documents of JSON are split into rows in any portions, and the rows are those that a JSON parser finds."""

import io
import json
import math
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.errors import UsageError
from busbw.readers import read
from busbw.readers.documents import json_rows
from busbw.readers.documents.json_rows import JsonRows
from busbw.readers.lines.source import LogSource

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
ROWS = st.lists(st.dictionaries(st.text(max_size=4), VALUES, max_size=4), max_size=4)


def rows_of(text: str) -> tuple[list[tuple[str, Any]], Any]:
    rows = JsonRows(LogSource("a test", io.BytesIO(text.encode())))
    values = [(row.key, json.loads(row.text)) for row in rows]
    return values, json.loads(rows.read_rest())


@given(ROWS, st.dictionaries(st.text(max_size=4), VALUES, max_size=3), st.sampled_from([None, 1]), st.integers(1, 40))
def test_rows_of_a_document(
    rows: list[dict[str, Any]], others: dict[str, Any], indent: int | None, portion_bytes: int
) -> None:
    others.pop("results", None)
    document = {**others, "results": rows, "end": 1}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_rows, "_CHUNK_BYTES", portion_bytes)
        for text in (json.dumps(document, indent=indent), json.dumps(document, ensure_ascii=False)):
            assert rows_of(text) == ([("", row) for row in rows], {**others, "results": [], "end": 1})
        assert rows_of(json.dumps(rows, indent=indent)) == ([("", row) for row in rows], [])
        both = {"results": {"a": rows, "b": rows}}
        assert rows_of(json.dumps(both))[0] == [(key, row) for key in "ab" for row in rows]


def test_lines_and_a_row_that_is_cut() -> None:
    text = '{"version": 3,\n"results": [\n{\n"size": 8},\n{"size": 16},\n\n{"x": [1, "}'
    rows = JsonRows(LogSource("a test", io.BytesIO(text.encode())))
    assert [(row.line, row.text) for row in rows] == [(4, b'{\n"size": 8}'), (5, b'{"size": 16}'), (7, b'{"x": [1, "}')]
    assert rows.read_rest() == b'{"version": 3,\n"results": ['


@pytest.mark.parametrize("unit", ['{"a":1},', "[", '"', '"a",', "\\", "{", '{"', '"\\'])
def test_time_is_linear(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU time of 16 times the text grows by 16 if it is linear, and by 256 if it is quadratic."""

    def seconds(length: int) -> float:
        data = b'{"results":[' + unit.encode() * (length // len(unit))
        start = time.thread_time()
        for _ in JsonRows(LogSource("a test", io.BytesIO(data))):
            pass
        return time.thread_time() - start

    monkeypatch.setattr(json_rows, "_CHUNK_BYTES", 2000)
    short_s = long_s = math.inf
    for _ in range(5):
        short_s, long_s = min(short_s, seconds(50_000)), min(long_s, seconds(800_000))
        if long_s < 64 * short_s:
            return
    pytest.fail(f"{short_s * 1e3:.3g} ms for a text, and {long_s * 1e3:.3g} ms for 16 times the text")


def test_a_row_without_an_end_is_limited(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text('{"version":3,"results":[{"size":"' + "x" * 100_000)
    monkeypatch.setattr(json_rows, "_CHUNK_BYTES", 1000)
    monkeypatch.setattr(json_rows, "MAX_BYTES", 1 << 16)
    with pytest.raises(UsageError, match="a part without rows, or a row, of more than"):
        read(path)


def test_a_row_with_many_inner_objects_needs_little_memory() -> None:
    text = '{"results": [{"size": 8, "other": [' + ",".join(["{}"] * 300_000) + "]}]}"
    rows = JsonRows(LogSource("a test", io.BytesIO(text.encode())))
    tracemalloc.start()
    try:
        [row] = rows
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(row.text) > 900_000
    assert peak_bytes < 12 << 20, peak_bytes  # 131 MiB if the expression repeats without a limit


def test_a_row_does_not_keep_its_samples_in_memory(tmp_path: Path) -> None:
    """Samples of this field are not read, and they are most of the file."""
    row = {"size": 8, "count": 2, "type": "float", "redop": "sum", "root": -1}
    figures = {"time": 10.0, "alg_bw": 0.0, "bus_bw": 0.0, "nwrong": 0}
    rows = [
        {**row, "out_of_place": figures, "in_place": figures, "other_us": [float(number) for number in range(2000)]}
        for _ in range(600)
    ]
    path = tmp_path / "log.json"
    path.write_text(json.dumps({"version": "2.19.6", "results": rows}))
    tracemalloc.start()
    log = read(path)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(log.rows) == 600
    assert peak_bytes < path.stat().st_size
