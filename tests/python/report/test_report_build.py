"""The page: whatever a log says is somewhere on it."""

from pathlib import Path

import pytest
from report_pages import page_of, subject
from sample_logs import AWKWARD, figure, log, row, table

from busbw import readers
from busbw.exporters.redact import redact
from busbw.judge import judge
from busbw.logs.log import Rank, Refusal
from busbw.records import LateRankRecord
from busbw.report import build
from busbw.report.build import MAX_PICTURED, MAX_REFUSED


def test_all_facts_of_a_log_are_on_the_page() -> None:
    page = page_of(AWKWARD)
    part = page.logs[0]
    assert part.warnings == AWKWARD.warnings
    assert part.refused is not None
    assert part.refused.rows == (("9", "3 columns are no row", "node17:54321 [0] NCCL INFO secret"),)
    assert part.coverage == "6 of 6 rows read, 1 line refused"
    grids = [one.grid for made in part.tables for one in made.configurations if one.grid]
    assert sum(len(grid.rows) for grid in grids) == len(AWKWARD.rows)
    assert part.tables[0].warnings[-1] == "line 1: the times scatter by 31 %; pin the ranks to cores"
    facts = {fact.name: fact.value for fact in part.tables[0].facts}
    assert facts["complete"] == "no: rank 3 on node17 (pid 54321) was lost"
    assert facts["data"] == "WRONG in 1 of 8 measurements"
    assert {fact.name for fact in part.tables[0].environment} == {"NCCL_SOCKET_IFNAME", "USER", "NCCL_ALGO"}
    silent = {fact.name: fact.value for fact in part.tables[1].facts}
    assert silent["not stated"] == "hosts, devices, library, started"


def test_a_late_rank_and_the_hosts_of_groups_are_on_the_page() -> None:
    late = LateRankRecord(kind="late_start", rank=2, host="n1", late_us=3000.0, message="rank 2 is late")
    late_figure = figure(late_ranks=(late,), warnings=("rank 2 is late",))
    ranks = tuple(Rank(rank=rank, group=rank // 2, host=f"n{rank // 2}") for rank in range(4))
    rows = tuple(row(size, group=1, ranks=2, figures={"out_of_place": late_figure}) for size in (8, 16))
    section = page_of(log(table(rank_list=ranks, rows=rows))).logs[0].tables[0]
    name = "rank 2 on n1 starts each iteration 3000 us after all others, at 2 of 2 sizes"
    assert [warning.partition(";")[0] for warning in section.warnings] == [name]
    configuration = section.configurations[0]
    assert configuration.title == "all_reduce float sum, 2 ranks, group 1 on n1"
    assert [note.value.partition(";")[0] for note in configuration.verdicts[0].notes if note.name == "late rank"] == [
        name
    ]


def test_the_verdict_is_that_of_the_worst() -> None:
    page = page_of(log(), AWKWARD)
    assert page.badge.word == "BROKEN"
    assert sum(count for _, count in page.counts) == sum(
        len(one.verdicts) for made in page.logs for part in made.tables for one in part.configurations
    )
    anchors = {one.anchor for made in page.logs for part in made.tables for one in part.configurations}
    assert {line.anchor for part in page.summary for line in part.lines} <= anchors


@pytest.mark.parametrize("is_redacted", [False, True])
def test_refused_rows_forbid_good_as_in_the_verdict_of_the_log(tmp_path: Path, is_redacted: bool) -> None:
    text = (Path(__file__).parents[2] / "golden/logs/h200_x4_sweep_c1.txt").read_text()
    damaged = tmp_path / "a.log"
    damaged.write_text(text.replace("  100.26  167.33", "     nan  167.33"))
    read = readers.read(damaged)
    assert len(read.refused) == 1
    read = redact(read) if is_redacted else read
    assert [verdict.grade for verdict in judge(read)] == ["UNSURE"]
    page = page_of(read)
    assert page.badge.word == "UNSURE"
    (verdict,) = page.logs[0].tables[0].configurations[0].verdicts
    assert "1 row of the log could not be read" in verdict.reason


def test_two_logs_are_compared_and_three_are_not() -> None:
    assert page_of(log(source="a"), log(source="b")).comparison is not None
    assert page_of(log()).comparison is None
    assert page_of(log(), log(), log()).comparison is None


def test_incomparable_logs_give_a_warning() -> None:
    page = page_of(log(table(rows=(row(8),))), log(table(rows=(row(8, ranks=2),), ranks=2)))
    assert page.comparison is None
    assert page.warnings[0].startswith("The two logs are not compared: A and B have no row in common")


def test_two_variants_in_one_log_are_compared() -> None:
    two = table(rows=(row(8, variant="old"), row(8, 2, variant="new")))
    assert page_of(log(two)).logs[0].comparison is not None
    three = table(rows=(row(8, variant="a"), row(8, 2, variant="b"), row(8, 3, variant="c")))
    assert page_of(log(three)).logs[0].comparison is None
    apart = table(rows=(row(8, variant="a"), row(16, 2, variant="b")))
    assert page_of(log(apart)).logs[0].comparison is None


def test_a_log_of_very_many_configurations_and_refusals() -> None:
    tables = [table(rows=(row(64, redop=f"op{number}"),)) for number in range(MAX_PICTURED + 2)]
    refused = tuple(Refusal(line=number, text="8 x", reason="no row") for number in range(MAX_REFUSED + 5))
    page = build([subject(log(*tables, refused=refused))])
    pictured = [bool(one.pictures) for part in page.logs[0].tables for one in part.configurations]
    assert pictured == [True] * MAX_PICTURED + [False] * 2
    assert page.logs[0].refused is not None
    assert page.logs[0].refused.note == "5 more; `busbw import` lists all."
    assert len(page.logs[0].refused.rows) == MAX_REFUSED


def test_warnings_and_title_of_the_page() -> None:
    page = build([subject(log())], warnings=["one file was left out"], is_redacted=True)
    assert page.warnings == ("one file was left out",)
    assert page.is_redacted
