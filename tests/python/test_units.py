"""Sizes as users type them, and text that is safe to print."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.units import escape_json, number_text, parse_size, plain, shorten, size_range_text

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


def test_plain_text_has_no_controls_and_keeps_blanks() -> None:
    assert plain("a\x1b[m\x85\u202eb\u2028\u00a0\u4e2d") == "a?[m??b?\u00a0\u4e2d"


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_an_escaped_document_is_printable_and_has_the_same_values(text: str) -> None:
    document = json.dumps({text: [text]}, ensure_ascii=False).encode()
    escaped = escape_json(document)
    assert json.loads(escaped) == {text: [text]}
    assert plain(escaped.decode()) == escaped.decode()


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (20_070.0, 4, "20,070"),
        (7_990.4, 3, "7,990"),
        (1e9, 3, "1,000,000,000"),
        (238.0, 4, "238"),
        (353.17, 4, "353.2"),
        (0.004093, 4, "0.004093"),
        (0.004093, 2, "0.0041"),
        (1.2e-6, 2, "0.0000012"),
        (0.0, 4, "0"),
        (-12.345, 3, "-12.3"),
        (float("inf"), 3, "inf"),
    ],
)
def test_numbers_have_no_exponent(value: float, digits: int, text: str) -> None:
    assert number_text(value, digits) == text


def test_a_range_of_equal_sizes_is_one_size() -> None:
    assert size_range_text([1 << 13, 8, 1 << 10]) == "8 B - 8 KiB"
    assert size_range_text([1 << 10, 1 << 10]) == "1 KiB"


@pytest.mark.parametrize(
    "text", ["x" * 20_000, "x " * 10_000, "\n" * 20_000, '"' + "x" * 20_000 + '" is no size; write 8M']
)
def test_a_short_message_keeps_its_ends(text: str) -> None:
    short = shorten(text)
    assert len(short) <= 2000
    assert short[:30] == text[:30]
    assert short[-20:] == text[-20:]


def test_ordinary_messages_are_not_shortened() -> None:
    text = f"cannot read /{'x' * 250}: " + "all_reduce, " * 100
    assert shorten(text) == text
