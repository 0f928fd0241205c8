"""The comparison on the page, held against the comparison itself."""

from pathlib import Path

from report_pages import svg_root
from sample_logs import WRONG, figure, log, row, table

from busbw import readers
from busbw.compare import ChangeVerdict, compare_logs, compare_variants
from busbw.logs.log import Rank
from busbw.report.ratios import comparison_section

SEEDS = Path(__file__).resolve().parents[2] / "golden" / "seeds"
TWO_LIBRARIES = next(SEEDS.glob("002_*"))


def test_two_libraries_of_a_published_table() -> None:
    comparison = compare_variants(readers.read(TWO_LIBRARIES))
    made = comparison_section(comparison, "here")
    assert made.title == "MSCCL against NCCL"
    assert len(made.pictures) == len(made.grids) == 2
    rows = [line for grid in made.grids for line in grid.rows]
    assert len(rows) == len(comparison.results) == 42
    counted = {fact.name: int(fact.value.split()[0]) for fact in made.counts}
    verdicts = [line[5] for line in rows]
    assert counted == {word: verdicts.count(word) for word in dict.fromkeys(verdicts)}
    words = " ".join(made.sentences)
    assert "40 agree with its figures and 2 do not" in words
    assert "1.80x" in words
    marks = [
        one
        for picture in made.pictures
        for one in svg_root(picture.svg).iter("g")
        if "ratio" in (one.get("class") or "")
    ]
    assert len(marks) == 42


def test_marks_of_verdicts_differ_in_shape() -> None:
    comparison = compare_variants(readers.read(TWO_LIBRARIES))
    made = comparison_section(comparison, "here")
    shapes = {
        (one.get("class") or ""): one.findall("path")[-1].get("d", "").lstrip("M0123456789. ")
        for picture in made.pictures
        for one in svg_root(picture.svg).iter("g")
        if "ratio" in (one.get("class") or "")
    }
    assert len(set(shapes.values())) == len(shapes) > 1


def test_wrong_data_differences_and_rows_of_one_side() -> None:
    a = log(table(rows=(row(8), row(16, 2), row(32, 3))), source="a")
    b = log(table(rows=(row(8, figures={"out_of_place": WRONG}), row(16, 2)), library="NCCL 2.30"), source="b")
    made = comparison_section(compare_logs(a, b), "here")
    assert made.title == "B (b) against A (a)"
    assert [
        picture.title.partition(":")[0]
        for picture in comparison_section(compare_logs(a, b), "here", has_curves=True).pictures
    ] == [
        "all_reduce float sum, 4 ranks, out of place",
        "A and B",
        "all_reduce float sum, 4 ranks, in place",
        "A and B",
    ]
    assert len(made.wrong_data) == 1
    assert made.wrong_data[0].startswith("B has wrong data")
    assert made.differences is not None
    assert ("library", "NCCL 2.28.9", "NCCL 2.30") in made.differences.rows
    assert any(
        sentence.startswith("Only in A and not compared: ") and "32 B" in sentence for sentence in made.sentences
    )


def test_sizes_without_a_common_figure_have_no_ratio() -> None:
    only_bandwidth = row(8, figures={"in_place": figure(None, algbw_gbps=None, busbw_gbps=1.0)})
    only_time = row(8, figures={"in_place": figure(3.0, algbw_gbps=None, busbw_gbps=None)})
    comparison = compare_logs(log(table(rows=(only_bandwidth,))), log(table(rows=(only_time,))))
    made = comparison_section(comparison, "here")
    if comparison.results[0].speedup is None:
        assert made.pictures == ()
        assert made.grids[0].rows[0][3] == ""
    assert comparison.results[0].verdict is ChangeVerdict.UNCLEAR


def test_the_picture_and_the_text_state_one_limit_of_a_change() -> None:
    """Two starts of the host backend may be 2.25 times apart, so the band is not the resolution of 5 %."""
    cpu_ranks = tuple(Rank(rank=number, bus_id="cpu", device_name="AMD EPYC", host="vm") for number in range(4))
    sides = [
        log(
            table(
                rank_list=cpu_ranks,
                settings={"backend": "host"},
                rows=(row(8, figures=figures), row(16, 2, figures=figures)),
            )
        )
        for figures in ({"in_place": figure(10.0)}, {"in_place": figure(18.0)})
    ]
    comparison = compare_logs(*sides)
    assert {result.verdict for result in comparison.results} == {ChangeVerdict.UNCLEAR}
    assert {result.reason for result in comparison.results} == {
        "single figures cannot distinguish a difference below a factor of 2.25 from noise."
    }
    made = comparison_section(comparison, "here")
    assert any("a factor of 2.25 (host backend)" in sentence for sentence in made.sentences)
    legend = [entry.label for entry in made.pictures[0].legend]
    assert "no change counts below a factor of 2.25" in legend
    assert not any("5 %" in label for label in legend)


def test_with_enough_runs_the_legend_states_the_resolution() -> None:
    """Four runs show their variation, so a change of 3 % counts, although it is within the band."""
    sides = [
        log(
            *(
                table(
                    settings={"run_id": str(run)},
                    rows=tuple(
                        row(size, figures={"in_place": figure(time_us + run / 100, algbw_gbps=None, busbw_gbps=None)})
                        for size in (8, 16)
                    ),
                )
                for run in range(4)
            )
        )
        for time_us in (103.0, 100.0)
    ]
    comparison = compare_logs(*sides)
    assert {(result.basis, result.verdict) for result in comparison.results} == {("runs", ChangeVerdict.FASTER)}
    (picture,) = comparison_section(comparison, "here").pictures
    legend = [entry.label for entry in picture.legend]
    assert "below the resolution of 5 %" in legend
    assert not any("no change counts" in label for label in legend)
