"""Who came last: against arrivals that were made by hand."""

import itertools
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_pages import svg_root
from sample_logs import figure

from busbw.report.lateness import MOST_RANKS, Late, lateness, level, picture


@given(st.integers(2, 5), st.integers(1, 12), st.integers(1, 6), st.randoms(use_true_random=False))
def test_lateness_is_the_distance_of_moments_within_a_batch(ranks: int, count: int, batch: int, random) -> None:  # type: ignore[no-untyped-def]
    samples = [[random.uniform(1, 9) for _ in range(count)] for _ in range(ranks)]
    found = lateness([figure(samples_us=tuple(map(tuple, samples)))], batch)
    assert found is not None
    moments = []
    for own in samples:
        batches = (own[start : start + batch] for start in range(0, count, batch))
        moments.append([moment for each in batches for moment in itertools.accumulate(each)])
    firsts = [min(done) for done in zip(*moments, strict=True)]
    for rank, late in enumerate(found):
        behind = [moment - first for moment, first in zip(moments[rank], firsts, strict=True)]
        assert late.behind_us == pytest.approx(statistics.median(behind), abs=1e-9)


def test_a_rank_that_arrives_late_is_seen_though_its_own_operations_are_short() -> None:
    # Rank 1 dawdles before each operation, and the others wait for it: their samples are as long as its own.
    found = lateness([figure(samples_us=((5.0, 10.0, 10.0), (10.0, 10.0, 10.0)))], 3)
    assert found == [Late(behind_us=0.0, last_share=0.0), Late(behind_us=5.0, last_share=1.0)]


def test_without_a_common_beginning_each_iteration_stands_alone() -> None:
    found = lateness([figure(samples_us=((5.0, 10.0, 10.0), (10.0, 10.0, 10.0)))], None)
    assert found is not None
    assert [late.behind_us for late in found] == [0, 0]
    assert [late.last_share for late in found] == pytest.approx([2 / 3, 1])


@pytest.mark.parametrize("samples", [(), ((1.0, 2.0),), ((1.0, 2.0), (1.0,)), ((), ())])
def test_no_figure_without_the_samples_of_two_ranks(samples: tuple[tuple[float, ...], ...]) -> None:
    assert lateness([figure(samples_us=samples)], 2) is None


def test_the_picture_names_the_worst_and_says_it_of_every_cell() -> None:
    by_size = {8: [Late(0.0, 0.0), Late(2.0, 0.9)], 16: [Late(0.5, 0.1), Late(0.0, 0.0)]}
    made = picture("Who came last", by_size, {8: 10.0, 16: 100.0}, is_arrival=True)
    assert made is not None
    assert "rank 1 at 8 B: 2 us behind the first, 20% of the operation" in made.text
    root = svg_root(made.svg)
    titles = [one.text for one in root.iter("title")]
    assert titles == [
        "0 us behind, last in 0% of the iterations",
        "0.5 us behind, last in 10% of the iterations",
        "2 us behind, last in 90% of the iterations",
        "0 us behind, last in 0% of the iterations",
    ]


def test_of_very_many_ranks_the_latest_are_shown() -> None:
    ranks = [Late(float(number == 70), 0.0) for number in range(100)]
    made = picture("Who came last", {8: ranks}, {8: 2.0}, is_arrival=True)
    assert made is not None
    assert f"Of 100 ranks the {MOST_RANKS}" in made.note
    names = [one.text for one in svg_root(made.svg).iter("text") if (one.text or "").startswith("rank ")]
    assert len(names) == MOST_RANKS
    assert "rank 70" in names


def test_nothing_to_show() -> None:
    assert picture("Who came last", {}, {}, is_arrival=True) is None


def test_shades_grow_with_the_share() -> None:
    assert [level(share) for share in (0, 0.02, 0.03, 0.07, 0.2, 0.5)] == [0, 0, 1, 2, 3, 4]
