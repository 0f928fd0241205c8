"""Matching of operations: complete traces, ranks that stop, differ, begin late or have gaps."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from synthetic_traces import Call, make_trace, select_operations, split_ranks

from busbw.traces import format as layout
from busbw.traces.format import Function
from busbw.traces.matching import MatchedOperations, match_operations
from busbw.traces.model import Trace

PARTITIONS = ([range(8)], split_ranks(8, 2), split_ranks(8, 4, 2))
CALLS = (
    Call(count=100),
    Call(partition=1, function=Function.SEND, shift=1, count=7),
    Call(partition=2, function=Function.BROADCAST, root=1),
    Call(function=Function.ALL_GATHER, count=1 << 18),
    Call(count=lambda step, _: step + 1),
)
CYCLE = (Call(count=1), Call(count=2), Call(count=3), Call(count=1))


def change(trace: Trace, rank: int, edit: Callable[[Any], None], **changes: Any) -> Trace:
    """Returns the trace with edited operations or other fields of a rank."""
    ranks = list(trace.ranks)
    operations = ranks[rank].operations.copy()
    edit(operations)
    ranks[rank] = replace(ranks[rank], operations=operations, **changes)
    return replace(trace, ranks=tuple(ranks))


def drop(trace: Trace, rank: int, *places: int, has_gaps: bool) -> Trace:
    """Returns the trace without some operations of a rank."""
    trace = select_operations(trace, rank, lambda operations: ~np.isin(np.arange(len(operations)), places))
    return change(
        trace, rank, lambda _: None, **({"lost_count": len(places), "first_unmatched": min(places)} if has_gaps else {})
    )


def mark(trace: Trace) -> Trace:
    """Numbers the operations of each rank in a field that matching does not read."""
    for rank in trace.ranks:
        rank.operations["network_steps"] = np.arange(len(rank.operations))
    return trace


def pairs(trace: Trace, matched: tuple[MatchedOperations, ...]) -> set[tuple[int, tuple[int, ...]]]:
    """Returns the original numbers of the operations of each completely matched operation."""
    found = set()
    for one in matched:
        for row in one.indices[(one.indices >= 0).all(axis=1)]:
            numbers = [
                trace.ranks[rank].operations["network_steps"][index] for rank, index in zip(one.ranks, row, strict=True)
            ]
            found.add((one.communicator, tuple(map(int, numbers))))
    return found


def test_all_operations_of_a_complete_trace_match() -> None:
    trace = make_trace(partitions=PARTITIONS, calls=CALLS, steps=20, noise_ns=100)
    problems: list[str] = []
    matched = match_operations(trace, problems)
    assert problems == []
    assert all((one.indices >= 0).all() for one in matched)
    assert sum(one.indices.size for one in matched) == sum(len(rank.operations) for rank in trace.ranks)
    functions = {(one.communicator, one.function): len(one.indices) for one in matched if one.function != Function.SEND}
    assert functions == {
        (0, Function.ALL_REDUCE): 40,
        (0, Function.ALL_GATHER): 20,
        (5, Function.BROADCAST): 20,
        (6, Function.BROADCAST): 20,
    }
    for one in matched:
        for column, rank in enumerate(one.ranks):
            operations = trace.ranks[rank].operations[one.indices[:, column]]
            assert (operations["communicator"] == one.communicator).all()
            expected = Function.RECV if one.function == Function.SEND and column else one.function
            assert (operations["function"] == expected).all()
            first = trace.ranks[one.ranks[0]].operations[one.indices[:, 0]]
            assert np.array_equal(operations["count"], first["count"])


def test_transfers_of_a_pair_match_in_both_directions() -> None:
    trace = make_trace(ranks=4, calls=[Call(function=Function.SEND, shift=1, count=lambda step, rank: rank + step)])
    matched = match_operations(trace)
    assert [one.ranks for one in matched] == [(0, 1), (1, 2), (2, 3), (3, 0)]
    for one in matched:
        sent = trace.ranks[one.ranks[0]].operations[one.indices[:, 0]]
        received = trace.ranks[one.ranks[1]].operations[one.indices[:, 1]]
        assert (sent["function"] == Function.SEND).all()
        assert (received["function"] == Function.RECV).all()
        assert np.array_equal(sent["count"], received["count"])


def test_a_transfer_to_itself_matches() -> None:
    matched = match_operations(make_trace(ranks=1, steps=3, calls=[Call(function=Function.SEND, shift=1)]))
    assert [(one.ranks, one.indices.tolist()) for one in matched] == [((0, 0), [[0, 1], [2, 3], [4, 5]])]


def test_a_rank_that_stopped_is_named_with_its_next_operation() -> None:
    trace = mark(make_trace(calls=CYCLE, steps=5))
    stopped = select_operations(trace, 3, lambda operations: np.arange(len(operations)) < 13)
    problems: list[str] = []
    matched = match_operations(stopped, problems)
    assert problems == [
        "rank 3 stopped after 13 of 20 operations of communicator group_0: the next is all_reduce of 8 B (float, sum)"
    ]
    assert pairs(stopped, matched) == {(0, (number,) * 8) for number in range(13)}
    assert sum(len(one.indices) for one in matched) == 20


def test_ranks_that_stopped_together_are_one_sentence() -> None:
    trace = make_trace(calls=CYCLE, steps=5)
    for rank in (1, 2, 6):
        trace = select_operations(trace, rank, lambda operations: np.arange(len(operations)) < 18)
    problems: list[str] = []
    match_operations(trace, problems)
    assert [problem.split(":")[0] for problem in problems] == [
        "ranks 1, 2, 6 stopped after 18 of 20 operations of communicator group_0"
    ]


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("count", 5, "all_reduce of 20 B (float, sum)"),
        ("datatype", 2, "all_reduce of 8 B (int32, sum)"),
        ("redop", 2, "all_reduce of 8 B (float, max)"),
        ("function", Function.ALL_GATHER, "all_gather of 8 B (float, sum)"),
    ],
)
def test_matching_ends_before_a_different_operation(field: str, value: int, text: str) -> None:
    trace = mark(make_trace(calls=CYCLE, steps=5))

    def edit(operations: Any) -> None:
        operations[field][9] = value

    different = change(trace, 2, edit)
    problems: list[str] = []
    matched = match_operations(different, problems)
    assert pairs(different, matched) == {(0, (number,) * 8) for number in range(9)}
    place = "after 9 equal operations of communicator group_0, so later ones are not matched"
    assert problems == [
        f"ranks 0, 1, 3, 4, 5, 6, 7 called all_reduce of 8 B (float, sum) {place}",
        f"rank 2 called {text} {place}",
    ]


def test_a_different_root_is_a_difference() -> None:
    trace = make_trace(calls=[Call(function=Function.BROADCAST, root=1, count=2)])

    def edit(operations: Any) -> None:
        operations["peer"][4] = 3

    problems: list[str] = []
    match_operations(change(trace, 0, edit), problems)
    assert [problem.split(" after")[0] for problem in problems] == [
        "rank 0 called broadcast of 8 B (float, sum, root 3)",
        "ranks 1, 2, 3, 4, 5, 6, 7 called broadcast of 8 B (float, sum, root 1)",
    ]


def test_an_omitted_operation_is_a_difference_and_a_lost_one_ends_the_matches_of_its_rank() -> None:
    trace = mark(make_trace(calls=CYCLE, steps=10))
    omitted = drop(trace, 4, 18, has_gaps=False)
    assert pairs(omitted, match_operations(omitted)) == {(0, (number,) * 8) for number in range(18)}
    lost = drop(trace, 4, 18, has_gaps=True)
    problems: list[str] = []
    matched = match_operations(lost, problems)
    assert pairs(lost, matched) == {(0, (number,) * 8) for number in range(18)}
    assert problems == ["rank 4 lost operations in the recording: 18 of 40 of communicator group_0 match"]


def test_operations_that_one_rank_lost_match_on_the_others() -> None:
    trace = drop(make_trace(ranks=3, calls=CYCLE, steps=10), 1, 18, has_gaps=True)
    for rank in (0, 2):  # so that the recording with the gap is the longest
        trace = select_operations(trace, rank, lambda operations: np.arange(len(operations)) < 30)
    (matched,) = match_operations(trace)
    assert matched.indices.tolist() == [[number, number if number < 18 else -1, number] for number in range(30)]


@pytest.mark.parametrize("seed", range(20))
def test_operations_match_up_to_the_first_gap(seed: int) -> None:
    random = np.random.default_rng(seed)
    calls = [Call(count=int(count)) for count in random.integers(1, 4, 30)]
    trace = mark(make_trace(ranks=4, calls=calls, steps=6))
    begins = random.integers(0, 150, 2)
    for rank, begin in enumerate(begins, start=1):
        trace = drop(trace, rank, *range(begin, begin + random.integers(1, 12)), has_gaps=True)
    assert pairs(trace, match_operations(trace)) == {(0, (number,) * 4) for number in range(min(begins))}


def test_a_loss_at_the_end_leaves_the_beginning_unambiguous() -> None:
    trace = mark(make_trace(ranks=2, calls=[Call()], steps=50))
    cut = select_operations(trace, 1, lambda operations: np.arange(len(operations)) < 30)
    cut = change(cut, 1, lambda _: None, lost_count=20)
    problems: list[str] = []
    assert pairs(cut, match_operations(cut, problems)) == {(0, (number, number)) for number in range(30)}
    assert problems == ["rank 1 lost operations in the recording: 30 of 50 of communicator group_0 match"]


@pytest.mark.parametrize("clock_offset_steps", [-7, 0, 7])
@pytest.mark.parametrize("function", [Function.ALL_REDUCE, Function.SEND])
def test_a_rank_with_a_gap_matches_from_its_beginning_with_any_clock(
    function: Function, clock_offset_steps: int
) -> None:
    call = Call(function=function, shift=1)
    clock_offset_ns = clock_offset_steps * (call.gap_ns + call.duration_ns)
    trace = make_trace(ranks=2, hosts=2, calls=[call], steps=60, clock_offsets_ns=[0, clock_offset_ns])
    complete = [one.indices for one in match_operations(trace)]
    cut = match_operations(change(trace, 1, lambda _: None, lost_count=20, first_unmatched=40))
    for one, expected in zip(cut, complete, strict=True):
        is_recorded = (expected < 40) | (np.array(one.ranks) == 0)
        assert np.array_equal(one.indices, np.where(is_recorded, expected, -1))


def test_a_recording_that_began_late_is_aligned_by_its_times() -> None:
    trace = mark(make_trace(partitions=PARTITIONS[:2], calls=[*CYCLE, CALLS[1]], steps=10))
    late = select_operations(trace, 3, lambda operations: np.arange(len(operations)) >= 18)
    problems: list[str] = []
    matched = match_operations(late, problems)
    found = {numbers for communicator, numbers in pairs(late, matched) if communicator == 0}
    numbers = [number for number in range(60) if number % 6 < 4]
    assert found == {(number,) * 8 for number in numbers if number >= 18}
    assert problems[0] == "rank 3 began after the first 12 operations of communicator group_0"
    for one in matched:
        if one.function == Function.SEND and 3 in one.ranks:
            sent, received = (trace.ranks[rank].operations["network_steps"][-len(one.indices) :] for rank in one.ranks)
            assert (one.indices >= 0).all(axis=1).sum() == 7
            assert len(sent) == len(received) == 10


def test_a_recording_that_began_late_among_many_equal_operations_is_aligned_by_its_times() -> None:
    trace = mark(make_trace(ranks=2, calls=[Call()], steps=200))
    late = select_operations(trace, 1, lambda operations: np.arange(len(operations)) >= 150)
    assert pairs(late, match_operations(late)) == {(0, (number, number)) for number in range(150, 200)}


def test_a_late_recording_with_other_operations_needs_no_times() -> None:
    trace = mark(make_trace(calls=[Call(count=lambda step, _: step)], steps=30))
    late = select_operations(trace, 0, lambda operations: np.arange(len(operations)) >= 12)
    late = change(late, 0, lambda _: None, start_ns=0)
    assert pairs(late, match_operations(late)) == {(0, (number,) * 8) for number in range(12, 30)}


def test_all_to_all_of_unequal_counts_matches() -> None:
    trace = make_trace(calls=[Call(function=Function.ALLTOALL, count=lambda step, rank: step * 10 + rank)])
    problems: list[str] = []
    (matched,) = match_operations(trace, problems)
    assert matched.indices.shape == (10, 8)
    assert problems == []


def test_calls_of_a_capture_do_not_match_calls_that_ran() -> None:
    def edit(operations: Any) -> None:
        operations["flags"][5] = layout.Flag.CAPTURED

    problems: list[str] = []
    match_operations(change(make_trace(calls=CYCLE), 0, edit), problems)
    assert problems[0].startswith("rank 0 called all_reduce of 8 B (float, sum, captured) after 5 equal operations")


def test_transfers_that_differ_are_named() -> None:
    trace = make_trace(ranks=2, calls=[Call(function=Function.SEND, shift=1)], steps=4)

    def edit(operations: Any) -> None:
        received = np.flatnonzero(operations["function"] == Function.RECV)
        operations["count"][received[2]] = 1

    problems: list[str] = []
    matched = match_operations(change(trace, 1, edit), problems)
    assert [len(one.indices) for one in matched] == [2, 4]
    assert problems == ["sends and receives on communicator group_0 differ in number, size or type: from 0 to 1"]


def test_transfers_with_unknown_peers_are_named() -> None:
    def edit(operations: Any) -> None:
        operations["peer"] = -1

    problems: list[str] = []
    trace = change(make_trace(ranks=2, calls=[Call(function=Function.SEND, shift=1)], steps=4), 0, edit)
    assert match_operations(trace, problems) == ()
    assert problems == ["8 sends and receives on communicator group_0 have an unknown peer and no match"]


@pytest.mark.parametrize("function", [Function.OTHER, Function.PUT_SIGNAL])
def test_operations_without_a_partner_have_no_match(function: Function) -> None:
    assert match_operations(make_trace(calls=[Call(function=function)])) == ()
