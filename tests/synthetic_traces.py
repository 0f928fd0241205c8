"""Traces of simulated jobs with known times, for the tests of all code that reads traces.

A rank executes the calls of one stream one after the other. A call starts on a rank after its gap, waits for the other
ranks of its communicator, and ends on all of them after `duration_ns`.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from busbw.traces import format as layout
from busbw.traces.format import DeviceClock, Function, Operations
from busbw.traces.model import Communicator, RankTrace, Trace

START_NS = 1_700_000_000_000_000_000
"""Unix time of the true time 0."""
FLOAT, BFLOAT16 = 7, 9
FIRST_START_NS = 10_000_000
"""True time at which the ranks begin with the first gap."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call that all ranks of a job make in each step."""

    function: Function = Function.ALL_REDUCE
    partition: int = 0
    """Index of the partition of the ranks; each rank calls on its own communicator of it."""
    count: int | Callable[[int, int], int] = 1 << 20
    """Elements, or a function of step and rank of the job."""
    datatype: int = FLOAT
    redop: int = 0
    root: int = -1
    shift: int = 0
    """For `SEND`: each rank sends to the rank that is so many further, and receives from the opposite side."""
    gap_ns: int = 100_000
    duration_ns: int = 50_000
    stream: int = 0
    """Streams of a rank are independent of each other."""
    group: int = 0
    """Calls of one step with the same number other than 0 are in one group."""


def split_ranks(ranks: int, size: int, stride: int = 1) -> list[tuple[int, ...]]:
    """Returns a partition: communicators of `size` ranks, with this distance between their ranks."""
    block = size * stride
    return [
        tuple(start + offset + stride * index for index in range(size))
        for start in range(0, ranks, block)
        for offset in range(stride)
    ]


DEFAULT_CALLS = (
    Call(function=Function.ALL_GATHER, count=1 << 18, datatype=BFLOAT16, redop=layout.UNKNOWN_BYTE),
    Call(function=Function.REDUCE_SCATTER, count=1 << 18, datatype=BFLOAT16),
    Call(function=Function.ALL_REDUCE, count=1),
)


class _Simulation:
    def __init__(self, ranks: int, partitions: Sequence[Sequence[Sequence[int]]], noise_ns: float, seed: int) -> None:
        self.communicators = [tuple(members) for partition in partitions for members in partition]
        self.partitions = partitions
        self.noise_ns = noise_ns
        self.random = np.random.default_rng(seed)
        self.now: dict[tuple[int, int], float] = defaultdict(lambda: FIRST_START_NS)
        self.operations: list[list[tuple[float, float, Operations]]] = [[] for _ in range(ranks)]
        self.group_numbers = 0

    def run(self, calls: Sequence[Call], step: int, late_ns: Mapping[int, float]) -> None:
        groups: dict[int, int] = {}
        for position, call in enumerate(calls):
            if call.group and call.group not in groups:
                self.group_numbers += 1
                groups[call.group] = self.group_numbers
            for members in self.partitions[call.partition]:
                arrivals = {}
                for rank in members:
                    lateness = late_ns.get(rank, 0) if position == 0 else 0
                    arrivals[rank] = self.now[rank, call.stream] + call.gap_ns + lateness
                end = max(arrivals.values()) + call.duration_ns
                for rank in members:
                    own_end = end + abs(self.random.normal(0, self.noise_ns)) if self.noise_ns else end
                    self._append(call, members, rank, step, groups.get(call.group, 0), arrivals[rank], own_end)
                    self.now[rank, call.stream] = own_end

    def _append(
        self, call: Call, members: Sequence[int], rank: int, step: int, group: int, start: float, end: float
    ) -> None:
        own, size = members.index(rank), len(members)
        if call.function == Function.SEND:
            if not group:
                self.group_numbers += 1
                group = self.group_numbers
            target, source = (own + call.shift) % size, (own - call.shift) % size
            parts = [(Function.SEND, target, rank), (Function.RECV, source, members[source])]
        else:
            parts = [(call.function, call.root, rank)]
        for function, peer, counted_rank in parts:
            record = np.zeros((), layout.OPERATION)
            record["kind"], record["function"] = layout.Kind.OPERATION, function
            record["datatype"], record["redop"] = call.datatype, call.redop
            record["communicator"] = self.communicators.index(tuple(members))
            record["stream"], record["peer"], record["group"] = call.stream, peer, group
            record["count"] = call.count if isinstance(call.count, int) else call.count(step, counted_rank)
            record["algorithm"], record["protocol"] = layout.Algorithm.RING, layout.Protocol.SIMPLE
            record["channels"], record["network_steps"] = 8, layout.UNKNOWN_COUNT
            self.operations[rank].append((start, end, record[()]))


def make_trace(
    *,
    ranks: int = 8,
    partitions: Sequence[Sequence[Sequence[int]]] = (),
    calls: Sequence[Call] = DEFAULT_CALLS,
    steps: int = 10,
    startup: Sequence[Call] = (),
    hosts: int = 1,
    device_clock: DeviceClock = DeviceClock.HOST,
    clock_offsets_ns: Sequence[int] = (),
    clock_drifts: Sequence[float] = (),
    late_ns: Mapping[int, float] | None = None,
    noise_ns: float = 0,
    seed: int = 0,
) -> Trace:
    """Simulates a job and returns its trace.

    Args:
        ranks: Number of ranks. They are distributed to the hosts "node-0", ... in blocks.
        partitions: Partitions of the ranks into communicators, as of `split_ranks`. Default: one of all ranks.
        calls: Calls of one step, in the order of each rank.
        steps: Number of steps.
        startup: Calls before the first step.
        hosts: Number of hosts.
        device_clock: Clock of the device times. `NONE`: no device times.
        clock_offsets_ns: Error of each clock: one per host, or one per rank for `DeviceClock.GPU`.
        clock_drifts: Relative rate error of each clock, in the same order.
        late_ns: Additional compute time before the first call of each step, by rank.
        noise_ns: Scale of the additional time until a rank ends an operation (half-normal).
        seed: Seed of the noise.
    """
    partitions = partitions or [[tuple(range(ranks))]]
    simulation = _Simulation(ranks, partitions, noise_ns, seed)
    simulation.run(startup, 0, {})
    for step in range(steps):
        simulation.run(calls, step, late_ns or {})
    clocks = [
        (clock_offsets_ns[index] if clock_offsets_ns else 0, clock_drifts[index] if clock_drifts else 0.0)
        for index in range(ranks if device_clock == DeviceClock.GPU else hosts)
    ]
    return Trace(
        name="synthetic",
        ranks=tuple(_make_rank(simulation, rank, rank * hosts // ranks, device_clock, clocks) for rank in range(ranks)),
        communicators=tuple(
            Communicator(identity=f"{0xC0FFEE00 + index:016x}", name=f"group_{index}", size=len(one), members=one)
            for index, one in enumerate(simulation.communicators)
        ),
    )


def _make_rank(
    simulation: _Simulation, rank: int, host: int, device_clock: DeviceClock, clocks: Sequence[tuple[int, float]]
) -> RankTrace:
    rows = sorted(simulation.operations[rank], key=lambda row: row[0])  # stable: a send precedes its receive
    operations = np.array([row[2] for row in rows], layout.OPERATION)
    host_clock = (0, 0.0) if device_clock == DeviceClock.GPU else clocks[host]
    start_ns = int(_read_clock(np.array([1e6 * rank]), host_clock)[0])
    starts, ends = (np.array([row[column] for row in rows], float) for column in (0, 1))
    operations["enqueue_ns"] = _read_clock(starts, host_clock) - start_ns
    if device_clock == DeviceClock.GPU:
        operations["device_start_ns"] = _read_clock(starts, clocks[rank])
        operations["device_end_ns"] = _read_clock(ends, clocks[rank])
    elif device_clock == DeviceClock.HOST:
        operations["device_start_ns"] = operations["enqueue_ns"]
        operations["device_end_ns"] = _read_clock(ends, host_clock) - start_ns
    return RankTrace(
        rank=rank,
        host=f"node-{host}",
        pid=1000 + rank,
        producer="synthetic",
        nccl_version="2.28.9",
        device_clock=device_clock,
        start_ns=start_ns,
        operations=operations,
        own_rank_by_communicator={
            index: one.index(rank) for index, one in enumerate(simulation.communicators) if rank in one
        },
    )


def _read_clock(true_ns: NDArray[np.float64], clock: tuple[int, float]) -> NDArray[np.int64]:
    """Returns Unix times as a clock with this offset and relative rate error shows them."""
    offset_ns, drift = clock
    return START_NS + offset_ns + np.rint(true_ns * (1 + drift)).astype(np.int64)


def select_operations(trace: Trace, rank: int, keep: Callable[[Operations], NDArray[np.generic]]) -> Trace:
    """Returns the trace with only the operations of a rank that a mask or an index array keeps."""
    changed = [
        replace(one, operations=one.operations[keep(one.operations)]) if one.rank == rank else one
        for one in trace.ranks
    ]
    return replace(trace, ranks=tuple(changed))
