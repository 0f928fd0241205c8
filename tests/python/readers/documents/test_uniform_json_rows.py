"""The fast parser of uniform rows of JSON and the full parser read every document alike."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from busbw import readers
from busbw.logs.log import Log
from busbw.logs.plain_rows import PlainRows
from busbw.readers.documents import nccl_tests_json, row_blocks

GOLDEN = Path(__file__).resolve().parents[3] / "golden"
DOCUMENT = json.loads((GOLDEN / "nccl_tests.json").read_text()) | {"errors": []}
PLACEMENTS = ("out_of_place", "in_place")
TIMES_US = (20.0, 20, 19.1234567, 0.3, 0.0, -0.0, -1.0, 1e16, "nan", None, True)
CHANGES: tuple[dict[str, Any], ...] = (
    *({"time": value} for value in TIMES_US),
    *({"alg_bw": value} for value in (-0.0, 0, 1e-5, 7.0, 1e400, "N/A")),
    *({"bus_bw": value} for value in (-0.0, 0, 1e-5, 7.0, 1e17, "inf")),
    *({"nwrong": value} for value in (3, 0.0, -1, "N/A", None)),
    {"cpu_time": 12.5},
    *({"size": value} for value in (0, -8, "1024", 1024.0, 10**18, 10**30)),
    *({"count": value} for value in (0, None, "256", 10**18)),
    *({"type": value} for value in ("half", "fp16", "f7", "", None)),
    *({"redop": value} for value in ("max", " sum ", "none", "", "other", None)),
    *({"root": value} for value in (0, 3, -1, -2, " -1", None, 10**9, 10**10)),
    {"group": 1},
    {"out_of_place_per_iter": {"times_us": [1.0]}},
    {"in_place": None},
)


def make_row(size_bytes: int, time_us: float) -> dict[str, Any]:
    algbw_gbps = size_bytes / time_us / 1e3
    figures = {"time": time_us, "alg_bw": algbw_gbps, "bus_bw": 1.5 * algbw_gbps, "nwrong": 0}
    row = {"size": size_bytes, "count": size_bytes // 4, "type": "float", "redop": "sum", "root": -1}
    return row | {placement: dict(figures) for placement in PLACEMENTS}


def change(row: dict[str, Any], changes: dict[str, Any]) -> None:
    for name, value in changes.items():
        target = row["in_place"] if name in (*row["in_place"], "cpu_time") else row
        target[name] = value


@st.composite
def rows(draw: st.DrawFn) -> list[dict[str, Any]]:
    sizes = draw(st.lists(st.sampled_from([8 << power for power in range(0, 31, 3)]), min_size=1, max_size=30))
    made = [make_row(size, draw(st.floats(1, 1e6))) for size in sizes]
    for index in draw(st.lists(st.integers(0, len(made) - 1), max_size=3, unique=True)):
        change(made[index], draw(st.sampled_from(CHANGES)))
    return made


def read(path: Path, text: str, block_bytes: int, *, is_fast: bool) -> Log:
    path.write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_blocks, "_BLOCK_LENGTH", block_bytes)
        if not is_fast:
            patch.setattr(nccl_tests_json, "parse_uniform_json_rows", lambda *_: None)
        return readers.read(path)


def assert_read_alike(path: Path, text: str, block_bytes: int) -> None:
    fast, full = (read(path, text, block_bytes, is_fast=is_fast) for is_fast in (True, False))
    assert fast == full
    assert repr(fast.tables) == repr(full.tables)  # 0.0 differs from -0.0


@settings(max_examples=60, deadline=None)
@given(rows(), st.sampled_from([1, 1000, 1 << 16]), st.sampled_from([None, 1]), st.booleans())
@example([make_row(8, 20.0)] * 3, 1, None, False)
def test_rows_are_read_alike(
    tmp_path_factory: pytest.TempPathFactory,
    results: list[dict[str, Any]],
    block_bytes: int,
    indent: int | None,
    is_cut: bool,
) -> None:
    text = json.dumps(DOCUMENT | {"results": results}, indent=indent)
    text = text[: text.rindex('"nwrong"')] if is_cut else text
    assert_read_alike(tmp_path_factory.getbasetemp() / "log.json", text, block_bytes)


@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_a_row_of_another_form_is_read_alike(tmp_path: Path, changes: dict[str, Any]) -> None:
    results = [make_row(8 << power % 20, 20 + power / 7) for power in range(40)]
    change(results[25], changes)
    assert_read_alike(tmp_path / "log.json", json.dumps(DOCUMENT | {"results": results}), 1 << 16)


def test_uniform_rows_are_kept_as_columns(tmp_path: Path) -> None:
    text = json.dumps(DOCUMENT | {"results": [make_row(8 << power, 20.5) for power in range(20)]}, indent=1)
    path = tmp_path / "log.json"
    path.write_text(text)
    [chunk] = [event for event in readers.stream(path) if isinstance(event, readers.TableChunk)]
    assert isinstance(chunk.table.rows, PlainRows)
    assert [row.line for row in chunk.table.rows] == [
        number for number, line in enumerate(text.splitlines(), start=1) if '"size"' in line
    ]
