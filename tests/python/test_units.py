"""Sizes as users type them."""

from pathlib import Path

import pytest

from busbw.units import parse_size

_CASES = [
    line.rpartition('"')
    for line in (Path(__file__).parents[1] / "sizes.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]


@pytest.mark.parametrize(("text", "expected"), [(quoted[1:], value.strip()) for quoted, _, value in _CASES])
def test_the_command_accepts_the_sizes_of_the_engine(text: str, expected: str) -> None:
    size_bytes = parse_size(text)
    assert ("invalid" if size_bytes is None else str(size_bytes)) == expected


def test_lines_and_blanks_are_no_sizes() -> None:
    assert parse_size("8\n") is None
    assert parse_size("\t8") is None
