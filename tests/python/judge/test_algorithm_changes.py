"""Likely causes of dips, cliffs and steps that agree with the algorithms of a log."""

import pytest

from busbw.judge import judge
from busbw.judge.curve_findings import explain_by_algorithms
from busbw.judge.series import SeriesPoint
from busbw.logs.log import Figure, Log, Row, Table
from busbw.statistics.fit import CurveFeature

KIB = 1024


def feature(kind: str, size_bytes: int = 64 * KIB) -> CurveFeature:
    return CurveFeature(kind=kind, size_bytes=size_bytes, depth=0.5, evidence="slow", likely="unknown")  # type: ignore[arg-type]


def sweep(*algorithms: str) -> list[SeriesPoint]:
    """Points at 32 KiB, 64 KiB, ..."""
    return [
        SeriesPoint(size_bytes=32 * KIB << i, placement="in_place", time_us=1.0, busbw_gbps=None, algorithm=name)
        for i, name in enumerate(algorithms)
    ]


@pytest.mark.parametrize("kind", ["dip", "cliff", "step"])
def test_a_change_at_the_size_of_a_feature_explains_it(kind: str) -> None:
    (found,) = explain_by_algorithms([feature(kind)], sweep("tree/ll128", "ring/simple"))
    assert found.likely == "because NCCL uses ring/simple from 64 KiB on instead of tree/ll128"
    assert found.evidence == "slow"


@pytest.mark.parametrize("algorithms", [("", "ring/ll"), ("ring/ll", ""), ("", "")])
def test_an_unknown_algorithm_explains_nothing(algorithms: tuple[str, str]) -> None:
    assert explain_by_algorithms([feature("cliff")], sweep(*algorithms)) == (feature("cliff"),)


def test_a_step_without_a_change_is_not_called_a_switch() -> None:
    step, cliff = explain_by_algorithms([feature("step"), feature("cliff")], sweep("ring/ll", "ring/ll"))
    assert step.likely == "a disturbance, because NCCL uses ring/ll before and after it"
    assert cliff == feature("cliff")


def test_a_change_at_another_size_explains_nothing() -> None:
    assert explain_by_algorithms([feature("cliff")], sweep("tree/ll", "tree/ll", "ring/ll")) == (feature("cliff"),)
    assert explain_by_algorithms([feature("cliff", 32 * KIB)], sweep("ring/ll", "tree/ll")) == (
        feature("cliff", 32 * KIB),
    )


def test_check_names_the_change_at_a_cliff() -> None:
    """Busbw falls to a third at 4 MiB, where another algorithm begins."""
    rows = []
    for line, size in enumerate((1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26), start=1):
        is_ring = size >= 1 << 22
        gbps = 30.0 if is_ring else 100.0
        figure = Figure(
            time_us=size / gbps / 1e3, algorithm="ring" if is_ring else "nvls", protocol="simple", channels=16
        )
        rows.append(Row(line=line, size_bytes=size, dtype="float", redop="sum", figures={"in_place": figure}))
    table = Table(format="a test", collective="all_reduce", ranks=8, rows=tuple(rows))
    (verdict,) = judge(Log(source="x.jsonl", tables=(table,), candidate_rows=len(rows)))
    notices = [text for label, text in verdict.labeled_sentences() if label == "notice"]
    assert any("likely because NCCL uses ring/simple from 4 MiB on instead of nvls/simple" in text for text in notices)
