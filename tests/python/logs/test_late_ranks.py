"""Late ranks of handmade rows."""

import pytest
from sample_logs import figure, row

from busbw.logs.late_ranks import late_ranks, other_warnings
from busbw.logs.log import Figure, Row
from busbw.records import LateRankKind, LateRankRecord


def late(rank: int, late_us: float, kind: LateRankKind = "late_start") -> LateRankRecord:
    return LateRankRecord(kind=kind, rank=rank, host=f"n{rank}", late_us=late_us, message=f"rank {rank} is late")


def row_of(size_bytes: int, *late_of_placements: LateRankRecord) -> Row:
    figures: dict[object, Figure] = {
        placement: figure(late_ranks=(one,))
        for placement, one in zip(("out_of_place", "in_place"), late_of_placements, strict=False)
    }
    return row(size_bytes, figures=figures or {"out_of_place": figure()})


def test_a_rank_is_named_with_host_delay_and_sizes() -> None:
    rows = [row_of(8, late(2, 3000), late(2, 3100)), row_of(16, late(2, 5000)), row_of(32)]
    (found,) = late_ranks(rows)
    assert (found.rank, found.host, found.late_us, found.sizes, found.measured_sizes) == (2, "n2", 3100, 2, 3)
    assert found.text.startswith("rank 2 on n2 starts each iteration 3100 us after all others, at 2 of 3 sizes; check ")


def test_one_size_of_several_may_be_chance() -> None:
    assert late_ranks([row_of(8, late(2, 3000), late(2, 3000)), row_of(16)]) == ()
    assert len(late_ranks([row_of(8, late(2, 3000))])) == 1


def test_several_ranks_are_named_the_latest_first() -> None:
    rows = [row_of(size, late(1, 20), late(3, 50)) for size in (8, 16)]
    assert [found.rank for found in late_ranks(rows)] == [3, 1]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("late_start", "starts each iteration 20 us after all others"),
        ("slow_launch", "takes 20 us longer than others to launch an operation"),
        ("late_first", "began 20 us after all others"),
        ("slow_call", "takes 20 us longer for a call than the median of its equals"),
    ],
)
def test_each_kind_has_its_sentence(kind: LateRankKind, words: str) -> None:
    (found,) = late_ranks([row_of(8, late(2, 20, kind))])
    assert words in found.text


def test_warnings_about_late_ranks_are_not_repeated() -> None:
    one = figure(late_ranks=(late(2, 20),), warnings=("rank 2 is late", "the clock moved"))
    assert other_warnings(one) == ["the clock moved"]
