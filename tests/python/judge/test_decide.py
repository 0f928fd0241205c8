"""The grade of a configuration, from all evidence at once."""

import pytest
from msgspec.structs import replace

from busbw.expect import ExpectedRange
from busbw.judge.grade import Evidence, decide
from busbw.judge.types import BandVerdict, Grade, JudgedFigure, Reason
from busbw.statistics.bands import BandName

WRONG, OBSTACLE = Reason("wrong_data", "wrong"), Reason("one_rank", "one rank")
DOUBT, REFUSED = Reason("ended_early", "early"), Reason("refused_rows", "refused")
NICS = Reason("assumed_nics", "NICs")
FIGURE = JudgedFigure(
    size_bytes=8,
    placement="unstated",
    time_us=1.0,
    busbw_gbps=None,
    range_us=ExpectedRange(low=1, typical=1, high=1),
    outcome="inside",
)


def bands(grade: Grade) -> tuple[BandVerdict, ...]:
    return (BandVerdict(band="latency", grade=grade, reason="why", judged=(FIGURE,), worst=FIGURE),)


def test_the_reason_of_the_worst_band_is_first() -> None:
    by_band: dict[BandName, Grade] = {"latency": "GOOD", "middle": "UNSURE", "plateau": "SLOW"}
    slow = replace(FIGURE, outcome="slower")
    evidence = tuple(
        BandVerdict(band=band, grade=grade, reason="why", slow_sizes_bytes=(8,), judged=(slow,), worst=slow)
        for band, grade in by_band.items()
    )
    decision = decide(Evidence(bands=evidence))
    assert [reason.text for reason in decision.reasons] == ["plateau: why", "middle: why", "latency: why"]
    assert decision.bands == evidence, "the table keeps the order of the sizes"


@pytest.mark.parametrize(
    ("evidence", "grade", "kinds"),
    [
        (Evidence(wrong_data=(WRONG,), obstacles=(OBSTACLE,)), "BROKEN", ["wrong_data"]),
        (Evidence(obstacles=(OBSTACLE,), bands=bands("SLOW")), "UNSURE", ["one_rank"]),
        (Evidence(bands=bands("GOOD")), "GOOD", ["in_range"]),
        (Evidence(bands=bands("GOOD"), refused_rows=REFUSED, assumed_nics=NICS), "UNSURE", ["refused_rows"]),
        (Evidence(bands=bands("GOOD"), refused_rows=REFUSED, doubts=(DOUBT,)), "UNSURE", ["ended_early"]),
        (Evidence(bands=bands("SLOW"), refused_rows=REFUSED, doubts=(DOUBT,)), "SLOW", ["band", "ended_early"]),
        (Evidence(bands=bands("SLOW"), assumed_nics=NICS), "UNSURE", ["assumed_nics", "band"]),
        (Evidence(bands=bands("UNSURE"), assumed_nics=NICS), "UNSURE", ["band"]),
    ],
)
def test_grade_and_reasons(evidence: Evidence, grade: Grade, kinds: list[str]) -> None:
    decision = decide(evidence)
    assert decision.grade == grade
    assert [reason.kind for reason in decision.reasons] == kinds
    assert all(band.grade != "SLOW" for band in decision.bands) or grade == "SLOW"
