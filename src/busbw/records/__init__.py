"""Types of the records that the engine writes with `--records`, one JSON object per line.

These types are the contract. `python -m busbw.schema` generates `schema/records.schema.json` from them. An engine test
compares a run that has every field with a golden file, and `tests/python/test_records.py` checks that file against the
schema. Field names contain the unit; GB/s is 1e9 bytes per second. `None` means missing and is never the same as zero.
"""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from busbw.errors import BusbwError

SCHEMA_VERSION = "1.8"
"""Version of the record schema (rules in schema/README.md). engine/output/record_writer.hpp has the same value."""


SampleClock = Literal["host", "device_events", "gated_device_events"]
LateRankKind = Literal["late_start", "slow_launch", "late_first", "slow_call"]


class RecordsError(BusbwError):
    """A record file cannot be read. The message names the file, the line and a remedy."""


class SettingsRecord(Struct, kw_only=True, frozen=True):
    """Settings of the command line, with defaults."""

    threads: Annotated[int, Meta(description="Threads per process (-t).")]
    gpus_per_thread: Annotated[int, Meta(description="GPUs per thread (-g).")]
    processes: Annotated[int, Meta(description="Processes of the job.")]
    min_bytes: Annotated[int, Meta(description="Smallest size of the sweep (-b).")]
    max_bytes: Annotated[int, Meta(description="Largest size of the sweep (-e).")]
    step_bytes: Annotated[int | None, Meta(description="Difference of two sizes (-i); null if another rule is used.")]
    step_factor: Annotated[int | None, Meta(description="Ratio of two sizes (-f); null if another rule is used.")]
    sizes_bytes: Annotated[list[int] | None, Meta(description="The sizes (--sizes); null if another rule is used.")]
    warmup_iterations: Annotated[int, Meta(description="Iterations before the timed ones (-w).")]
    iterations: Annotated[int, Meta(description="Timed iterations (-n); a stopping rule may change them.")]
    aggregated_iterations: Annotated[int, Meta(description="Operations issued as one group per iteration (-m).")]
    run_cycles: Annotated[int, Meta(description="Passes over all rows (-N); 0 is without limit.")]
    check_iterations: Annotated[int, Meta(description="Checked operations per placement (-c); 0 is no check.")]
    graph_launches: Annotated[int, Meta(description="Launches of a captured graph (-G); 0 is no graph.")]
    unalign_elements: Annotated[int, Meta(description="Elements by which buffers are misaligned (-u).")]
    blocking: Annotated[int, Meta(description="Waiting mode of the host: nccl-tests' -z, 0 to 3.")]
    average: Annotated[
        int, Meta(description="Rule that combines the ranks' times (-a): 0 rank 0, 1 mean, 2 min, 3 max.")
    ]
    per_iteration: Annotated[bool, Meta(description="True if the table shows statistics over iterations (-I).")]
    per_iteration_skip: Annotated[int, Meta(description="Leading iterations left out of the statistics (-K).")]
    parallel_init: Annotated[bool, Meta(description="True if threads initialize at the same time (-p).")]
    report_cputime: Annotated[bool, Meta(description="True if the table shows CPU time (-C).")]
    report_timestamps: Annotated[bool, Meta(description="True if the table's rows end with the time of day (-S).")]
    report_times: Annotated[bool, Meta(description="True if the table has the three times (--report-times).")] = False
    placement: Annotated[Literal["in", "out", "both"], Meta(description="Placements measured (--placement).")]
    target_ci_percent: Annotated[
        float | None,
        Meta(
            description="Stop at this half-width of the median's 95 % interval, in percent of the median (--target-ci)."
        ),
    ]
    max_time_s: Annotated[float | None, Meta(description="Time budget of one placement of one row (--max-time).")]
    timeout_s: Annotated[int, Meta(description="Seconds without progress of any rank (-T); 0 is without limit.")]
    local_register: Annotated[
        int, Meta(description="Registration of buffers with NCCL (-R): 0 none, 1 local, 2 symmetric windows.")
    ] = 0
    cta_policy: Annotated[int | None, Meta(description="NCCL's CTA policy (-x); null if NCCL chose.")] = None
    device_implementation: Annotated[
        int, Meta(description="Kernel on NCCL's device API (-D); 0 is the library's own operation.")
    ] = 0
    device_cta_count: Annotated[int | None, Meta(description="CTAs of the -D kernel (-V); null without a kernel.")] = (
        None
    )
    report_memory: Annotated[bool, Meta(description="True if GPU memory is reported (-M).")] = False
    one_sided: Annotated[
        bool, Meta(description="True if ranks put data into buffers of peers and wait for signals (-H).")
    ] = False
    rma_contexts: Annotated[
        int | None, Meta(description="NCCL's contexts that the puts use (-H); null if not one-sided.")
    ] = None
    skew: Annotated[str | None, Meta(description="Distribution of an uneven alltoallv (--skew); null if absent.")] = (
        None
    )
    neighbor: Annotated[str | None, Meta(description="Load next to the operation (--with); null if absent.")] = None
    share: Annotated[
        bool | None, Meta(description="comm_ops: parent and new communicator share resources (-S); otherwise null.")
    ] = None
    abort: Annotated[
        bool | None, Meta(description="comm_ops: communicators are aborted, not destroyed (-a); otherwise null.")
    ] = None
    root_every: Annotated[
        int | None, Meta(description="comm_ops: ranks for each root (-R), 0 for one root; otherwise null.")
    ] = None
    work_iterations: Annotated[
        int | None, Meta(description="comm_ops: all_reduce operations on each communicator (-W); otherwise null.")
    ] = None
    resize: Annotated[
        str | None, Meta(description="comm_ops: rule for the ranks that remain (-r): 'factor-2'; otherwise null.")
    ] = None


class LibraryRecord(Struct, kw_only=True, frozen=True):
    """The library that a rank measures."""

    version: Annotated[str, Meta(description="Version that the library reports: '2.28.9'.")]
    path: Annotated[str, Meta(description="Path of the library's file, links followed.")]
    sha256: Annotated[
        str | None, Meta(description="SHA-256 of the file, 64 hexadecimal digits; null if the file is unreadable.")
    ]


class RankRecord(Struct, kw_only=True, frozen=True):
    """One rank of the job with its host, device and library."""

    rank: Annotated[int, Meta(description="Rank in the whole job.")]
    group: Annotated[int, Meta(description="Group under NCCL_TESTS_SPLIT; otherwise 0.")]
    process: Annotated[int, Meta(description="Index of the rank's process in the job.")]
    pid: Annotated[int, Meta(description="Process id on the host.")]
    host: Annotated[str, Meta(description="Host name.")]
    device: Annotated[int, Meta(description="GPU index; on the host backend the rank's index on its machine.")]
    bus_id: Annotated[str, Meta(description="PCI bus id as 0000:0f:00; 'cpu' on the host backend.")]
    device_name: Annotated[str, Meta(description="Name of the GPU, or of the processor on the host backend.")]
    library: Annotated[
        LibraryRecord | None, Meta(description="The library that the rank measures; null on the host backend.")
    ] = None
    most_clock_mhz: Annotated[float | None, Meta(description="Maximum clock of the device; null if unknown.")] = None


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
    """The operation while its neighbor (--with) runs. These batches alternate with batches of the operation alone."""

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
        int | None, Meta(description="Number of wrong elements on all ranks of the group; null unless checked.")
    ]
    wrong_ranks: Annotated[int | None, Meta(description="Number of ranks with a wrong element; null unless checked.")]
    policy: Annotated[str | None, Meta(description="'exact', or the limits of the check; null unless checked.")]
    first_wrong: Annotated[list[WrongElement], Meta(description="The first few wrong elements.")]


class HeaderRecord(Struct, tag_field="kind", tag="run", kw_only=True, frozen=True):
    """The first line: the facts that are known before the first row."""

    schema_version: Annotated[str, Meta(description="Version of this schema, major.minor.", pattern=r"^\d+\.\d+$")]
    busbw_version: Annotated[str, Meta(description="Version of the program.")]
    busbw_build: Annotated[
        str | None,
        Meta(description="The executable's GNU build id, which distinguishes builds of one version; null if none."),
    ] = None
    busbw_path: Annotated[str | None, Meta(description="Path of the executable, links followed; null if unknown.")] = (
        None
    )
    backend: Annotated[str, Meta(description="Backend that ran the collectives: 'host', 'nccl', ...")]
    backend_version: Annotated[str, Meta(description="Version of the backend's library.")]
    run_id: Annotated[str, Meta(description="Unique per run.")]
    program: Annotated[str, Meta(description="The program's name: 'all_reduce_perf'.")]
    collective: Annotated[str, Meta(description="The measured collective: 'all_reduce'.")]
    args: Annotated[list[str], Meta(description="The command line, program name first.")]
    start_time: Annotated[str, Meta(description="ISO 8601 with zone.")]
    environment: Annotated[dict[str, str], Meta(description="Environment variables from an allow-list.")]
    machine: Annotated[dict[str, str], Meta(description="Facts about rank 0's machine: 'cpu_model', 'kernel', ...")]
    settings: SettingsRecord
    rows_planned: Annotated[
        int | None, Meta(description="Rows of each group, all passes included; null if unknown (-N 0, comm_ops).")
    ] = None
    bytes_planned: Annotated[float | None, Meta(description="Sum of the requested sizes of all planned rows.")] = None
    ranks: Annotated[list[RankRecord], Meta(description="All ranks, by rank.")]
    notes: Annotated[list[str], Meta(description="Sentences that the table's header shows.")]


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


class WarningRecord(Struct, tag_field="kind", tag="warning", kw_only=True, frozen=True):
    """A warning about the run, with a remedy."""

    message: Annotated[str, Meta(description="The sentence.")]


class MemoryRecord(Struct, kw_only=True, frozen=True):
    """Memory use of one rank's device (-M). Other programs change it meanwhile, so figures can be negative."""

    rank: Annotated[int, Meta(description="Rank in the whole job.")]
    context_bytes: Annotated[int | None, Meta(description="Memory for CUDA's context; null if unknown.")]
    library_bytes: Annotated[int | None, Meta(description="Memory for joining the communicator; null if unknown.")]
    buffer_bytes: Annotated[int | None, Meta(description="Memory for buffers and registration; null if unknown.")]
    collective_bytes: Annotated[
        int | None, Meta(description="Memory taken after the buffers and registration; null if unknown.")
    ]


class EndRecord(Struct, tag_field="kind", tag="end", kw_only=True, frozen=True):
    """The last line: the end of the run. It is missing if the run was killed."""

    reason: Annotated[str, Meta(description="'completed', 'interrupted', 'wrong data', 'rank lost or timed out', ...")]
    exit_code: Annotated[int, Meta(description="The program's exit code.")]
    message: Annotated[str | None, Meta(description="Error message on stderr; null without an error.")]
    details: Annotated[list[str], Meta(description="States that ranks and NCCL reported when the job stalled.")] = (
        msgspec.field(default_factory=list)
    )
    rows: Annotated[int, Meta(description="Finished rows of the table.", ge=0)]
    out_of_bounds: Annotated[int, Meta(description="(rank, placement, row) triples with wrong data.", ge=0)]
    average_busbw_gbps: Annotated[float | None, Meta(description="The footer's average; null without a row.")]
    demanded_busbw_gbps: Annotated[float | None, Meta(description="NCCL_TESTS_MIN_BW; null if not set.")]
    end_time: Annotated[str, Meta(description="ISO 8601 with zone.")]
    memory: Annotated[list[MemoryRecord] | None, Meta(description="Memory use of all ranks; null without -M.")] = None


Record = HeaderRecord | RowRecord | WarningRecord | EndRecord
"""One line of a record file; its `kind` selects the type."""


@dataclasses.dataclass(frozen=True)
class RunRecords:
    """Content of a record file. Iteration yields its lines in order."""

    records: list[Record]
    truncated: bool
    """True if the last line was cut off. That line is not in `records`."""

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    @property
    def header(self) -> HeaderRecord:
        """The first line. `read` guarantees that it exists."""
        return next(record for record in self.records if isinstance(record, HeaderRecord))

    @property
    def rows(self) -> list[RowRecord]:
        """All row records."""
        return [record for record in self.records if isinstance(record, RowRecord)]

    @property
    def warnings(self) -> list[str]:
        """Warnings about the run. Warnings about a single measurement are in its row."""
        return [record.message for record in self.records if isinstance(record, WarningRecord)]

    @property
    def end(self) -> EndRecord | None:
        """End of the run. None if the run was killed."""
        return next((record for record in self.records if isinstance(record, EndRecord)), None)


_Line = TypeVar("_Line")
_decoder: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)


def stream(path: Path | str) -> Iterator[Record | None]:
    """Yields the records of a file line by line, in bounded memory. Yields None for a last line that was cut off.

    Raises:
        RecordsError: The file cannot be read, a line before the last is malformed, the first line is not a header, or
            the schema has another major version.
    """
    return stream_lines(path, _decoder, HeaderRecord)


def stream_lines(path: Path | str, decoder: msgspec.json.Decoder[_Line], header: type) -> Iterator[_Line | None]:
    """Yields the lines of a file as `stream` does.

    Args:
        path: The file.
        decoder: Decoder of a line.
        header: Type of the first line, and of no other line.
    """
    line_number = 0
    try:
        with Path(path).open("rb") as lines:
            for line_number, line in enumerate(lines, start=1):
                is_first = line_number == 1
                if is_first:
                    _require_known_version(path, line)
                try:
                    record = decoder.decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                    is_cut_off = not line.endswith(b"\n")
                    if is_cut_off and not is_first:
                        yield None
                        return
                    raise RecordsError(
                        f"{path}:{line_number}: {error}", remedy="give a file written by --records"
                    ) from error
                is_header = isinstance(record, header)
                if is_header != is_first:  # the header is missing or repeated
                    expected = "the run's header line must come first and only once"
                    raise RecordsError(f"{path}:{line_number}: {expected}", remedy="use a separate file for each run")
                yield record
    except OSError as error:
        raise RecordsError(f"cannot read {path}: {error.strerror}", remedy="give a readable record file") from error
    if not line_number:
        raise RecordsError(f"{path} contains no records", remedy="check the output of its run, then repeat the run")


def read(path: Path | str) -> RunRecords:
    """Reads a whole record file. A last line that was cut off is omitted, and `truncated` is then true.

    Raises:
        RecordsError: As `stream`.
    """
    records = list(stream(path))  # never empty: `stream` raises for a file without records
    return RunRecords([record for record in records if record is not None], truncated=records[-1] is None)


class _Version(Struct):
    schema_version: str


def _require_known_version(path: Path | str, first_line: bytes) -> None:
    """Rejects another major version of the schema, because its fields may have other meanings."""
    try:
        version = msgspec.json.decode(first_line, type=_Version).schema_version
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return  # decoding the whole line raises a more precise error
    if version.partition(".")[0] != SCHEMA_VERSION.partition(".")[0]:
        raise RecordsError(
            f"{path} has record schema {version}, this program reads {SCHEMA_VERSION}",
            remedy="read it with the busbw version that wrote it, or measure again",
        )
