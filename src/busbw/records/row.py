"""Record of a row: one placement of one size, or one call of a communicator's life (comm_ops).

Lists of values by rank are in the order of the ranks of the group.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

SampleClock = Literal["host", "device_events", "gated_device_events"]
LateRankKind = Literal["late_start", "slow_launch", "late_first", "slow_call"]


class StatsRecord(Struct, kw_only=True, frozen=True):
    """Statistics over iterations without skipped ones. An iteration lasts until its last rank has ended."""

    samples: Annotated[int, Meta(description="Iterations counted.", ge=1)]
    mean_us: Annotated[float, Meta(description="Mean.")]
    median_us: Annotated[float, Meta(description="Median.")]
    p95_us: Annotated[float, Meta(description="95th percentile.")]
    p99_us: Annotated[float, Meta(description="99th percentile.")]
    min_us: Annotated[float, Meta(description="Shortest.")]
    max_us: Annotated[float, Meta(description="Longest.")]
    stdev_us: Annotated[float, Meta(description="Standard deviation of the population.")]
    cv_percent: Annotated[float | None, Meta(description="Standard deviation in percent of the mean.")]
    median_ci95_us: Annotated[
        tuple[float, float] | None,
        Meta(description="95 % confidence interval of the median; null if there are too few samples."),
    ]


class LateRankRecord(Struct, kw_only=True, frozen=True):
    """A rank that the others waited for, by more than the noise of the measurement."""

    kind: Annotated[
        LateRankKind,
        Meta(
            description="'late_start': at each iteration. 'slow_launch': at each operation, because its launch takes "
            "longer than the operation. 'late_first': at the first iteration after a barrier. "
            "'slow_call': in a call of comm_ops that ranks with the same role finish sooner. A role is one half of a "
            "split, or the old or new ranks of a grow."
        ),
    ]
    rank: Annotated[int, Meta(description="Rank in the whole job.")]
    host: Annotated[str, Meta(description="Host name.")]
    late_us: Annotated[
        float,
        Meta(
            description="Delay after the last of the other ranks of the group. For 'slow_launch' and 'slow_call': "
            "how much longer the launch or call takes than on the median rank."
        ),
    ]
    message: Annotated[str, Meta(description="The sentence in `warnings` about this late rank.")]


class ClockRecord(Struct, kw_only=True, frozen=True):
    """Clock of a rank's device around a measurement."""

    before_mhz: Annotated[float | None, Meta(description="Clock after the warm-up; null if unknown.")]
    after_mhz: Annotated[
        float | None, Meta(description="Clock while the last operations ran, or just after them; null if unknown.")
    ]
    most_mhz: Annotated[float | None, Meta(description="Maximum clock; null if unknown.")]
    slowed_by: Annotated[
        list[str],
        Meta(description="Throttle reasons at the time of `after_mhz`; empty if the clock was not throttled."),
    ]


class SkewRecord(Struct, kw_only=True, frozen=True):
    """Comparison of an uneven operation with the balanced operation, which moves the same total evenly."""

    busiest_bytes: Annotated[
        int, Meta(description="Bytes that the busiest rank sends to the others, or receives from them.", ge=0)
    ]
    imbalance: Annotated[
        float | None, Meta(description="`busiest_bytes` relative to an even share; null if no data leaves a rank.")
    ]
    balanced_time_us: Annotated[
        float | None, Meta(description="Time of the balanced operation, measured in alternation; null if unknown.")
    ]
    bound_us: Annotated[
        float | None,
        Meta(
            description="Time of `busiest_bytes` at the higher of two rates: that of each rank in the balanced "
            "operation, and that of the busiest rank in this operation; null if unknown."
        ),
    ]
    ratio_to_bound: Annotated[
        float | None, Meta(description="`time_us` divided by `bound_us`, at least 1; null if unknown.")
    ]


class TogetherRecord(Struct, kw_only=True, frozen=True):
    """The operation while another operation, its neighbor, runs (--with). Batches with and without it alternate."""

    time_us: Annotated[
        float | None,
        Meta(description="As `time_us` of the row; null if the neighbor was active for less than 90 % of the time."),
    ]
    ratio_to_alone: Annotated[float | None, Meta(description="`time_us` divided by that of the row; null if unknown.")]
    device_time_us: Annotated[
        float | None, Meta(description="As `device_time_us` of the row; null also if `time_us` is.")
    ] = None
    samples_us: Annotated[
        list[list[float]], Meta(description="As `samples_us` of the row; empty if `time_us` is null.")
    ] = msgspec.field(default_factory=list)
    active_percent: Annotated[
        float,
        Meta(
            description="Share of the time in which an operation of the neighbor is issued and unfinished, on the rank "
            "with the smallest share. The neighbor may wait for a processor or for its next launch in this time."
        ),
    ]
    neighbor_operations: Annotated[int, Meta(description="Operations of the neighbor on each rank.", ge=0)]
    neighbor_time_us: Annotated[
        float | None,
        Meta(
            description="Mean time of the neighbor's operations next to the measured ones, on the slowest rank; null "
            "if unknown. If the neighbor's operation alone takes much less time, the neighbor hardly ran."
        ),
    ] = None


class LifecycleRecord(Struct, kw_only=True, frozen=True):
    """The call of a communicator's life that a row of comm_ops measures."""

    test: Annotated[str, Meta(description="'init', 'split', 'shrink' or 'grow'.")]
    call: Annotated[str, Meta(description="'rendezvous', 'create', 'first_all_reduce', ...")]
    function: Annotated[str | None, Meta(description="NCCL's function: 'ncclCommSplit'; null without a library.")]
    test_ranks: Annotated[int, Meta(description="Number of ranks of the test; some may not make the call.", ge=1)]


class WrongElement(Struct, kw_only=True, frozen=True):
    """One wrong element of a result, or of the guard around a buffer."""

    rank: Annotated[int, Meta(description="The rank that holds the element.")]
    place: Annotated[str, Meta(description="Name of the buffer or guard.")]
    index: Annotated[int, Meta(description="Index of the element in the rank's result; negative before its start.")]
    expected: Annotated[str, Meta(description="Expected value and bits: '3 (0x40400000)'.")]
    got: Annotated[str, Meta(description="Value and bits that were found.")]


class CheckRecord(Struct, kw_only=True, frozen=True):
    """Result of the check. Not checked, not applicable and zero wrong elements are three different results."""

    state: Annotated[
        Literal["not_checked", "not_applicable", "checked"],
        Meta(description="'not_applicable': this placement has no defined result to check."),
    ]
    wrong_elements: Annotated[
        int | None, Meta(description="Number of wrong elements on all ranks of the group; null without a check.")
    ]
    wrong_ranks: Annotated[int | None, Meta(description="Number of ranks with a wrong element; null without a check.")]
    policy: Annotated[str | None, Meta(description="'exact', or the limits of the check; null without a check.")]
    first_wrong: Annotated[list[WrongElement], Meta(description="The first few wrong elements.")]


class RowRecord(Struct, tag_field="kind", tag="row", kw_only=True, frozen=True):
    """One placement (of up to two) of a table row of one group, or one call of a communicator's life (comm_ops)."""

    collective: Annotated[str, Meta(description="'all_reduce', ...; of comm_ops the test and the call: 'split/create'")]
    requested_bytes: Annotated[int, Meta(description="Size that the sweep requested.", ge=0)]
    size_bytes: Annotated[
        int,
        Meta(
            description="The size column: maximum number of bytes that a rank sends or receives; 0 if the call moves "
            "no data.",
            ge=0,
        ),
    ]
    count: Annotated[int, Meta(description="The count column: elements of the call.", ge=0)]
    dtype: Annotated[str, Meta(description="Element type: 'float', 'bfloat16', ...")]
    redop: Annotated[
        str | None, Meta(description="Reduction operator: 'sum', ...; null if the collective does not reduce.")
    ]
    root: Annotated[int | None, Meta(description="Root rank; null if the collective has no root.")]
    placement: Annotated[
        Literal["out_of_place", "in_place"], Meta(description="In place if send and receive buffer are shared.")
    ]
    group: Annotated[int, Meta(description="Group under NCCL_TESTS_SPLIT, otherwise 0.")]
    ranks: Annotated[
        int,
        Meta(
            description="Number of ranks of the group. In comm_ops: number of ranks in the call, from rank 0 on.",
            ge=1,
        ),
    ]
    cycle: Annotated[int, Meta(description="Pass over all rows (-N), from 0.", ge=0)]
    time_us: Annotated[
        float | None, Meta(description="Time per operation, ranks combined by -a; null if not a number.")
    ]
    device_time_us: Annotated[
        float | None,
        Meta(description="Time of an operation on the device if all ranks begin together; null if unknown."),
    ] = None
    launch_time_us: Annotated[
        float | None,
        Meta(description="Time that the host needs to issue an operation; null if issuing it executes it."),
    ] = None
    cpu_time_us: Annotated[float | None, Meta(description="CPU time per operation; null without -C.")]
    algbw_gbps: Annotated[float | None, Meta(description="Algorithm bandwidth, 1e9 bytes/s; null if not a number.")]
    busbw_gbps: Annotated[float | None, Meta(description="Bus bandwidth, 1e9 bytes/s; null if not a number.")]
    stats: Annotated[
        StatsRecord | None, Meta(description="Statistics over iterations; null if single iterations were not timed.")
    ]
    stopped_by: Annotated[
        Literal["iterations", "target_ci", "max_time", "sample_limit"],
        Meta(description="The rule that ended the sampling."),
    ]
    check: CheckRecord
    rank_times_us: Annotated[
        list[float],
        Meta(description="Time per operation over all iterations, per rank of the group. `time_us` combines them."),
    ] = msgspec.field(default_factory=list)
    rank_device_times_us: Annotated[
        list[float],
        Meta(description="Device time per rank of the group. `device_time_us` combines them. Empty if unknown."),
    ] = msgspec.field(default_factory=list)
    rank_launch_times_us: Annotated[
        list[float],
        Meta(description="Launch time per rank of the group. `launch_time_us` combines them. Empty if unknown."),
    ] = msgspec.field(default_factory=list)
    rank_arrivals_us: Annotated[
        list[float],
        Meta(
            description="Start of each rank of the group, relative to the rank that starts first. Host backend: median "
            "over iterations. Device: first iteration. Empty on a device if ranks do not wait for all others "
            "(collectives with a root, sendrecv), or if all ranks began together. Empty on the host before schema 1.5."
        ),
    ] = msgspec.field(default_factory=list)
    late_ranks: Annotated[
        list[LateRankRecord],
        Meta(description="Ranks that the others waited for in both placements, at most one of each kind."),
    ] = msgspec.field(default_factory=list)
    rank_clocks: Annotated[
        list[ClockRecord],
        Meta(description="Clock of the device, per rank of the group. Empty if unknown for all."),
    ] = msgspec.field(default_factory=list)
    sample_clock: Annotated[
        SampleClock | None,
        Meta(
            description="Clock of `samples_us`: the host's, or events on the device. Gated: all ranks issue before any "
            "operation starts, so the samples exclude launches. Null before schema 1.4."
        ),
    ] = None
    samples_us: Annotated[
        list[list[float]],
        Meta(description="Time per operation for each rank of the group and each iteration, to the nanosecond."),
    ]
    algorithm: Annotated[
        str | None,
        Meta(
            description="Algorithm of NCCL in the warm-up: 'ring', 'tree', 'nvls', ...; null if unknown, or if several "
            "were reported, which a warning names."
        ),
    ] = None
    protocol: Annotated[
        str | None, Meta(description="Protocol of NCCL: 'll', 'll128' or 'simple'; null as `algorithm`.")
    ] = None
    channels: Annotated[int | None, Meta(description="Channels of NCCL; null as `algorithm`.")] = None
    skew: Annotated[SkewRecord | None, Meta(description="Bound of an uneven operation; null without --skew.")] = None
    together: Annotated[
        TogetherRecord | None, Meta(description="The operation next to its neighbor; null without --with.")
    ] = None
    lifecycle: Annotated[LifecycleRecord | None, Meta(description="Call of comm_ops; null for a collective.")] = None
    warnings: Annotated[list[str], Meta(description="Warnings about this measurement, each with a remedy.")]
    timestamp: Annotated[str, Meta(description="Local time at the row's end, in the zone of start_time.")]
