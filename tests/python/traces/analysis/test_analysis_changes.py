"""Savings of changes, each compared with its closed form."""

import pytest
from synthetic_traces import Call, make_trace, split_ranks

from busbw.expect import Scenario, expect
from busbw.system import System, find
from busbw.traces.analysis import TraceAnalysis, analyze, prepare_trace
from busbw.traces.analysis.types import Change
from busbw.traces.model import Trace


def h100() -> System:
    system = find("h100-sxm")
    assert system is not None
    return system


def analysis_of(trace: Trace, system: System | None = None) -> TraceAnalysis:
    return analyze(prepare_trace(trace), system=system)


def change_of(analysis: TraceAnalysis, words: str) -> Change:
    (change,) = (change for change in analysis.changes if words in change.text)
    return change


def test_a_late_rank_that_arrives_with_the_others() -> None:
    on_time, late = (make_trace(steps=20, late_ns=late_ns) for late_ns in ({}, {5: 300_000}))
    change = change_of(analysis_of(late), "rank 5")
    durations = [analysis_of(trace).duration_us or 0 for trace in (late, on_time)]
    assert change.saving_us == pytest.approx(durations[0] - durations[1])
    assert change.basis == "measured"


def test_a_slow_communicator_as_fast_as_the_similar_ones() -> None:
    calls = [Call(partition=0, duration_ns=50_000), Call(partition=1, duration_ns=150_000)]
    analysis = analysis_of(make_trace(partitions=[[(0, 1)], [(2, 3)]], ranks=4, calls=calls, steps=20))
    change = change_of(analysis, "ranks 2-3")
    assert change.saving_us == pytest.approx(100)
    assert change.basis == "measured"


def test_an_operation_below_its_expected_busbw() -> None:
    size = 64 << 20
    scenario = Scenario(collective="all_reduce", ranks=8, ranks_per_node=8, node_ranks=(8,), dtype="float")
    estimate = expect(scenario, h100(), [size]).at(size)
    assert estimate is not None
    slow_us = round(estimate.time_us.high * 2)
    calls = [Call(count=size // 4, duration_ns=slow_us * 1000)] * 2 + [Call(count=1 << 10, gap_ns=10**6)]
    trace = make_trace(ranks=8, calls=calls, steps=20)
    change = change_of(analysis_of(trace, h100()), "bring all_reduce of 64 MiB")
    assert change.saving_us == pytest.approx(2 * (slow_us - estimate.time_us.typical))
    assert change.basis == "predicted"
    assert analysis_of(trace).changes == ()  # without a system, nothing is predicted


def test_an_operation_in_its_healthy_range_is_no_change() -> None:
    size = 64 << 20
    scenario = Scenario(collective="all_reduce", ranks=8, ranks_per_node=8, node_ranks=(8,), dtype="float")
    estimate = expect(scenario, h100(), [size]).at(size)
    assert estimate is not None
    healthy_ns = int(estimate.time_us.high * 990)
    assert analysis_of(make_trace(calls=[Call(count=size // 4, duration_ns=healthy_ns)]), h100()).changes == ()


def test_a_saving_within_the_noise_of_the_step_is_not_listed() -> None:
    quiet, noisy = (
        analysis_of(make_trace(steps=20, late_ns={5: 60_000}, noise_ns=noise_ns)) for noise_ns in (0, 60_000)
    )
    assert [change.saving_us == pytest.approx(60) for change in quiet.changes] == [True]
    assert [finding.kind for finding in noisy.findings] == ["late rank"]
    assert noisy.changes == ()
    assert noisy.steps is not None
    assert noisy.steps.noise_us is not None
    assert noisy.findings[0].cost_us < noisy.steps.noise_us


def test_at_most_three_changes_with_the_largest_first() -> None:
    partitions = (split_ranks(4, 4), [(4, 5, 6, 7)], split_ranks(8, 2, 4))
    calls = [
        Call(partition=1, duration_ns=900_000, count=1 << 10),
        Call(partition=0, duration_ns=300_000, count=1 << 10),
        Call(partition=2, duration_ns=400_000, count=1 << 24),
    ]
    trace = make_trace(partitions=partitions, calls=calls, steps=20, late_ns={5: 40_000})
    slow, late = analysis_of(trace).changes
    assert slow.saving_us == pytest.approx(600)
    assert late.saving_us == pytest.approx(40)
    changes = analysis_of(trace, h100()).changes
    assert len(changes) == 3
    assert late not in changes
    assert [change.saving_us for change in changes] == sorted((one.saving_us for one in changes), reverse=True)
