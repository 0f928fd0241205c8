"""Verdicts on the page: nothing of a verdict is lost, and lines that say the same share one."""

import pytest
from sample_logs import log, row, table

from busbw.judge import Grade, judge
from busbw.judge import Verdict as Judgement
from busbw.judge.types import ReasonKind
from busbw.report.verdicts import headline, summary_lines, verdict_view
from busbw.system import find


def slow_run() -> Judgement:
    from sample_logs import figure

    rows = tuple(
        row(
            1 << power,
            power,
            ranks=8,
            figures={"out_of_place": figure(50 + (1 << power) / 20e3, algbw_gbps=None, busbw_gbps=None)},
        )
        for power in range(20, 34)
    )
    (verdict,) = judge(log(table(rows=rows, ranks=8, rank_list=())), system=find("h100-sxm"))
    assert verdict.grade == "SLOW"
    return verdict


def test_all_of_a_verdict_is_shown() -> None:
    verdict = slow_run()
    made = verdict_view(verdict)
    assert made.badge.word == "SLOW"
    said = [note.value for note in made.notes]
    for sentence in (*verdict.reasons, *verdict.causes, *verdict.advice, *verdict.beside):
        assert sentence in said
    assert made.reason == verdict.reasons[0]
    assert [band.band for band in made.bands] == [band.band for band in verdict.bands]


def test_a_band_of_bandwidth_shows_bandwidth() -> None:
    verdict = slow_run()
    plateau = verdict_view(verdict).bands[-1]
    worst = verdict.bands[-1].worst
    measured, unit = plateau.measured.split()
    assert unit == "GB/s"
    low, high = (float(word) for word in plateau.expected.removesuffix(" GB/s").split(" to "))
    assert float(measured) < low < high
    assert worst.busbw_gbps == pytest.approx(float(measured), rel=1e-3)
    assert high / low == pytest.approx(worst.range_us.high / worst.range_us.low, rel=2e-3)


def verdict(grade: Grade, kind: ReasonKind, reason: str, title: str) -> Judgement:
    return Judgement(grade=grade, reason_kind=kind, title=title, yardstick="nothing", reasons=(reason,))


def test_lines_with_the_same_kind_of_obstacle_are_merged() -> None:
    entries = [
        ("#1", "a", verdict_view(verdict("UNSURE", "contradiction", "the figures contradict each other: line 7", "a"))),
        ("#2", "b", verdict_view(verdict("UNSURE", "contradiction", "the figures contradict each other: line 9", "b"))),
        ("#3", "c", verdict_view(verdict("UNSURE", "one_rank", "one rank", "c"))),
        ("#4", "d", verdict_view(verdict("BROKEN", "wrong_data", "wrong data", "d"))),
        ("#5", "e", verdict_view(verdict("BROKEN", "wrong_data", "wrong data", "e"))),
    ]
    lines = summary_lines(entries)
    assert [(line.anchor, line.title, line.also) for line in lines] == [
        ("#4", "d", ()),
        ("#5", "e", ()),
        ("#1", "a", ("b: the figures contradict each other: line 9",)),
        ("#3", "c", ()),
    ]


@pytest.mark.parametrize(
    ("grades", "sentence"),
    [
        (["GOOD"], "1 configuration in 1 log: 1 is as fast as expected."),
        (
            ["UNSURE", "SLOW", "SLOW"],
            "3 configurations in 1 log: 2 are slower than expected, 1 cannot be judged.",
        ),
        (["GOOD", "BROKEN"], "2 configurations in 1 log: 1 has wrong data, 1 is as fast as expected."),
    ],
)
def test_headline_names_the_worst_first(grades: list, sentence: str) -> None:  # type: ignore[type-arg]
    assert headline(grades, 1) == sentence
