"""Heat maps of handmade arrivals."""

from pathlib import Path

import pytest
from report_pages import svg_root
from sample_logs import figure, row, table

from busbw import readers
from busbw.logs.log import Rank
from busbw.report.arrivals import MAX_RANKS, arrival_heat_map, arrivals, shade_level
from busbw.report.configurations import TableContext, configurations

RECORD = Path(__file__).resolve().parents[2] / "golden" / "late_rank_h200_x4.jsonl"


def test_arrivals_are_the_median_over_passes() -> None:
    passes = [figure(arrivals_us=late) for late in ((0.0, 4.0), (0.0, 2.0), (9.0, 0.0))]
    assert arrivals(passes) == [0.0, 2.0]
    assert arrivals([figure(), figure(arrivals_us=(0.0, 3.0))]) == [0.0, 3.0]


@pytest.mark.parametrize("several", [[()], [(0.0, 1.0), (0.0, 1.0, 2.0)], []])
def test_no_arrivals_where_none_are_known(several: list[tuple[float, ...]]) -> None:
    # Samples, of which there are some, say nothing of it: the longest are of those who waited.
    samples = ((315.0, 17.0), (17.0, 17.0))
    assert arrivals([figure(samples_us=samples, arrivals_us=late) for late in several]) is None


def test_the_latest_rank_on_four_gpus_is_that_of_the_record() -> None:
    """Its first sample is the shortest, 17.6 us: it waited for nobody, and the others 297 us for it."""
    (read,) = readers.read(RECORD).tables
    (shown,) = configurations(TableContext(read, None, None, is_pictured=True), "x")
    (made,) = (one for one in shown.pictures if one.title.startswith("Late ranks"))
    assert "The latest is rank 3 at 1 MiB: it began 297" in made.alt_text


def test_ranks_of_a_group_have_the_numbers_of_the_whole_job() -> None:
    ranks = tuple(Rank(rank=number, group=number % 2) for number in range(4))
    rows = (row(group=1, ranks=2, figures={"out_of_place": figure(arrivals_us=(0.0, 50.0))}),)
    (shown,) = configurations(TableContext(table(rank_list=ranks, rows=rows), None, None, is_pictured=True), "x")
    (made,) = (one for one in shown.pictures if one.title.startswith("Late ranks"))
    assert "rank 3 at 8 B" in made.alt_text
    names = [one.text for one in svg_root(made.svg).iter("text") if (one.text or "").startswith("rank ")]
    assert names == ["rank 1", "rank 3"]


def test_the_picture_names_the_latest_rank_and_each_cell_has_a_tooltip() -> None:
    made = arrival_heat_map("Late ranks", {8: [0.0, 20.0], 16: [0.5, 0.0]}, [0, 1])
    assert made is not None
    assert "The latest is rank 1 at 8 B: it began 20 us after the first rank." in made.alt_text
    assert made.note.startswith("The latest is rank 1 at 8 B: it began 20 us after the first rank. ")
    titles = [one.text for one in svg_root(made.svg).iter("title")]
    assert titles == [f"{late} us after the first" for late in ("0", "0.5", "20", "0")]


def test_of_very_many_ranks_the_latest_are_shown() -> None:
    made = arrival_heat_map("Late ranks", {8: [float(number == 70) for number in range(100)]}, range(100))
    assert made is not None
    assert f"Of 100 ranks, the {MAX_RANKS}" in made.note
    names = [one.text for one in svg_root(made.svg).iter("text") if (one.text or "").startswith("rank ")]
    assert len(names) == MAX_RANKS
    assert "rank 70" in names


def test_nothing_to_show() -> None:
    assert arrival_heat_map("Late ranks", {}, [0, 1]) is None
    assert arrival_heat_map("Late ranks", {8: [0.0, 1.0]}, [0, 1, 2]) is None  # the arrivals' ranks are not known
    assert arrival_heat_map("Late ranks", {8: [0.0]}, [0]) is None


def test_shades_grow_with_the_time() -> None:
    assert [shade_level(late_us) for late_us in (0, 10, 11, 70, 200, 500)] == [0, 0, 1, 2, 3, 4]
