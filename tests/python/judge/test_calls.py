"""Verdicts on calls of comm_ops by the same calls of a reference run."""

import pytest
from msgspec.structs import replace
from sample_logs import STATS

from busbw.judge import ReferenceSelection, Verdict, judge
from busbw.logs.log import Figure, Log, Rank, Row, Table
from busbw.records import LifecycleRecord

RANKS = tuple(Rank(rank=rank, host="a", bus_id="cpu", device_name="CPU") for rank in range(3))


def run_of(time_us: float, *, test_ranks: int = 6, spread: float = 1.0, **settings: str) -> Log:
    """A run of 3 of `test_ranks` ranks with one call. `spread`: ratio of the ends of the median's interval."""
    stats = replace(STATS, median_us=time_us, p95_us=time_us, median_ci95_us=(time_us / spread, time_us * spread))
    row = Row(
        line=2,
        collective="shrink/create",
        size_bytes=0,
        ranks=3,
        lifecycle=LifecycleRecord(test="shrink", call="create", function=None, test_ranks=test_ranks),
        figures={"unstated": Figure(time_us=time_us, stats=stats, check="not_applicable")},
    )
    table = Table(
        format="records 1.8",
        collective="comm_ops",
        ranks=6,
        rank_list=RANKS,
        settings={"backend": "host", "share": "False", **settings},
        rows=(row,),
        complete=True,
    )
    return Log(source="log", tables=(table,))


def verdict_of(run: Log, reference: Log | None) -> Verdict:
    selection = ReferenceSelection(name="good", log=reference) if reference else None
    (verdict,) = judge(run, selection=selection)
    return verdict


@pytest.mark.parametrize(
    ("time_us", "spread", "grade", "reason"),
    [
        (100, 1, "GOOD", "within its range or better"),
        (20, 1, "GOOD", "within its range or better"),
        # Two starts of ranks on processors may be 2.25 times apart.
        (210, 1, "UNSURE", "2.1 times the typical time, in a range too wide to reject a fault"),
        (240, 1.2, "UNSURE", "too noisy: measure more communicators (-i 20)"),
        (240, 1, "UNSURE", "just beyond the range"),
        (300, 1, "SLOW", "3 times the typical time"),
    ],
)
def test_the_time_of_a_call_is_judged(time_us: float, spread: float, grade: str, reason: str) -> None:
    verdict = verdict_of(run_of(time_us, spread=spread), run_of(100))
    assert verdict.grade == grade
    assert reason in verdict.reasons[0]
    assert not any("not measured" in note or "not checked" in note for note in verdict.beside)


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        (run_of(100, test_ranks=5), "ranks of the test 6 against 5"),
        (run_of(100, share="True"), "method default against share True"),
        (None, "no expectation of communicator operations is known"),
    ],
    ids=["ranks", "share", "none"],
)
def test_other_calls_are_no_yardstick(reference: Log | None, reason: str) -> None:
    verdict = verdict_of(run_of(100), reference)
    assert verdict.grade == "UNSURE"
    assert reason in verdict.reasons[0]


def test_a_reference_without_rows_is_named() -> None:
    empty = Log(source="good", tables=(replace(run_of(100).tables[0], rows=()),))
    verdict = verdict_of(run_of(100), empty)
    assert verdict.reasons == ("good contains no rows",)
    assert verdict.advice == ("give a good run of the same machine (--reference FILE)",)


def test_a_published_reference_without_calls_is_named() -> None:
    selection = ReferenceSelection(name="published", nearest=True)
    (verdict,) = judge(run_of(100), selection=selection)
    assert verdict.reasons == ("no published figures of shrink/create",)


def test_a_call_without_a_time_is_measured_again() -> None:
    run = run_of(100)
    row = replace(run.tables[0].rows[0], figures={"unstated": Figure(check="not_applicable")})
    verdict = verdict_of(Log(source="log", tables=(replace(run.tables[0], rows=(row,)),)), run)
    assert verdict.reasons == ("no row of the call has a time",)
    assert verdict.advice == ("measure the call again",)


def run_of_two_sizes(first_us: float, second_us: float) -> Log:
    """A run with one call, which has a time at 16 bytes and one at 32 bytes."""
    times_us = {16: first_us, 32: second_us}
    rows = tuple(
        replace(run_of(time_us).tables[0].rows[0], size_bytes=size_bytes) for size_bytes, time_us in times_us.items()
    )
    return Log(source="log", tables=(replace(run_of(1).tables[0], rows=rows),))


@pytest.mark.parametrize(
    ("times_us", "grade"),
    [((100, 100), "GOOD"), ((100, 300), "SLOW"), ((300, 100), "SLOW"), ((240, 210), "UNSURE")],
)
def test_the_worst_time_of_a_call_with_several_sizes_decides(times_us: tuple[float, float], grade: str) -> None:
    verdict = verdict_of(run_of_two_sizes(*times_us), run_of_two_sizes(100, 100))
    assert verdict.grade == grade
    (band,) = verdict.bands
    assert [figure.size_bytes for figure in band.judged] == [16, 32]
    assert band.worst.time_us == max(times_us)
