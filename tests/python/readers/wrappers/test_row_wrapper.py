"""Lines with the wrapper of the last row are read alike with and without the short way, and most rows take it."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from busbw import readers
from busbw.readers.tables.events import UserClaims
from busbw.readers.text import line_reader, text_logs
from busbw.readers.wrappers.row_wrapper import RowWrapper, find_row_wrapper
from busbw.readers.wrappers.unwrapping import Unwrapper

GOLDEN = Path(__file__).resolve().parents[3] / "golden"
LOG = (GOLDEN / "logs" / "h200_x4_sweep_c1.txt").read_text().splitlines(keepends=True)
ROW = "  1024  256  float  sum  -1  20.14  0.05  0.08  0  20.28  0.05  0.08  0"
BEFORE, AFTER = '{"log": "', '\\n", "stream": "stdout", "time": "2026-11-26T10:21:50.25Z"}\n'
LINE = BEFORE + ROW + AFTER


def docker_entry(line: str, number: int, stream: str = "stdout") -> str:
    """The line as Docker's json-file driver stores it. The driver omits zeros at the end of a time."""
    time = f"2026-11-26T10:21:{number % 60:02}.{number:06}".rstrip("0") + "Z"
    return json.dumps({"log": line, "stream": stream, "time": time}) + "\n"


def read_lines(lines: Iterable[str]) -> Any:
    return readers.collect("log", text_logs.stream_lines([line.encode() for line in lines], "log", UserClaims()))


def read_without_short_way(lines: Iterable[str]) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_reader, "find_row_wrapper", lambda *_: None)
        return read_lines(lines)


@pytest.mark.parametrize(
    ("line", "content"),
    [
        (LINE, ROW),
        (LINE.replace("10:21:50.25Z", "23:59:01.123456789Z"), ROW),
        (LINE.replace(ROW, "# Avg bus bandwidth    : 158.95"), "# Avg bus bandwidth    : 158.95"),
        (LINE.replace("stdout", "stderr"), ""),
        (LINE.replace("10:21:50", "10:61:50"), ""),
        (LINE.replace("50.25Z", "50.25+01:00"), ""),
        (LINE.replace(ROW, f"{ROW}\\t"), ""),
        (LINE.replace(ROW, f'\\"{ROW}'), ""),
        (LINE.replace(ROW, ROW + "\u00a0"), ""),
        (LINE.removesuffix("\n"), ""),
        (ROW + "\n", ""),
    ],
)
def test_the_wrapper_of_a_row_is_removed_from_other_lines(line: str, content: str) -> None:
    wrapper = find_row_wrapper(LINE, ROW)
    assert wrapper is not None
    assert wrapper.remove_from(line) == (content and f"{content}\n")


@pytest.mark.parametrize(
    "line",
    [
        ROW + "\n",
        f"[1,0]<stdout>:{ROW}\n",
        LINE.removesuffix("\n"),
        LINE.replace("}\n", ', "tags": ["a"]}\n'),
        LINE.replace("}\n", ', "tag": ""}\n'),
        LINE.replace("}\n", ', "tag": "it\'s"}\n'),
        LINE.replace("}\n", ', "tag": "<br>"}\n'),
        LINE.replace("}\n", f', "tag": "{"x" * 1000}"}}\n'),
    ],
)
def test_lines_that_need_the_general_search_have_no_such_wrapper(line: str) -> None:
    assert find_row_wrapper(line, ROW) is None


def html_line(line: str, number: int) -> str:
    """The line as a log viewer in a browser stores it."""
    return f'<div class="line"><span>{line.rstrip()}</span></div>\n'


@pytest.mark.parametrize("wrap", [docker_entry, html_line])
def test_only_the_first_two_rows_need_the_general_search(
    monkeypatch: pytest.MonkeyPatch, wrap: Callable[[str, int], str]
) -> None:
    lines = [wrap(line, number) for number, line in enumerate(LOG * 5)]
    searched: list[str] = []
    unwrap = Unwrapper.unwrap

    def unwrap_and_count(self: Unwrapper, line: str, look_ahead: Any) -> Any:
        searched.append(line)
        return unwrap(self, line, look_ahead)

    monkeypatch.setattr(Unwrapper, "unwrap", unwrap_and_count)
    log = read_lines(lines)
    assert len(log.tables) == 5
    assert len(log.rows) == 5 * 31
    first_rows = [line for line in searched if " float " in line]
    assert len(first_rows) == 2


def test_a_wrapper_that_differs_in_each_line_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[RowWrapper] = []

    def find_and_keep(line: str, row: str) -> RowWrapper | None:
        wrapper = find_row_wrapper(line, row)
        found.extend([wrapper] if wrapper else [])
        return wrapper

    monkeypatch.setattr(line_reader, "find_row_wrapper", find_and_keep)
    entries = [{"ts": 1700000000.25 + number, "log": line} for number, line in enumerate(LOG * 2)]
    log = read_lines(json.dumps(entry) + "\n" for entry in entries)
    assert len(log.rows) == 2 * 31
    assert len(found) == 2 * 31
    assert not any("_line" in vars(wrapper) for wrapper in found), "compiled"


OTHER_LINES = (
    "",
    "# a remark",
    "loss 2.4",
    "it's",
    "| 1 | 2 |",
    "<td>8</td>",
    "1 2 float sum -1",
    "12 13",
    "a\tb",
    "[1]",
)


@settings(max_examples=60)
@given(st.data(), st.sampled_from([docker_entry, html_line]))
def test_generated_logs_are_read_alike(data: st.DataObject, wrap: Callable[[str, int], str]) -> None:
    lines: list[str] = []
    for number, line in enumerate(LOG * 2):
        entry = wrap(line, number)
        change = data.draw(st.sampled_from([0] * 20 + [1, 2, 3, 4, 5]))
        if change == 1:
            lines.append(wrap(data.draw(st.sampled_from(OTHER_LINES)) + "\n", number))
        elif change == 2:
            lines.append(data.draw(st.sampled_from(OTHER_LINES)) + "\n")
        elif change == 3:
            entry = docker_entry(line, number, stream="stderr")
        elif change == 4:
            entry = entry[: data.draw(st.integers(1, len(entry)))]
        elif change == 5:
            entry = entry.replace("\n", "\r\n")
        lines.append(entry)
    assert read_lines(lines) == read_without_short_way(lines)
