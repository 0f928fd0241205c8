"""Alignment of clocks against simulated clocks of known offset, drift and noise."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from synthetic_traces import Call, make_trace, select_operations, split_ranks

from busbw.traces.clocks import ClockAlignment, ClockMap, align_clocks
from busbw.traces.format import DeviceClock, Function
from busbw.traces.matching import match_operations
from busbw.traces.model import Trace

CALLS = (Call(gap_ns=2_000_000), Call(gap_ns=1_000_000, function=Function.ALL_GATHER))


def make_clocks(seed: int, count: int, *, drift: float = 0.0) -> tuple[list[int], list[float]]:
    random = np.random.default_rng(seed)
    offsets = random.integers(-(10**9), 10**9, count).tolist()
    return offsets, random.normal(0, drift, count).tolist() if drift else [0.0] * count


def align(trace: Trace) -> ClockAlignment:
    return align_clocks(trace, match_operations(trace))


def offset_ns(alignment: ClockAlignment, rank: int) -> int | None:
    """Returns how much a clock is ahead of the common one."""
    one = alignment.maps[rank]
    return one.pivot_ns - one.result_ns if one else None


def max_error_ns(trace: Trace, alignment: ClockAlignment, exact: Trace) -> float:
    """Returns the largest error of the start times relative to the first rank.

    `exact` is the trace of the same job with perfect clocks.
    """
    errors = []
    for rank, true, to_common in zip(trace.ranks, exact.ranks, alignment.maps, strict=True):
        assert to_common is not None
        true_ns = true.operations["device_start_ns"].astype(np.int64)
        if true.device_clock == DeviceClock.HOST:
            true_ns += true.start_ns
        errors.append(to_common.convert(rank.operations["device_start_ns"]) - true_ns)
    return float(np.abs(np.array(errors) - errors[0]).max())


@pytest.mark.parametrize("clock", [DeviceClock.HOST, DeviceClock.GPU])
@pytest.mark.parametrize("drift", [0.0, 1e-3])
def test_the_error_covers_the_true_error(clock: DeviceClock, drift: float) -> None:
    covered, errors = [], []
    for seed in range(20):
        offsets, drifts = make_clocks(seed, 4, drift=drift)

        def make(offsets: Sequence[int], drifts: Sequence[float], seed: int = seed) -> Trace:
            return make_trace(
                ranks=4,
                hosts=4,
                calls=CALLS,
                steps=100,
                device_clock=clock,
                clock_offsets_ns=offsets,
                clock_drifts=drifts,
                noise_ns=10_000,
                late_ns={2: 5e5},
                seed=seed,
            )

        # The clock of the first rank is the common one, so the times that it measures drift.
        exact = make([0] * 4, [drifts[0]] * 4)
        trace = make(offsets, drifts)
        alignment = align(trace)
        assert alignment.error_ns is not None
        covered.append(max_error_ns(trace, alignment, exact) <= alignment.error_ns)
        errors.append(alignment.error_ns)
    assert np.mean(covered) >= 0.95
    assert np.median(errors) < 30_000  # 95 % of the differences of two half-normal values of 10 us are below 20 us


def test_without_noise_the_offsets_are_exact() -> None:
    offsets = [0, 123_456_789, -5]
    trace = make_trace(ranks=6, hosts=3, clock_offsets_ns=offsets)
    alignment = align(trace)
    assert alignment.error_ns == 0
    for rank in trace.ranks:
        started_after_first = rank.start_ns - trace.ranks[0].start_ns - offsets[rank.rank // 2]
        assert offset_ns(alignment, rank.rank) == -started_after_first


def test_operations_of_single_outliers_do_not_matter() -> None:
    trace = make_trace(ranks=4, hosts=2, clock_offsets_ns=[0, 10**8], steps=40)
    trace.ranks[3].operations["device_end_ns"][::9] += 10**7
    trace.ranks[2].operations["device_end_ns"][::9] += 10**7
    alignment = align(trace)
    assert offset_ns(alignment, 2) == -(trace.ranks[2].start_ns - trace.ranks[0].start_ns - 10**8)


def test_clocks_are_aligned_over_several_communicators() -> None:
    offsets = [0, 10**6, -(10**7), 10**8]
    partitions: list[list[tuple[int, ...]]] = [split_ranks(4, 2), [(1, 2)]]
    calls = [Call(), Call(partition=1)]
    trace = make_trace(
        ranks=4, hosts=4, partitions=partitions, calls=calls, device_clock=DeviceClock.GPU, clock_offsets_ns=offsets
    )
    alignment = align(trace)
    assert [offset_ns(alignment, rank) for rank in range(4)] == offsets


def test_transfers_and_broadcasts_align_nothing() -> None:
    calls = [Call(function=Function.SEND, shift=1), Call(function=Function.BROADCAST, root=0)]
    alignment = align(make_trace(ranks=2, hosts=2, calls=calls))
    assert alignment.error_ns is None
    assert alignment.maps[1] is None
    assert "not aligned" in alignment.basis


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_few_operations_are_not_enough(steps: int) -> None:
    alignment = align(make_trace(ranks=2, hosts=2, steps=steps))
    assert alignment.error_ns is None


def test_a_clock_without_common_operations_is_not_aligned() -> None:
    trace = make_trace(ranks=6, hosts=3, partitions=[[(0, 1, 2, 3)], [(4, 5)]], calls=[Call(), Call(partition=1)])
    alignment = align(trace)
    assert [one is None for one in alignment.maps] == [False] * 4 + [True] * 2
    assert alignment.error_ns is not None
    assert "not aligned: 1 clock with too few of them" in alignment.basis


def test_the_errors_of_several_pairs_of_clocks_are_added() -> None:
    partitions: list[list[tuple[int, ...]]] = [split_ranks(4, 2), [(1, 2)]]
    calls = [Call(), Call(partition=1)]
    trace = make_trace(ranks=4, hosts=4, partitions=partitions, calls=calls, steps=100, noise_ns=10_000)
    alignment = align(trace)
    first_pair = align(replace(trace, ranks=trace.ranks[:2]))
    assert first_pair.error_ns is not None
    assert alignment.error_ns is not None
    assert alignment.error_ns > 2 * first_pair.error_ns
    assert "a sum of 95th percentiles" in alignment.basis
    assert "the 95th percentile" not in alignment.basis


def test_the_first_rank_is_compared_with_all_hosts_if_ranks_of_its_host_come_last() -> None:
    trace = make_trace(ranks=4, hosts=4, steps=100, noise_ns=10_000)
    *others, last = trace.ranks
    last = replace(last, host=trace.ranks[0].host)
    blocks, interleaved = align(replace(trace, ranks=tuple(others))), align(replace(trace, ranks=(*others, last)))
    assert interleaved.error_ns == pytest.approx(blocks.error_ns)


def test_a_rank_without_operations_is_not_aligned() -> None:
    trace = select_operations(make_trace(ranks=3, hosts=3), 1, lambda operations: np.zeros(len(operations), bool))
    assert [one is None for one in align(trace).maps] == [False, True, False]


@pytest.mark.parametrize("clock", [DeviceClock.NONE, DeviceClock.HOST])
def test_ranks_of_one_host_share_its_clock(clock: DeviceClock) -> None:
    trace = make_trace(ranks=4, device_clock=clock, late_ns={2: 1e6})
    alignment = align(trace)
    assert alignment.error_ns == 0
    calls = [
        to_common.convert(rank.operations["enqueue_ns"])
        for rank, to_common in zip(trace.ranks, alignment.maps, strict=True)
        if to_common
    ]
    # The other ranks wait for the late one in each step, and then begin the next gap with it.
    assert (calls[2] - calls[0])[:6].tolist() == [10**6, 0, 0, 10**6, 0, 0]
    assert np.array_equal(calls[0], trace.ranks[0].operations["enqueue_ns"])


def test_hosts_without_device_times_are_not_aligned() -> None:
    alignment = align(make_trace(ranks=4, hosts=2, device_clock=DeviceClock.NONE))
    assert alignment.error_ns is None
    assert [one is None for one in alignment.maps] == [False, False, True, True]


def test_durations_have_no_clock() -> None:
    trace = make_trace(ranks=2)
    ranks = tuple(replace(rank, device_clock=DeviceClock.DURATION) for rank in trace.ranks)
    alignment = align(replace(trace, ranks=ranks))
    assert alignment.maps == (None, None)
    assert alignment.error_ns is None
    assert alignment.basis == "the clocks are not aligned: the ranks have durations only"


def test_maps_keep_nanoseconds_of_unix_times() -> None:
    one = ClockMap(1_700_000_000_000_000_001, 5, 1 + 1e-6)
    times = np.array([1_700_000_000_000_000_001, 1_700_000_001_000_000_002], np.uint64)
    assert one.convert(times).tolist() == [5, 1_000_001_006]
    there_and_back = one.then(one.inverse()).convert(times)
    assert np.abs(there_and_back - times.astype(np.int64)).max() <= 1
