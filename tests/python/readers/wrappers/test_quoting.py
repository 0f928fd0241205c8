"""Strings that hold lines: time and memory stay bounded on long lines and logs."""

import json
import math
import re
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.readers.wrappers.delimited import MessageColumn
from busbw.readers.wrappers.quoting import QuotedStrings, _key_before

KEY_PATTERN = r"""(?:["']([^"'\\]{1,100})["']\s{0,20}:|\b(\w{1,100})=)\s{0,20}\Z"""


def rows(first: int, count: int = 2) -> str:
    return "".join(
        f"{size} {size // 4} float sum -1 10.0 1.0 1.0 0 10.0 1.0 1.0 0\n"
        for size in range(first, first + 8 * count, 8)
    )


@given(st.text("\"'\\:= ab,{", max_size=14))
def test_keys_are_those_of_the_pattern(before: str) -> None:
    match = re.search(KEY_PATTERN, before)
    assert _key_before(before, len(before)) == ((match[1] or match[2]) if match else "")


def find_strings(count: int) -> None:
    line = json.dumps({"out": [rows(16 * index + 8) for index in range(count)]})
    QuotedStrings(set()).find(line)


def find_escaped_cells(count: int) -> None:
    MessageColumn().find(",".join(f'"a{index}""b"' for index in range(10 * count)))


@pytest.mark.parametrize("find", [find_strings, find_escaped_cells])
def test_time_is_linear_in_the_strings_of_a_line(find: Callable[[int], None]) -> None:
    """The CPU time of 16 times the strings grows by 16 if it is linear, and by 256 if it is quadratic."""

    def seconds(count: int) -> float:
        start = time.thread_time()
        find(count)
        return time.thread_time() - start

    short_s = long_s = math.inf
    for _ in range(5):
        short_s, long_s = min(short_s, seconds(60)), min(long_s, seconds(960))
        if long_s < 64 * short_s:
            return
    pytest.fail(f"{short_s * 1e3:.3g} ms for some strings, and {long_s * 1e3:.3g} ms for 16 times as many")


def test_a_log_with_a_new_key_on_each_line_needs_bounded_memory() -> None:
    keys: set[str] = set()
    strings = QuotedStrings(keys)
    for index in range(5000):
        (found,) = strings.find(json.dumps({f"t{index}": rows(8, 1)}))
        assert found.text == rows(8, 1)
    assert len(keys) < 5000
