"""Every regular expression of the readers takes time in proportion to the length of its text."""

import gc
import importlib
import inspect
import pkgutil
import re
import time
from collections import deque
from collections.abc import Callable, Iterator

import pytest

from busbw import readers

METHODS = ("search", "match", "fullmatch", "findall", "finditer", "sub", "split")
BEGINNINGS = (
    "", "[", "[2025-01-01 ", "[1:1:1] ", "\x1b[", "\x1b]", "<", '"', "# a", "1", "1 1 float", "1 nodes", "Group 1: 1",
    "NCCL version", "a:1:1 [", "nThread 1 a", "Rank 0 Pid 1 on ", "Rank 0 Pid 1 on a device 1 [",
    "Average bus bandwidth: 1",
    "Collective test starting: ", "nccl-tests version ", "Test failure", "Invalid number of GPUs: ", "all ", "a_perf",
    "[BENCHMARK] hccla(", "[BENCHMARK] NW Bandwidth : ",
)  # fmt: skip
UNITS = (
    "1",
    " ",
    ":",
    "a",
    "a ",
    "1 ",
    "11:",
    "[",
    "<a",
    "#",
    "-",
    ",1",
    "a_",
    "_perf",
    '"',
    "\\",
    "*",
    "x1",
    "[BENCHMARK] hccla(",
)
END = "!"
"""Fails the match at the end, so that the expression tries every other way."""
SHORT, GROWTH = 400, 4
MAX_RATIO = 2.2 * GROWTH
"""The time of a quadratic search grows by the square of GROWTH."""
MIN_RELIABLE_S = 0.05
"""CPU time that disturbances of a busy machine do not double. A shorter time decides only that a search is linear."""


def patterns() -> Iterator[tuple[str, re.Pattern[str] | re.Pattern[bytes], set[str]]]:
    """Yields every pattern with its name and the methods that its module calls."""
    for module_info in pkgutil.walk_packages(readers.__path__, "busbw.readers."):
        module = importlib.import_module(module_info.name)
        source = inspect.getsource(module)
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern):
                methods = set(re.findall(rf"\b{name}\.({'|'.join(METHODS)})\b", source))
                yield f"{module.__name__}.{name}", value, methods or {"search"}
            elif isinstance(value, tuple):
                for entry in value:
                    for part in entry if isinstance(entry, tuple) else (entry,):
                        if isinstance(part, re.Pattern):
                            yield f"{module.__name__}.{name}", part, {"search"}


PATTERNS = list(patterns())


def seconds(call: Callable[[str | bytes], object], text: str | bytes, tries: int = 1) -> float:
    """Returns the shortest CPU time of several calls, because other processes do not count in it."""
    times = []
    gc.disable()  # A collection takes longer than a search.
    try:
        for _ in range(tries):
            start = time.thread_time()
            call(text)
            times.append(time.thread_time() - start)
    finally:
        gc.enable()
    return min(times)


def growth(pattern: re.Pattern[str] | re.Pattern[bytes], method: str, beginning: str, unit: str) -> float:
    """Ratio of the time for a text to that for a text of a quarter of its length.

    As long as the ratio is that of a quadratic search, the texts grow, until the time is long enough to be reliable.
    """

    def text_of(length: int) -> str | bytes:
        text = beginning + unit * (length // len(unit)) + END
        return text if isinstance(pattern.pattern, str) else text.encode()

    def call(text: str | bytes) -> object:
        if method == "sub":
            return pattern.sub(text[:0], text)  # type: ignore[arg-type]
        if method == "finditer":
            return deque(pattern.finditer(text), maxlen=0)  # type: ignore[arg-type]
        return getattr(pattern, method)(text)

    length, shorter_s = SHORT, seconds(call, text_of(SHORT), tries=3)
    while True:
        length *= GROWTH
        longer_s = seconds(call, text_of(length))
        ratio = longer_s / max(shorter_s, 1e-9)
        if ratio <= MAX_RATIO:
            return ratio
        if longer_s >= MIN_RELIABLE_S:
            return seconds(call, text_of(length), tries=3) / seconds(call, text_of(length // GROWTH), tries=3)
        shorter_s = longer_s


@pytest.mark.parametrize(("name", "pattern", "methods"), PATTERNS, ids=[name for name, _, _ in PATTERNS])
def test_pattern_takes_linear_time(name: str, pattern: re.Pattern[str] | re.Pattern[bytes], methods: set[str]) -> None:
    for method in methods:
        for beginning in BEGINNINGS:
            for unit in UNITS:
                ratio = growth(pattern, method, beginning, unit)
                assert ratio <= MAX_RATIO, f"{name}.{method}: {beginning!r} and many {unit!r}"


def test_every_pattern_is_a_constant_that_the_test_above_finds() -> None:
    for module_info in pkgutil.walk_packages(readers.__path__, "busbw.readers."):
        source = inspect.getsource(importlib.import_module(module_info.name))
        assert not re.search(rf"\bre\.(?:{'|'.join(METHODS)})\(", source), module_info.name
    assert len(PATTERNS) > 30


def test_a_quadratic_pattern_is_noticed() -> None:
    for quadratic in (r"[\d:]*\d{2}:\d{2}", r"1*a", r"(?=1)[^!]*a"):
        assert any(growth(re.compile(quadratic), "search", "", "1") > MAX_RATIO for _ in range(3)), quadratic
