"""Configurations: what belongs into one picture, and which yardsticks stand beside."""

from pathlib import Path

import pytest
from report_pages import svg_root
from sample_logs import STATS, figure, log, row, table

from busbw import readers
from busbw.judge import ReferenceSelection
from busbw.logs.log import Table
from busbw.report.configurations import TableContext, configurations
from busbw.report.page import ConfigurationSection
from busbw.system import System, find

GOLDEN = Path(__file__).resolve().parents[2] / "golden"


def made(
    table: Table, system: System | None = None, against: ReferenceSelection | None = None
) -> list[ConfigurationSection]:
    return configurations(TableContext(table, system, against, is_pictured=True), "x")


def sweep(**changes: object) -> tuple:  # type: ignore[type-arg]
    return tuple(
        row(
            1 << power,
            power,
            figures={"out_of_place": figure(10 + (1 << power) / 1e5, algbw_gbps=None, busbw_gbps=None)},
            **changes,
        )
        for power in range(3, 30)
    )


def test_types_and_operators_stand_apart_and_variants_together() -> None:
    rows = (*sweep(variant="old"), *sweep(variant="new"), *sweep(dtype="half"), *sweep(redop="max"))
    found = made(table(rows=rows, rank_list=()))
    assert [one.title for one in found] == [
        "all_reduce float sum, 4 ranks",
        "all_reduce half sum, 4 ranks",
        "all_reduce float max, 4 ranks",
    ]
    assert [len(one.verdicts) for one in found] == [2, 1, 1]
    assert [entry.label for entry in found[0].pictures[0].legend][:2] == ["old, out of place", "new, out of place"]
    assert found[0].grid is not None
    assert len(found[0].grid.rows) == 54
    assert len({one.anchor for one in found}) == 3


def test_the_range_and_a_reference_are_drawn_when_they_are_known() -> None:
    plain = made(table(rows=sweep(), rank_list=()))[0]
    assert "range" not in plain.pictures[0].svg
    known = made(
        table(rows=sweep(), rank_list=()),
        find("h200-sxm"),
        ReferenceSelection(name="good run", log=log(table(rows=sweep()))),
    )[0]
    for picture in known.pictures[:2]:
        assert picture.legend[-2].label.startswith("range of a healthy system")
        assert picture.legend[-1].label == "reference: good run"


def test_a_log_as_reference_is_drawn_through_its_own_figures() -> None:
    found = made(
        table(rows=sweep(), rank_list=()),
        None,
        ReferenceSelection(name="itself", log=log(table(rows=sweep(), rank_list=()))),
    )[0]
    for picture in found.pictures[:2]:
        root = svg_root(picture.svg)
        measured, reference = (one.get("d") for one in root.iter("path") if one.get("class") == "line")
        assert measured == reference


def test_omitted_rows_are_reported() -> None:
    empty = row(0, 1, figures={"out_of_place": figure(5.0)})
    silent = row(16, 2, figures={"out_of_place": figure(None, algbw_gbps=None, busbw_gbps=0.0)})
    rounded = row(24, 4, figures={"out_of_place": figure(5.0, algbw_gbps=0.0, busbw_gbps=0.0)})
    found = made(table(rows=(empty, silent, row(32, 3), rounded)))[0]
    assert found.omissions == (
        "1 row of size 0: only in the table, because the axis is logarithmic.",
        "1 row without a time or bandwidth above zero: only in the table.",
        "1 row with a busbw of 0.00: not in the plot of busbw.",
    )
    assert found.grid is not None
    assert len(found.grid.rows) == 4


def test_a_table_without_rows_still_has_its_verdict() -> None:
    found = made(table(rows=()))
    assert len(found) == 1
    assert found[0].grid is None
    assert found[0].verdicts[0].badge.word == "UNSURE"


def test_pictures_are_omitted_for_too_many_configurations() -> None:
    found = configurations(TableContext(table(), None, None, is_pictured=False), "x")
    assert found[0].pictures == ()
    assert "No pictures here" in found[0].omissions[0]


SAMPLES = ((5.0, 10.0, 10.0), (10.0, 10.0, 10.0))


@pytest.mark.parametrize("form", ["records 1.1", "nccl-tests JSON, v3"])
def test_samples_do_not_show_late_ranks(form: str) -> None:
    rows = (row(figures={"out_of_place": figure(samples_us=SAMPLES)}),)
    titles = [one.title for one in made(table(format=form, rows=rows))[0].pictures]
    assert titles[2:] == ["Scatter of the iterations, out of place"]


@pytest.mark.parametrize("form", ["records 1.1", "nccl-tests JSON, v3"])
@pytest.mark.parametrize("sample_count", [3, 5])
def test_the_scatter_has_the_iterations_of_the_statistics(form: str, sample_count: int) -> None:
    """With graphs, -K 2 leaves out fewer samples, because an iteration has none."""
    assert STATS.samples == 3
    skipped = figure(samples_us=((50.0,) * (sample_count - 3) + (12.0, 15.5, 24.0),), stats=STATS)
    rows = (row(figures={"out_of_place": skipped}),)
    found = made(table(format=form, rows=rows, settings={"per_iteration_skip": "2"}))
    assert "times of 3 iterations" in found[0].pictures[2].alt_text


def test_own_records_are_shown_whole() -> None:
    found = made(readers.read(GOLDEN / "records.jsonl").tables[0])
    titles = [picture.title for one in found for picture in one.pictures]
    assert "Scatter of the iterations, in place" in titles
