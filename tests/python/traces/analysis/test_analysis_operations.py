"""Rows of the table of operations: calls, bytes, times and bandwidths of synthetic jobs with known answers."""

from dataclasses import replace

import numpy as np
import pytest
from synthetic_traces import BFLOAT16, Call, make_trace, select_operations, split_ranks

from busbw.expect import Scenario, expect
from busbw.system import find
from busbw.traces.analysis import OperationRow, TraceAnalysis, analyze, prepare_trace
from busbw.traces.format import UNKNOWN_BYTE, DeviceClock, Flag, Function
from busbw.traces.model import Trace

CALLS = (
    Call(count=1 << 20, gap_ns=100_000, duration_ns=400_000),
    Call(function=Function.ALL_GATHER, count=1 << 16, datatype=BFLOAT16, gap_ns=50_000, duration_ns=30_000),
    Call(function=Function.ALL_GATHER, count=1 << 16, datatype=BFLOAT16, gap_ns=10_000, duration_ns=30_000),
)
STEP_NS = 620_000


def analysis_of(trace: Trace) -> TraceAnalysis:
    return analyze(prepare_trace(trace))


def row_of(analysis: TraceAnalysis, function: str) -> OperationRow:
    (row,) = (row for row in analysis.rows if row.function == function)
    return row


def test_calls_times_and_bandwidths() -> None:
    analysis = analysis_of(make_trace(ranks=4, calls=CALLS, steps=6))
    assert analysis.steps is not None
    assert (analysis.steps.count, analysis.steps.analyzed, analysis.steps.operations_per_step) == (6, 5, 3)
    assert analysis.steps.median_us == pytest.approx(STEP_NS / 1e3)
    assert analysis.duration_us == pytest.approx(STEP_NS / 1e3)
    reduce, gather = row_of(analysis, "all_reduce"), row_of(analysis, "all_gather")
    assert (reduce.calls_per_step, reduce.max_size_bytes, reduce.bytes_per_step) == (1, 4 << 20, 4 << 20)
    # The size of an all-gather is that of all shares.
    assert (gather.calls_per_step, gather.max_size_bytes, gather.bytes_per_step) == (2, 4 << 17, 2 * (4 << 17))
    assert (reduce.time_us, reduce.transfer_us) == pytest.approx((400, 400))
    assert reduce.share == pytest.approx(400_000 / STEP_NS)
    assert gather.share == pytest.approx(60_000 / STEP_NS)
    # nccl-tests: algbw is bytes per ns, busbw of an all-reduce 2(n-1)/n of it, of an all-gather (n-1)/n.
    assert reduce.algbw_gbps == pytest.approx((4 << 20) / 400_000)
    assert reduce.busbw_gbps == pytest.approx((4 << 20) / 400_000 * 1.5)
    assert gather.busbw_gbps == pytest.approx((4 << 17) / 30_000 * 0.75)
    assert (reduce.algorithms, reduce.max_channels) == (("ring/simple",), 8)
    assert analysis.rows[0] == reduce
    assert reduce.expected_busbw_gbps is None
    assert any("--system" in note for note in analysis.notes)


def test_waits_are_in_the_time_and_not_in_the_transfer() -> None:
    analysis = analysis_of(make_trace(ranks=4, calls=CALLS, steps=6, late_ns={2: 300_000}))
    reduce = row_of(analysis, "all_reduce")
    assert (reduce.time_us, reduce.transfer_us) == pytest.approx((700, 400))
    # Three of four ranks wait.
    assert reduce.time_per_step_us == pytest.approx(400 + 300 * 3 / 4)
    assert reduce.busbw_gbps == pytest.approx((4 << 20) / 400_000 * 1.5)


def test_groups_of_similar_communicators_share_a_row() -> None:
    partitions = [split_ranks(8, 4), split_ranks(8, 2, 4)]
    analysis = analysis_of(make_trace(partitions=partitions, calls=[Call(partition=0), Call(partition=1, count=5)]))
    assert [(group.size, group.communicators, group.members) for group in analysis.groups] == [
        (4, (0, 1), ("0-3", "4-7")),
        (2, (2, 3, 4, 5), ("0, 4", "1, 5", "2, 6", "3, 7")),
    ]
    assert sorted((row.group, row.calls_per_step) for row in analysis.rows) == [(0, 1), (1, 1)]


def test_communicators_of_the_same_ranks_are_not_similar() -> None:
    trace = make_trace(ranks=2, partitions=[[(0, 1)], [(0, 1)]], calls=[Call(partition=0)])
    assert len(analysis_of(trace).groups) == 2


def test_unknown_numbers_in_the_communicator_do_not_change_the_calls_per_step() -> None:
    trace = make_trace(ranks=4, steps=6)
    unknown = tuple(replace(rank, own_rank_by_communicator={}) for rank in trace.ranks)
    analyses = [analyze(prepare_trace(one)) for one in (trace, replace(trace, ranks=unknown))]
    known_rows, unknown_rows = (
        sorted((row.function, row.calls_per_step, row.bytes_per_step) for row in analysis.rows) for analysis in analyses
    )
    assert unknown_rows == known_rows


def test_without_device_times_only_calls_and_bytes_are_known() -> None:
    analysis = analysis_of(make_trace(ranks=4, calls=CALLS, steps=6, device_clock=DeviceClock.NONE))
    reduce = row_of(analysis, "all_reduce")
    assert (reduce.calls_per_step, reduce.bytes_per_step, reduce.timed_fraction) == (1, 4 << 20, 0)
    assert (reduce.time_us, reduce.transfer_us, reduce.share, reduce.busbw_gbps) == (None, None, None, None)
    assert analysis.steps is not None  # by the times of the calls
    assert analysis.steps.median_us == pytest.approx(STEP_NS / 1e3)
    assert all((one.communication_us, one.late_us, one.waiting_us) == (None, None, None) for one in analysis.ranks)
    assert analysis.changes == ()
    assert [note for note in analysis.notes if "no device times" in note]


def test_durations_without_a_clock() -> None:
    trace = make_trace(ranks=4, calls=CALLS, steps=6, late_ns={2: 300_000})
    ranks = []
    for rank in trace.ranks:
        operations = rank.operations.copy()
        operations["device_end_ns"] += 1 - operations["device_start_ns"]
        operations["device_start_ns"] = 1
        ranks.append(replace(rank, operations=operations, device_clock=DeviceClock.DURATION))
    analysis = analysis_of(replace(trace, ranks=tuple(ranks)))
    reduce = row_of(analysis, "all_reduce")
    assert (reduce.time_us, reduce.transfer_us) == pytest.approx((700, 400))
    assert all((one.communication_us, one.late_us) == (None, None) for one in analysis.ranks)
    assert analysis.findings == ()


@pytest.mark.parametrize(("has_groups", "count"), [(False, 1), (True, 0)])
def test_the_sum_of_transfers_without_a_group_is_no_known_time(has_groups: bool, count: int) -> None:
    trace = make_trace(ranks=4, calls=[Call(function=Function.SEND, shift=1, group=1), Call(count=7)], steps=6)
    ranks = []
    for rank in trace.ranks:
        operations = rank.operations.copy()
        operations["group"] *= has_groups
        ranks.append(replace(rank, operations=operations, device_clock=DeviceClock.DURATION))
    analysis = analysis_of(replace(trace, ranks=tuple(ranks)))
    assert len([note for note in analysis.notes if "without a group" in note]) == count


def test_a_recording_without_steps_is_one_period() -> None:
    counts = np.random.default_rng(1).permutation(200)
    calls = [Call(count=int(count) + 1, gap_ns=10_000, duration_ns=30_000) for count in counts]
    analysis = analysis_of(make_trace(ranks=2, calls=calls, steps=1))
    assert (analysis.period, analysis.steps) == ("recording", None)
    assert analysis.duration_us == pytest.approx((200 * 40_000 - 10_000) / 1e3)
    assert sum(row.share or 0 for row in analysis.rows) == pytest.approx(200 * 30 / (200 * 40 - 10))


def test_transfer_is_a_bound_if_a_rank_was_not_recorded() -> None:
    trace = make_trace(ranks=4, calls=CALLS, steps=6, late_ns={2: 300_000})
    partial = replace(trace, ranks=(*trace.ranks[:2], trace.ranks[3]))
    analysis = analysis_of(partial)
    reduce = row_of(analysis, "all_reduce")
    assert reduce.is_transfer_upper_bound
    assert reduce.transfer_us == pytest.approx(700)  # the late rank is missing, so all recorded ranks wait
    assert all(one.late_us is None for one in analysis.ranks)
    assert [note for note in analysis.notes if "not recorded" in note]
    assert not row_of(analysis_of(trace), "all_reduce").is_transfer_upper_bound


def test_missing_records_of_a_rank_do_not_change_the_transfer() -> None:
    trace = make_trace(ranks=4, calls=CALLS, steps=20, late_ns={2: 300_000})
    analysis = analysis_of(select_operations(trace, 2, lambda operations: np.arange(len(operations)) < 40))
    assert row_of(analysis, "all_reduce").transfer_us == pytest.approx(400)
    assert not row_of(analysis, "all_reduce").is_transfer_upper_bound


def test_a_missing_device_time_is_not_zero() -> None:
    trace = make_trace(ranks=4, calls=CALLS, steps=9)
    for rank in trace.ranks:
        rank.operations["device_end_ns"][3 * 4 + 1] = 0  # an all-gather
    analysis = analysis_of(trace)
    gather = row_of(analysis, "all_gather")
    assert (gather.time_us, gather.time_per_step_us) == pytest.approx((30, 60))
    assert gather.timed_fraction == pytest.approx(15 / 16)
    assert [note for note in analysis.notes if "have no device times" in note]


def test_a_step_with_an_unknown_start_counts_without_a_duration() -> None:
    trace = make_trace(ranks=4, calls=CALLS, steps=9)
    for rank in trace.ranks:
        rank.operations["device_end_ns"][3 * 4] = 0  # the first operation of a step
    analysis = analysis_of(trace)
    reduce = row_of(analysis, "all_reduce")
    assert reduce.timed_fraction == pytest.approx(7 / 8)
    assert (reduce.calls_per_step, reduce.time_us, analysis.duration_us) == pytest.approx((1, 400, STEP_NS / 1e3))


def test_a_source_without_times_has_steps_of_unknown_duration() -> None:
    trace = make_trace(ranks=4, calls=CALLS, steps=9, device_clock=DeviceClock.NONE)
    for rank in trace.ranks:
        rank.operations["enqueue_ns"] = 0
    analysis = analysis_of(trace)
    assert analysis.steps is not None
    assert (analysis.steps.analyzed, analysis.steps.median_us, analysis.duration_us) == (8, None, None)
    assert row_of(analysis, "all_gather").calls_per_step == 2


def test_captured_operations_did_not_run() -> None:
    trace = make_trace(ranks=2, calls=CALLS, steps=5)
    for rank in trace.ranks:
        rank.operations["flags"][rank.operations["function"] == Function.ALL_REDUCE] = Flag.CAPTURED
    analysis = analysis_of(trace)
    assert [row.function for row in analysis.rows] == ["all_gather"]
    assert [note for note in analysis.notes if note.startswith("10 operations captured")]


def test_the_sends_and_receives_of_a_group_are_one_call() -> None:
    calls = [
        Call(function=Function.SEND, count=lambda step, rank: 100 + step, shift=1, group=1),
        Call(function=Function.SEND, count=lambda step, rank: 300 + step, shift=2, group=1),
        Call(count=7),
    ]
    analysis = analysis_of(make_trace(ranks=4, calls=calls, steps=30))
    exchange = row_of(analysis, "send/recv")
    assert exchange.calls_per_step == 1
    # Sizes differ in each step, so they share a row. Each rank sends to two others.
    assert exchange.min_size_bytes is not None
    assert exchange.max_size_bytes is not None
    assert exchange.max_size_bytes - exchange.min_size_bytes == 8 * 28
    assert exchange.busbw_gbps is None
    assert exchange.time_us is not None


def test_an_exchange_without_device_times() -> None:
    calls = [Call(function=Function.SEND, shift=1, group=1), Call(count=7)]
    exchange = row_of(analysis_of(make_trace(ranks=4, calls=calls, device_clock=DeviceClock.NONE)), "send/recv")
    assert (exchange.calls_per_step, exchange.time_us) == (1, None)


def test_an_unknown_element_type_has_no_size() -> None:
    trace = make_trace(ranks=2, calls=CALLS, steps=5)
    for rank in trace.ranks:
        rank.operations["datatype"][rank.operations["function"] == Function.ALL_REDUCE] = UNKNOWN_BYTE
    reduce = row_of(analysis_of(trace), "all_reduce")
    assert (reduce.max_size_bytes, reduce.bytes_per_step, reduce.busbw_gbps, reduce.dtypes) == (None, None, None, ())
    assert reduce.transfer_us == pytest.approx(400)


@pytest.mark.parametrize(
    "function", [Function.BROADCAST, Function.REDUCE], ids=lambda function: str(function.name.lower())
)
def test_a_root_that_ends_early_does_not_shorten_the_transfer(function: Function) -> None:
    calls = [*CALLS, Call(function=function, count=1 << 20, root=0, gap_ns=100_000, duration_ns=200_000)]
    trace = make_trace(ranks=4, calls=calls, steps=6)
    root = trace.ranks[0].operations
    chosen = root["function"] == function
    root["device_end_ns"][chosen] = root["device_start_ns"][chosen] + 20_000
    row = row_of(analysis_of(trace), function.name.lower())
    assert row.transfer_us == pytest.approx(200)
    assert row.busbw_gbps == pytest.approx((4 << 20) / 200_000)


@pytest.mark.parametrize(("hosts", "ranks_per_node"), [(1, 8), (2, 4)])
def test_expectation_of_a_system(hosts: int, ranks_per_node: int) -> None:
    system = find("h100-sxm")
    assert system is not None
    trace = make_trace(ranks=8, calls=CALLS, hosts=hosts)
    analysis = analyze(prepare_trace(trace), system=system)
    reduce = row_of(analysis, "all_reduce")
    scenario = Scenario(
        collective="all_reduce",
        ranks=8,
        ranks_per_node=ranks_per_node,
        node_ranks=(ranks_per_node,) * hosts,
        dtype="float",
    )
    estimate = expect(scenario, system, [4 << 20]).at(4 << 20)
    assert estimate is not None
    assert reduce.expected_busbw_gbps == estimate.busbw_gbps


def job_with_unlike_ranks(call: Call, steps: int = 20) -> Trace:
    """Returns a trace in which ranks 4 to 6 make only this call in each step, and ranks 0 to 3 make `CALLS`."""
    partitions: list[list[tuple[int, ...]]] = [split_ranks(4, 4), [(4, 5, 6)]]
    return make_trace(ranks=7, calls=[*CALLS, replace(call, partition=1)], steps=steps, partitions=partitions)


def assert_only_the_first_ranks_count(trace: Trace) -> None:
    analysis = analysis_of(trace)
    assert analysis.duration_us == pytest.approx(STEP_NS / 1e3)
    assert {(row.function, row.calls_per_step) for row in analysis.rows} == {("all_reduce", 1), ("all_gather", 2)}
    assert sum(row.share or 0 for row in analysis.rows) == pytest.approx(460_000 / STEP_NS)
    assert [one.communication_us for one in analysis.ranks] == [pytest.approx(460)] * 4 + [None] * 3
    assert [one.idle_us for one in analysis.ranks] == [pytest.approx(160)] * 4 + [None] * 3
    assert [note for note in analysis.notes if "values per step are without ranks 4-6" in note]
    assert not [note for note in analysis.notes if "number of steps" in note]


def test_ranks_without_steps_are_not_in_the_values_per_step() -> None:
    call = Call(count=lambda step, _: step + 1, gap_ns=50_000, duration_ns=100_000)
    trace = job_with_unlike_ranks(call)
    assert [rank.steps is None for rank in trace.ranks] == [False] * 4 + [True] * 3
    assert_only_the_first_ranks_count(trace)


def test_ranks_with_other_steps_are_not_in_the_values_per_step() -> None:
    call = Call(count=lambda step, _: step % 3 + 1, gap_ns=500_000, duration_ns=500_000)
    trace = job_with_unlike_ranks(call, steps=30)
    assert [rank.steps and len(rank.steps.starts) for rank in trace.ranks] == [30] * 4 + [10] * 3
    assert_only_the_first_ranks_count(trace)


def test_ranks_with_other_numbers_of_steps_and_no_times_are_not_in_the_values_per_step() -> None:
    trace = job_with_unlike_ranks(Call(count=lambda step, _: step % 3 + 1), steps=30)
    for rank in trace.ranks:
        for name in ("enqueue_ns", "device_start_ns", "device_end_ns"):
            rank.operations[name] = 0
    rows = analysis_of(trace).rows
    assert sorted((row.function, row.calls_per_step) for row in rows) == [("all_gather", 2), ("all_reduce", 1)]


def test_a_recording_that_ends_early_has_the_same_steps() -> None:
    trace = make_trace(ranks=4, calls=CALLS, steps=20)
    analysis = analysis_of(select_operations(trace, 2, lambda operations: np.arange(len(operations)) < 30))
    assert all(one.communication_us == pytest.approx(460) for one in analysis.ranks)
    assert [note for note in analysis.notes if "number of steps: 10 on rank 2, 20 on rank 3" in note]


@pytest.mark.parametrize("half", [2, 3])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_two_halves_with_other_steps_those_with_fewer_steps_are_in_the_values_per_step(
    half: int, order: tuple[int, int]
) -> None:
    # In the same time, one half has 30 steps of 1 ms and the other half 15 steps of 2 ms.
    halves = [tuple(range(half)), tuple(range(half, 2 * half))]
    one_ms = Call(partition=order[0], gap_ns=500_000, duration_ns=500_000)
    two_ms = replace(one_ms, function=Function.ALL_GATHER, partition=order[1], count=lambda step, _: step % 2 + 1)
    trace = make_trace(ranks=2 * half, partitions=[[one] for one in halves], calls=[one_ms, two_ms], steps=30)
    steps = [trace.ranks[halves[number][0]].steps for number in order]
    assert [one and len(one.starts) for one in steps] == [30, 15]
    analysis = analysis_of(trace)
    assert analysis.duration_us == pytest.approx(2000)
    assert [(row.function, row.calls_per_step) for row in analysis.rows] == [("all_gather", 1)] * 2
    counted = [rank for rank, one in enumerate(analysis.ranks) if one.communication_us is not None]
    assert counted == list(halves[order[1]])


INTERRUPTED = [1, 2, 0, 0, 2, 0] * 4 + [1, 2] + [1, 2, 0, 0, 2, 0] * 3
"""Counts less 1 of a sequence with steps of which none follows another one immediately."""


def test_without_a_complete_step_no_rank_is_compared_with_the_others() -> None:
    call = Call(count=lambda step, _: INTERRUPTED[step] + 1)
    trace = make_trace(ranks=2, calls=[call], steps=len(INTERRUPTED))
    assert all(rank.steps and not np.isin(rank.steps.ends, rank.steps.starts).any() for rank in trace.ranks)
    analysis = analysis_of(trace)
    assert (analysis.steps, analysis.rows) == (None, ())
    assert not [note for note in analysis.notes if "values per step are without" in note]


def test_a_recording_without_steps_is_no_step_beside_interrupted_steps() -> None:
    interrupted = Call(count=lambda step, _: INTERRUPTED[step] + 1)
    irregular = Call(count=lambda step, _: step + 1, partition=1)
    trace = make_trace(ranks=4, calls=[interrupted, irregular], steps=len(INTERRUPTED), partitions=[[(0, 1)], [(2, 3)]])
    assert [rank.steps is None for rank in trace.ranks] == [False] * 2 + [True] * 2
    analysis = analysis_of(trace)
    assert analysis.rows == ()
    assert [note for note in analysis.notes if "values per step are without ranks 2-3" in note]
