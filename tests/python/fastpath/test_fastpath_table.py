"""Tests of the command's parser and writer for tables of the fast path."""

import re

import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st

from busbw.errors import UsageError
from busbw.fastpath.search import MethodConfig, fits_side_by_side
from busbw.fastpath.table import (
    MAX_RANKS,
    METHODS,
    METHODS_IN_WINDOWS,
    TableRange,
    default_name,
    default_names,
    default_text,
    merged,
    parse,
    table_size_text,
    table_text,
)
from busbw.units import parse_size

BEFORE = "all_reduce ranks=4 up_to=1K exchange blocks=1 threads=32\n"
AGREED = [
    line.partition(" ")
    # A line ends at a line feed, and nowhere else.
    for line in (ROOT / "tests/golden/fastpath_table_lines.txt").read_bytes().decode().split("\n")
    if line and not line.startswith("#")
]


@pytest.mark.parametrize(("verdict", "line"), [(verdict, line) for verdict, _, line in AGREED])
def test_the_command_accepts_the_same_lines_as_the_library(verdict: str, line: str) -> None:
    if verdict == "good":
        parse(BEFORE + line, "t")
        return
    with pytest.raises(UsageError, match=r"^t:2: .+; .+"):
        parse(BEFORE + line, "t")


def test_there_are_lines_of_both_kinds() -> None:
    assert {verdict for verdict, _, _ in AGREED} == {"good", "bad"}
    assert len(AGREED) > 40


def constant(name: str, file: str) -> int:
    found = re.search(rf"\b{name} = (\d+);", (ROOT / "fastpath" / file).read_text())
    assert found, (name, file)
    return int(found[1])


def test_the_limits_equal_those_of_the_library() -> None:
    parse(
        f"{BEFORE}all_reduce ranks=4 up_to=2K exchange blocks={constant('kMaxBlocks', 'schedule/grid.hpp')} threads=32",
        "t",
    )
    parse(
        f"{BEFORE}all_reduce ranks=4 up_to=2K exchange blocks=1 threads={constant('kMaxThreads', 'schedule/grid.hpp')}",
        "t",
    )
    assert constant("kMaxTableRanks", "choice/table.hpp") == MAX_RANKS


@pytest.mark.parametrize("name", default_names())
def test_default_tables_are_valid(name: str) -> None:
    found = parse(default_text(name), name)
    tuned = {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "alltoall"}
    assert tuned <= {each.collective for each in found}
    assert parse(table_text(found), "again") == found
    assert default_text("sm_70") == ""


@pytest.mark.parametrize("name", default_names())
def test_default_tables_leave_room_for_three_communicators(name: str) -> None:
    for each in parse(default_text(name), name):
        for ranks in range(each.min_ranks, each.max_ranks + 1):
            assert fits_side_by_side(MethodConfig(each.blocks, each.threads, each.method), ranks), each


def test_the_default_table_depends_on_nvls() -> None:
    assert default_name("sm_90", {}) == default_name("sm_90", {"NCCL_NVLS_ENABLE": "1"}) == "sm_90"
    assert default_name("sm_90", {"NCCL_NVLS_ENABLE": "0"}) == "sm_90_without_nvls"
    assert default_name("sm_80", {"NCCL_NVLS_ENABLE": "0"}) == "sm_80"
    assert default_name("", {"NCCL_NVLS_ENABLE": "0"}) == ""


def test_the_page_names_every_variable_and_no_other() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "fastpath").rglob("*.cpp"))
    read = set(re.findall(r"\bBUSBW_FASTPATH(?:_[A-Z]+)*\b", sources)) - {"BUSBW_FASTPATH_EXPORTS"}
    read |= {f"BUSBW_FASTPATH_{name.upper()}" for name in METHODS}
    page = (ROOT / "docs/reference/environment.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `BUSBW_FASTPATH")]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert named == read


def test_lines_with_overlapping_ranks_must_not_overlap_in_size() -> None:
    with pytest.raises(UsageError, match="all_reduce of 3 ranks already has a line up to 4K"):
        parse("all_reduce ranks=2-3 up_to=4K nccl\nall_reduce ranks=3-8 up_to=4096 nccl\n", "t")


def test_lines_for_windows_are_separate() -> None:
    lines = "all_reduce ranks=2-4 up_to=4K nccl\nall_reduce ranks=4 windows up_to=2K nccl\n"
    assert [each.in_windows for each in parse(lines, "t")] == [False, True]
    with pytest.raises(UsageError, match="all_reduce of 4 ranks in windows already has a line up to 2K"):
        parse(f"{lines}all_reduce ranks=2-8 windows up_to=2K nccl\n", "t")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "all_gather ranks=4 up_to=2K direct blocks=1 threads=32",
            '"direct" is not a method for all_gather; give nccl or exchange',
        ),
        ("broadcast ranks=4 windows up_to=2K nccl", "a line for nccl has ranks, up_to, each once"),
        (
            "all_gather windows ranks=4 windows up_to=2K nccl",
            "a line for nccl has ranks, up_to, each once",
        ),
        ("broadcast ranks=4 up_to=2K direct blocks=1 threads=32", "give nccl, exchange or two_shot"),
        ("all_gather ranks=4 windows up_to=2K two_shot blocks=1 threads=32", "give nccl, direct or exchange"),
    ],
)
def test_invalid_lines_for_windows_are_refused(line: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(line, "t")
    assert sentence in f"{caught.value.problem}; {caught.value.remedy}"


CHOICES = st.one_of(
    st.just(("nccl", 0, 0)),
    st.tuples(st.just("exchange"), st.integers(1, 256), st.integers(1, 16).map(lambda warps: 32 * warps)),
)


KEYS = [(name, False) for name in METHODS] + [(name, True) for name in METHODS_IN_WINDOWS]


@given(st.sampled_from(KEYS), st.lists(st.tuples(st.integers(1, 1 << 34), CHOICES), max_size=12))
def test_any_table_is_read_as_it_was_written_and_merging_changes_no_choice(
    key: tuple[str, bool], ends: list[tuple[int, tuple[str, int, int]]]
) -> None:
    collective, in_windows = key
    lines = [
        TableRange(collective, 2, 8, end, *choice, in_windows=in_windows) for end, choice in sorted(dict(ends).items())
    ]
    assert parse(table_text(lines, ["a comment"]), "t") == lines
    fewer = merged(lines)
    assert len(fewer) <= len(lines)
    assert not in_windows or bool(fewer) == bool(lines)  # without any, other lines would hold

    def choice(table: list[TableRange], size: int) -> tuple[str, int, int]:
        found = next((each for each in table if size <= each.up_to_bytes), TableRange(collective, 2, 8, 1))
        return found.method, found.blocks, found.threads

    for line in lines:
        for size in (line.up_to_bytes, line.up_to_bytes + 1):
            assert choice(fewer, size) == choice(lines, size)


@given(st.integers(1, 1 << 40))
def test_sizes_are_words_and_back(size: int) -> None:
    assert parse_size(table_size_text(size)) == size


def test_notes_are_comments() -> None:
    line = TableRange("all_reduce", 4, 4, 65536, "exchange", 8, 512, note="4.3 us, NCCL 10.6 us")
    assert line.text == "all_reduce ranks=4 up_to=64K exchange blocks=8 threads=512  # 4.3 us, NCCL 10.6 us"
    assert parse(line.text, "t")[0].note == ""
