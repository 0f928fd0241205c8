"""Late ranks, slow communicators and overlap of synthetic jobs with known answers."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from synthetic_traces import Call, make_trace, split_ranks

from busbw.traces.analysis import RankRow, TraceAnalysis, analyze, prepare_trace
from busbw.traces.analysis.findings import find_late_ranks
from busbw.traces.format import DeviceClock, Function
from busbw.traces.model import Trace

TWO_LEVELS = ([(0, 1, 2, 3)], [(4, 5, 6, 7)], split_ranks(8, 2, 4))
"""Two groups of four ranks, and pairs across them."""


def analysis_of(trace: Trace) -> TraceAnalysis:
    return analyze(prepare_trace(trace))


def values(analysis: TraceAnalysis, field: str) -> list[float | None]:
    return [getattr(one, field) for one in analysis.ranks]


def nested_calls(first_ns: int, second_ns: int, pair_ns: int = 40_000) -> Sequence[Call]:
    """Calls of both groups with their durations, then of the pairs."""
    return (
        Call(partition=0, duration_ns=first_ns),
        Call(partition=1, duration_ns=second_ns),
        Call(function=Function.ALL_GATHER, partition=2, duration_ns=pair_ns, gap_ns=20_000),
    )


@pytest.mark.parametrize("clock", [DeviceClock.HOST, DeviceClock.GPU])
def test_a_late_rank(clock: DeviceClock) -> None:
    offsets = [0, 5_000_000] if clock == DeviceClock.HOST else [rank * 1_000_003 for rank in range(8)]
    trace = make_trace(hosts=2, steps=20, device_clock=clock, clock_offsets_ns=offsets, late_ns={5: 300_000})
    analysis = analysis_of(trace)
    assert analysis.clock_error_us == pytest.approx(0, abs=0.01)
    assert values(analysis, "late_us") == pytest.approx([0, 0, 0, 0, 0, 300, 0, 0], abs=0.1)
    assert values(analysis, "waiting_us") == pytest.approx([300] * 5 + [0] + [300] * 2, abs=0.1)
    (finding,) = analysis.findings
    assert finding.kind == "late rank"
    assert finding.cost_us == pytest.approx(300, abs=0.1)
    assert finding.text == "rank 5 on node-1 delays the others by up to 0.3 ms per step, in 100% of the steps"


def test_a_rank_that_waited_for_a_late_rank_is_not_late_itself() -> None:
    # Rank 5 delays its pair with rank 1. So both arrive late in their groups, and all ranks wait once.
    calls = [Call(partition=2, duration_ns=40_000), Call(partition=0), Call(partition=1)]
    analysis = analysis_of(make_trace(partitions=TWO_LEVELS, calls=calls, steps=20, late_ns={5: 300_000}))
    assert values(analysis, "waiting_us") == pytest.approx([300] * 5 + [0] + [300] * 2)
    assert values(analysis, "late_us") == pytest.approx([0, 0, 0, 0, 0, 300, 0, 0], abs=1e-6)
    assert [one.kind for one in analysis.findings] == ["late rank"]


def test_two_late_ranks_delay_by_the_difference() -> None:
    analysis = analysis_of(make_trace(ranks=4, steps=20, late_ns={1: 300_000, 3: 200_000}))
    assert values(analysis, "late_us") == pytest.approx([0, 100, 0, 0], abs=1e-6)


def test_lateness_before_simultaneous_operations_counts_once() -> None:
    # The second operation runs on another stream and starts on all ranks after the late rank's first one.
    trace = make_trace(ranks=4, partitions=[[(0, 1, 2, 3)], [(0, 1, 2, 3)]], calls=[Call(partition=0)], steps=20)
    late = _copy_to_second_communicator(make_late(trace, 2, 300_000), shift_ns=1_000)
    assert values(analysis_of(late), "late_us") == pytest.approx([0, 0, 300, 0], abs=1.1)


def make_late(trace: Trace, rank: int, late_ns: int) -> Trace:
    """Starts the operations of one rank later, while the others wait and all end at the same time."""
    ranks = []
    for one in trace.ranks:
        operations = one.operations.copy()
        index = np.arange(len(operations))
        operations["device_end_ns"] += (index + 1).astype(np.uint64) * np.uint64(late_ns)
        operations["device_start_ns"] += (index + (one.rank == rank)).astype(np.uint64) * np.uint64(late_ns)
        operations["enqueue_ns"] = operations["device_start_ns"]
        ranks.append(replace(one, operations=operations))
    return replace(trace, ranks=tuple(ranks))


def _copy_to_second_communicator(trace: Trace, shift_ns: int) -> Trace:
    ranks = []
    for one in trace.ranks:
        copy = one.operations.copy()
        copy["communicator"], copy["stream"] = 1, 1
        for field in ("device_start_ns", "device_end_ns", "enqueue_ns"):
            copy[field] += np.uint64(shift_ns)
        both = np.concatenate([one.operations, copy])
        ranks.append(replace(one, operations=both[np.argsort(both["device_start_ns"], kind="stable")]))
    return replace(trace, ranks=tuple(ranks))


def test_random_lateness_of_all_ranks_is_no_finding() -> None:
    rng = np.random.default_rng(3)
    trace = make_trace(ranks=8, steps=1, calls=[Call(gap_ns=200_000, duration_ns=50_000)] * 1)
    starts = np.cumsum(np.full(200, 400_000))
    late = rng.exponential(30_000, (200, 8)).astype(np.int64)
    ranks = []
    for one in trace.ranks:
        operations = np.repeat(one.operations, 200)
        operations["device_start_ns"] = starts + late[:, one.rank]
        operations["device_end_ns"] = starts + late.max(axis=1) + 50_000
        operations["enqueue_ns"] = operations["device_start_ns"]
        ranks.append(replace(one, operations=operations, start_ns=trace.ranks[0].start_ns))
    analysis = analysis_of(replace(trace, ranks=tuple(ranks)))
    assert all(value is not None and value > 0 for value in values(analysis, "late_us"))
    assert [one for one in analysis.findings if one.kind == "late rank"] == []


def set_times(trace: Trace, starts_ns: NDArray[np.int64], ends_ns: NDArray[np.int64]) -> Trace:
    """Replaces the times of calls. The arrays are [operations, ranks], since one time of a common clock."""
    ranks = []
    for one in trace.ranks:
        operations = one.operations.copy()
        operations["enqueue_ns"] = operations["device_start_ns"] = starts_ns[:, one.rank]
        operations["device_end_ns"] = ends_ns[:, one.rank]
        ranks.append(replace(one, operations=operations, start_ns=trace.ranks[0].start_ns))
    return replace(trace, ranks=tuple(ranks))


def late_ranks_of_job(random: np.random.Generator, steps: int, own_late_ns: int) -> list[str]:
    """Findings on late ranks of 8 ranks with random computing times. Rank 5 begins each step `own_late_ns` late."""
    calls = [Call(count=1 << size) for size in range(10, 14)]
    gaps = 1_000_000 + random.exponential(20_000, (steps * len(calls), 8)).astype(np.int64)
    gaps[:: len(calls), 5] += own_late_ns
    durations = gaps.max(axis=1) + 100_000
    starts = (np.cumsum(durations) - durations)[:, None] + gaps
    ends = np.repeat((starts.max(axis=1) + 100_000)[:, None], 8, axis=1)
    analysis = analysis_of(set_times(make_trace(calls=calls, steps=steps), starts, ends))
    return [finding.text for finding in analysis.findings if finding.kind == "late rank"]


@pytest.mark.parametrize("steps", [3, 5, 10])
def test_few_steps_with_random_lateness_name_no_rank(steps: int) -> None:
    found = [late_ranks_of_job(np.random.default_rng(seed), steps, 0) for seed in range(20)]
    assert found == [[]] * 20


def test_a_rank_that_is_late_in_each_of_few_steps() -> None:
    found = [late_ranks_of_job(np.random.default_rng(seed), 8, 300_000) for seed in range(5)]
    assert all(text.startswith("rank 5 on node-0 delays") for (text,) in found)


def findings_of_overlapping_job(random: np.random.Generator, steps: int, own_late_ns: int) -> list[str]:
    """Findings of 8 ranks that compute during their operations, and wait for each other only at the end of a step.

    So a rank that is behind stays behind until the end of the step. Rank 5 begins each step `own_late_ns` late.
    """
    calls = [Call(count=1 << size) for size in range(10, 16)]
    starts, ends = np.zeros((2, steps * len(calls), 8), np.int64)
    now = 0
    for step in range(steps):
        computing = random.normal(3_000_000, 60_000, (len(calls), 8)).astype(np.int64)
        computing[0, 5] += own_late_ns
        ready = now + np.cumsum(computing, axis=0)
        for call in range(len(calls)):
            row = step * len(calls) + call
            starts[row] = np.maximum(ready[call], ends[row - 1])
            ends[row] = now = starts[row].max() + 30_000
    analysis = analysis_of(set_times(make_trace(calls=calls, steps=steps), starts, ends))
    return [finding.text for finding in analysis.findings]


@pytest.mark.parametrize("steps", [1, 12])
def test_a_rank_that_stays_behind_by_chance_within_a_step_is_not_late(steps: int) -> None:
    found = [findings_of_overlapping_job(np.random.default_rng(seed), steps, 0) for seed in range(20)]
    assert found == [[]] * 20


def test_a_late_rank_of_a_job_that_computes_during_its_operations() -> None:
    found = [findings_of_overlapping_job(np.random.default_rng(seed), 12, 1_000_000) for seed in range(5)]
    assert all(text.startswith("rank 5 on node-0 delays") for (text,) in found)


def test_lateness_within_the_clock_error_is_not_reported() -> None:
    trace = make_trace(hosts=2, steps=50, noise_ns=20_000, clock_offsets_ns=[0, 10**9], late_ns={6: 4_000})
    analysis = analysis_of(trace)
    assert analysis.clock_error_us is not None
    assert analysis.clock_error_us > 4
    assert analysis.findings == ()


def test_a_slow_communicator_is_not_a_late_rank() -> None:
    trace = make_trace(partitions=TWO_LEVELS, calls=nested_calls(50_000, 150_000), hosts=2, steps=20)
    analysis = analysis_of(trace)
    (finding,) = analysis.findings
    assert finding.kind == "slow communicator"
    assert finding.cost_us == pytest.approx(100)
    assert "among ranks 4-7 on node-1 take 3.00 times as long as in 1 similar communicator" in finding.text
    assert all(value == pytest.approx(0, abs=0.1) for value in values(analysis, "late_us"))


def transfers_of_groups(steps: int, durations_ns: Sequence[int], spread: float, seed: int, hosts: int) -> TraceAnalysis:
    """Groups of 4 ranks with random transfer times around their duration."""
    random, size = np.random.default_rng(seed), 4
    ranks = size * len(durations_ns)
    own = durations_ns * random.lognormal(0, spread, (steps, len(durations_ns)))
    all_ends = np.cumsum(own + 100_000, axis=0)
    starts, ends = (np.repeat(times.astype(np.int64), size, axis=1) for times in (all_ends - own, all_ends))
    trace = make_trace(ranks=ranks, hosts=hosts, partitions=[split_ranks(ranks, size)], calls=[Call()], steps=steps)
    return analysis_of(set_times(trace, starts, ends))


def test_few_operations_of_random_duration_name_no_communicator() -> None:
    assert [transfers_of_groups(3, [50_000] * 6, 0.2, seed, 1).findings for seed in range(20)] == [()] * 20


@pytest.mark.parametrize(("hosts", "count"), [(2, 0), (3, 1)])
def test_a_communicator_between_nodes_is_not_compared_with_those_inside_a_node(hosts: int, count: int) -> None:
    # With 2 nodes of 6 ranks, ranks 4-7 are on both. With 3 nodes of 4 ranks, each communicator has its own node.
    analysis = transfers_of_groups(20, [50_000, 100_000, 50_000], 0.01, 0, hosts)
    assert [finding.kind for finding in analysis.findings] == ["slow communicator"] * count


def overlapping_rank(shift_ns: int) -> RankRow:
    """Two operations of 100 us per step on two communicators; the second begins `shift_ns` after the first."""
    partitions = [[(0, 1)], [(0, 1)]]
    trace = make_trace(ranks=2, partitions=partitions, calls=[Call(gap_ns=400_000, duration_ns=100_000)], steps=10)
    return analysis_of(_copy_to_second_communicator(trace, shift_ns)).ranks[0]


@pytest.mark.parametrize("shift_us", [0, 25, 60, 100, 150])
def test_overlap(shift_us: int) -> None:
    row = overlapping_rank(shift_us * 1000)
    shared = max(100 - shift_us, 0)
    assert row.communication_us == pytest.approx(200 - shared)
    assert row.overlap == pytest.approx(shared / (200 - shared))
    assert row.idle_us == pytest.approx(500 - (200 - shared))


@pytest.mark.filterwarnings("error")
def test_one_rank_with_known_lateness_is_not_compared() -> None:
    ranks = [RankRow(rank=0, host="", late_us=1000.0), RankRow(rank=1, host="")]
    assert list(find_late_ranks(ranks, 5000.0, "recording", 0.0, chance_of=lambda _: 0.0)) == []
