"""A reference of another method decides nothing. One that does not state its method counts as equal."""

import pytest

from busbw.judge import ReferenceSelection, Verdict, judge
from busbw.logs.log import Figure, Log, Rank, Row, Table

DEFAULTS = {"agg iters": "1", "graph": "0", "unalign": "0", "blocking": "0", "average": "1"}


def measured(settings: dict[str, str], factor: float = 1.0) -> Log:
    """Returns a run on 4 H200 with these settings. Its times are multiplied by `factor`."""
    rows = tuple(
        Row(
            line=1,
            size_bytes=1 << power,
            dtype="float",
            redop="sum",
            figures={"out_of_place": Figure(time_us=factor * (10 + (1 << power) / 1e5))},
        )
        for power in range(10, 31)
    )
    ranks = tuple(Rank(rank=rank, host="n0", device_name="NVIDIA H200") for rank in range(4))
    table = Table(
        format="a test", collective="all_reduce", ranks=4, rank_list=ranks, rows=rows, settings=settings, complete=True
    )
    return Log(source="a test", tables=(table,))


def verdict_on(run: Log, reference: Log) -> Verdict:
    (verdict,) = judge(run, selection=ReferenceSelection(name="earlier", log=reference))
    return verdict


@pytest.mark.parametrize("factor", [0.1, 1.0, 10.0])
@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("agg iters", "20", "aggregated_iterations 20"),
        ("aggregated_iterations", "20", "aggregated_iterations 20"),
        ("graph", "50", "graph_launches 50"),
        ("graph_launches", "50", "graph_launches 50"),
        ("unalign", "1", "unalign_elements 1"),
        ("blocking", "1", "blocking 1"),
        ("average", "0", "average 0"),
    ],
)
def test_another_method_is_not_comparable(name: str, value: str, text: str, factor: float) -> None:
    default, other = measured({"nGpus": "1", **DEFAULTS}, factor), measured({"nGpus": "1", name: value})
    for run, reference, difference in (
        (default, other, f"method default against {text}"),
        (other, default, f"method {text} against default"),
    ):
        verdict = verdict_on(run, reference)
        assert (verdict.grade, verdict.reason_kind) == ("UNSURE", "not_comparable")
        assert difference in verdict.reasons[0]
        assert verdict.bands == ()


@pytest.mark.parametrize("settings", [{}, {"nGpus": "1", **DEFAULTS}, {"nGpus": "1", "graph": "50"}])
def test_the_same_method_is_comparable(settings: dict[str, str]) -> None:
    verdict = verdict_on(measured(settings), measured(settings))
    assert verdict.grade == "GOOD"
    assert "method" not in " ".join(text for _, text in verdict.labeled_sentences())


def test_a_method_that_one_log_does_not_state_counts_as_equal_and_is_noted() -> None:
    stated, silent = measured({"nGpus": "1", "graph": "50"}), measured({})
    for run, reference, note in (
        (stated, silent, "method not stated by the reference"),
        (silent, stated, "method not stated by the run"),
    ):
        verdict = verdict_on(run, reference)
        assert verdict.grade == "GOOD"
        assert note in " ".join(text for _, text in verdict.labeled_sentences())


def test_other_launches_are_noted() -> None:
    verdict = verdict_on(measured({"nGpus": "1"}), measured({"nGpus": "4"}))
    assert verdict.grade == "GOOD"
    assert "launches 1 per thread against 4 per thread" in " ".join(text for _, text in verdict.labeled_sentences())
