"""Replay programs of simulated jobs, checked by an independent validator."""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from synthetic_traces import BFLOAT16, DEFAULT_CALLS, Call, make_trace, select_operations, split_ranks

from busbw.errors import UsageError
from busbw.traces import format as layout
from busbw.traces.format import DeviceClock, Function
from busbw.traces.model import RankTrace, Trace
from busbw.traces.read import read_trace
from busbw.traces.redact import write_anonymous_trace
from busbw.traces.replay import ReplayOperation, ReplayProgram, make_program
from busbw.traces.replay import program as program_module
from busbw.traces.replay.draft import Draft, draft_step
from busbw.traces.replay.step import SelectedStep

TP, DP = split_ranks(8, 4), split_ranks(8, 2, 4)
CALLS = (
    Call(partition=0, count=1000, gap_ns=1_000_000, datatype=BFLOAT16),
    Call(partition=1, function=Function.ALL_GATHER, count=500, gap_ns=2_000_000),
    Call(partition=0, function=Function.SEND, shift=1, count=lambda step, rank: 100 + 10 * step + rank),
    Call(partition=0, function=Function.BROADCAST, root=3, count=77),
)
"""A step of tensor and data parallelism with an unequal exchange."""


def grid(steps: int = 6, **options: object) -> Trace:
    return make_trace(partitions=[TP, DP], calls=CALLS, steps=steps, startup=(Call(count=7),), **options)  # type: ignore[arg-type]


def validate(program: ReplayProgram) -> None:
    """Executes a program without time: every operation must find its partners, in the order of each communicator."""
    document = json.loads(program.document())
    operations: list[list[ReplayOperation]] = [
        [ReplayOperation(*one) for one in rank] for rank in document["operations"]
    ]
    assert document["ranks"] == len(operations)
    collectives: dict[tuple[int, int], list[tuple[object, ...]]] = defaultdict(list)
    sent, received = defaultdict(list), defaultdict(list)
    for rank, calls in enumerate(operations):
        for one in calls:
            members = document["communicators"][one.communicator]
            assert rank in members
            assert len(set(members)) == len(members) > 1
            assert all(0 <= member < len(operations) for member in members)
            assert one.gap_ns >= 0
            own, transfer = members.index(rank), (one.datatype, one.element_count)
            if one.function == "send":
                assert one.peer != own
                sent[one.communicator, own, one.peer].append(transfer)
            elif one.function == "recv":
                received[one.communicator, one.peer, own].append(transfer)
            else:
                collectives[one.communicator, rank].append(one[1:6])
    assert sent == received
    for index, members in enumerate(document["communicators"]):
        assert len({str(collectives[index, rank]) for rank in members}) == 1


def call_names(operations: Sequence[ReplayOperation]) -> list[str]:
    return [one.function for one in operations]


def test_a_step_has_each_operation_once_and_in_order() -> None:
    program = make_program(grid(), step=3)
    validate(program)
    assert program.step == "step 3 of 6"
    for rank in range(8):
        assert call_names(program.operations[rank]) == ["all_reduce", "all_gather", "send", "recv", "broadcast"]
    send, receive = program.operations[5][2:4]
    assert (send.element_count, receive.element_count) == (100 + 20 + 5, 100 + 20 + 4)
    assert send.group == receive.group > 0


def test_gaps_are_the_time_on_the_device_between_operations_of_a_communicator() -> None:
    trace = make_trace(
        ranks=2, calls=(Call(gap_ns=300, duration_ns=50), Call(count=8, gap_ns=7000, duration_ns=60)), steps=5
    )
    program = make_program(trace)
    assert [one.gap_ns for one in program.operations[1]] == [300, 7000]
    assert program.recorded_ns == 300 + 50 + 7000 + 60


def test_calls_with_a_rank_outside_of_their_communicator_are_left_out() -> None:
    calls = (Call(), Call(function=Function.BROADCAST, root=100), Call(function=Function.SEND, shift=1))
    trace = make_trace(ranks=2, calls=calls, steps=3)
    for rank in trace.ranks:
        is_transfer = np.isin(rank.operations["function"], (Function.SEND, Function.RECV))
        rank.operations["peer"][is_transfer] = 2
    program = make_program(trace)
    validate(program)
    assert [call_names(operations) for operations in program.operations] == [["all_reduce"]] * 2
    assert any("6 with a root or peer outside of their communicator" in note for note in program.notes)


def test_a_late_rank_is_late_in_the_replay() -> None:
    program = make_program(grid(late_ns={3: 500_000}))
    first = [operations[0].gap_ns for operations in program.operations]
    assert [gap - first[0] for gap in first[:4]] == [0, 0, 0, 500_000]


def test_the_step_with_the_median_time_is_selected() -> None:
    trace = make_trace(ranks=2, calls=DEFAULT_CALLS, steps=6)
    durations = [0, 5, 1, 9, 3, 7]  # the first step has none
    slowed = []
    for rank in trace.ranks:
        operations = rank.operations.copy()
        delay = np.repeat(np.cumsum(durations), len(DEFAULT_CALLS)).astype(np.uint64) * np.uint64(1_000_000)
        for name in ("enqueue_ns", "device_start_ns", "device_end_ns"):
            operations[name] += delay
        slowed.append(replace(rank, operations=operations))
    assert make_program(replace(trace, ranks=tuple(slowed))).step == "step 2 of 6"


def test_all_operations_are_replayed_with_the_option_and_without_steps() -> None:
    assert [len(rank) for rank in make_program(grid(), whole=True).operations] == [1 + 6 * 5] * 8
    alone = make_program(grid(steps=1))
    assert alone.step == "all operations, because no step repeats"
    assert [len(rank) for rank in alone.operations] == [6] * 8
    with pytest.raises(UsageError, match="--step 9: synthetic has 6 repeated steps"):
        make_program(grid(), step=9)


@pytest.mark.parametrize("ranks", range(2, 9))
def test_a_program_on_fewer_ranks_is_valid(ranks: int) -> None:
    program = make_program(grid(), ranks=ranks)
    validate(program)
    assert len(program.operations) == ranks
    assert (program.recorded_ns is None) == (ranks < 8)
    assert program.has_comparable_calls == (ranks == 8)
    if ranks == 4:
        assert set(program.communicators) == {(0, 1, 2, 3)}
        assert "4 communicators of 2 ranks: left out, because one rank remains." in program.notes
    if ranks == 6:
        assert "1 communicator of 4 ranks: with 2 ranks." in program.notes
        assert any("rooted in rank 0, because their root is not in the replay" in note for note in program.notes)


def test_missing_ranks_are_refused() -> None:
    trace = grid()
    half = replace(trace, ranks=trace.ranks[:4])
    with pytest.raises(UsageError, match=r"lacks 4 ranks: 4, 5, 6, 7; set --scale 4"):
        make_program(half)
    validate(make_program(half, ranks=4))
    with pytest.raises(UsageError, match=r"lacks 7 ranks.*; record all ranks"):
        make_program(replace(trace, ranks=trace.ranks[:1]))


def test_one_note_names_all_reductions() -> None:
    notes = [note for note in make_program(grid(), ranks=4, divisor=10).notes if "says nothing" in note]
    assert len(notes) == 1
    assert notes[0].endswith("it runs with 4 of 8 ranks and with counts and gaps divided by 10.")


def changed(trace: Trace, name: str, value: int, function: Function) -> Trace:
    """Returns the trace with another value in all operations of a function."""

    def change(rank: RankTrace) -> RankTrace:
        operations = rank.operations.copy()
        operations[name][rank.operations["function"] == function] = value
        return replace(rank, operations=operations)

    return replace(trace, ranks=tuple(map(change, trace.ranks)))


@pytest.mark.parametrize(
    ("name", "value", "note"),
    [
        ("datatype", layout.UNKNOWN_BYTE, "8 calls left out: 8 of an unknown element type."),
        ("function", Function.OTHER, "8 calls left out: 8 of an unknown function."),
        ("function", Function.PUT_SIGNAL, "8 calls left out: 8 one-sided."),
        ("flags", layout.Flag.CAPTURED, "8 calls left out: 8 only captured in a graph."),
    ],
)
def test_operations_that_cannot_be_replayed_are_named(name: str, value: int, note: str) -> None:
    program = make_program(changed(grid(), name, value, Function.ALL_GATHER), step=3)
    validate(program)
    assert note in program.notes
    assert (program.recorded_ns, program.has_comparable_calls) == (None, True)
    assert call_names(program.operations[0]) == ["all_reduce", "send", "recv", "broadcast"]


@pytest.mark.parametrize(
    ("name", "value", "function", "assumption"),
    [
        ("redop", layout.UNKNOWN_BYTE, Function.ALL_REDUCE, "8 calls replayed as sum"),
        ("peer", -1, Function.BROADCAST, "8 calls replayed as rooted in rank 0"),
        ("flags", layout.Flag.COUNT_IS_IN_BYTES, Function.ALL_REDUCE, "8 calls replayed as int8 of the same bytes"),
    ],
)
def test_unknown_values_are_assumed_and_named(name: str, value: int, function: Function, assumption: str) -> None:
    program = make_program(changed(grid(), name, value, function), step=3)
    validate(program)
    assert any(note.startswith(assumption) for note in program.notes)
    assert program.recorded_ns is not None


def test_an_operation_that_a_rank_lost_is_left_out_on_all_ranks() -> None:
    trace = grid()
    lost = int(np.flatnonzero(trace.ranks[2].operations["function"] == Function.BROADCAST)[2])  # of step 3
    trace = select_operations(trace, 2, lambda operations: np.arange(len(operations)) != lost)
    ranks = [replace(rank, lost_count=int(rank.rank == 2)) for rank in trace.ranks]
    program = make_program(replace(trace, ranks=tuple(ranks)), whole=True)
    validate(program)
    assert any("without a counterpart in the step" in note for note in program.notes)
    assert program.recorded_ns is None


def test_host_gaps_are_named() -> None:
    program = make_program(grid(device_clock=DeviceClock.NONE))
    validate(program)
    assert any(note.startswith("The trace has no device times: gaps are differences") for note in program.notes)


def test_a_divisor_shrinks_counts_and_gaps() -> None:
    whole, shrunk = make_program(grid()), make_program(grid(), divisor=10)
    validate(shrunk)
    for one, other in zip(whole.operations[0], shrunk.operations[0], strict=True):
        assert (other.element_count, other.gap_ns) == (max(one.element_count // 10, 1), one.gap_ns // 10)
    assert shrunk.recorded_ns is None


def test_ranks_that_end_before_their_begin_give_no_negative_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def draft_backwards(trace: Trace, step: SelectedStep) -> Draft:
        draft = draft_step(trace, step)
        for number, rank in draft.ranks.items():
            draft.ranks[number] = replace(rank, begin_ns=1000, end_ns=999)
        return draft

    monkeypatch.setattr(program_module, "draft_step", draft_backwards)
    program = make_program(grid())
    assert (program.recorded_ns, program.estimated_ns) == (None, 0)


def test_an_anonymous_trace_has_the_operations_and_no_name(tmp_path: object) -> None:
    from pathlib import Path

    trace = replace(grid(hosts=2), name="secret-job")
    # Four bytes that are not zero: random ids next to zeros contain a smaller number in one of 5,000 runs.
    pid = 0x5EC12E75
    ranks = [replace(one, host=f"secret-{one.host}", source="secret-file", pid=pid) for one in trace.ranks]
    communicators = [replace(one, name=f"secret-{one.name}") for one in trace.communicators]
    trace = replace(trace, ranks=tuple(ranks), communicators=tuple(communicators))
    folders = [Path(str(tmp_path)) / name for name in ("a", "b")]
    for folder in folders:
        write_anonymous_trace(trace, folder)
    ids = []
    for folder in folders:
        content = b"".join(file.read_bytes() for file in sorted(folder.iterdir()))
        for name in (b"secret", b"node", b"group", pid.to_bytes(4, "little"), (0xC0FFEE00).to_bytes(8, "little")):
            assert name not in content
        read = read_trace(folder)
        ids.append({one.identity for one in read.communicators})
        for original, copy in zip(trace.ranks, read.ranks, strict=True):
            for field in ("function", "count", "peer", "enqueue_ns", "device_end_ns"):
                assert (original.operations[field] == copy.operations[field]).all()
            assert copy.start_ns < 1e15
            assert copy.pid is None
        starts = [[one.start_ns for one in each.ranks] for each in (trace, read)]
        assert [b - a for a, b in pairwise(starts[0])] == [b - a for a, b in pairwise(starts[1])]
        assert {one.host for one in read.ranks} == {"host-1", "host-2"}
    assert ids[0].isdisjoint(ids[1])
