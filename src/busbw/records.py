"""The records of a run: what the engine writes with `--records`, one JSON object a line.

These types are the contract. `schema/records.schema.json` is written from them (`python -m busbw.schema`), and the
engine's tests are held against it. Every name carries its unit; GB/s is 1e9 bytes per second. `None` means missing,
which is never zero.
"""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from busbw.errors import BusbwError

SCHEMA_VERSION = "1.3"
"""Of the record schema, by its own rules (schema/README.md); engine/output/record_writer.hpp has the same."""


class RecordsError(BusbwError):
    """A file of records that cannot be read. The message names the file, the line, and what to do."""


class SettingsRecord(Struct, kw_only=True, frozen=True):
    """What was asked for on the command line, defaults filled in."""

    threads: Annotated[int, Meta(description="Threads per process (-t).")]
    gpus_per_thread: Annotated[int, Meta(description="GPUs per thread (-g).")]
    processes: Annotated[int, Meta(description="Processes of the job.")]
    min_bytes: Annotated[int, Meta(description="Smallest size of the sweep (-b).")]
    max_bytes: Annotated[int, Meta(description="Largest size of the sweep (-e).")]
    step_bytes: Annotated[int | None, Meta(description="Distance of two sizes (-i); null when another rule is used.")]
    step_factor: Annotated[int | None, Meta(description="Ratio of two sizes (-f); null when another rule is used.")]
    sizes_bytes: Annotated[list[int] | None, Meta(description="The sizes (--sizes); null when another rule is used.")]
    warmup_iterations: Annotated[int, Meta(description="Iterations before the timed ones (-w).")]
    iterations: Annotated[int, Meta(description="Timed iterations (-n); a stopping rule may change them.")]
    aggregated_iterations: Annotated[int, Meta(description="Operations issued as one group per iteration (-m).")]
    run_cycles: Annotated[int, Meta(description="Times that all rows are measured (-N); 0 is for ever.")]
    check_iterations: Annotated[int, Meta(description="Checked operations per placement (-c); 0 is no check.")]
    graph_launches: Annotated[int, Meta(description="Launches of a captured graph (-G); 0 is no graph.")]
    unalign_elements: Annotated[int, Meta(description="Elements by which buffers are misaligned (-u).")]
    blocking: Annotated[int, Meta(description="When the host waits: nccl-tests' -z, 0 to 3.")]
    average: Annotated[int, Meta(description="How ranks' times become one (-a): 0 rank 0, 1 mean, 2 min, 3 max.")]
    per_iteration: Annotated[bool, Meta(description="Whether the table shows statistics over iterations (-I).")]
    per_iteration_skip: Annotated[int, Meta(description="Leading iterations left out of the statistics (-K).")]
    parallel_init: Annotated[bool, Meta(description="Whether threads initialise at the same time (-p).")]
    report_cputime: Annotated[bool, Meta(description="Whether the table shows CPU time (-C).")]
    report_timestamps: Annotated[bool, Meta(description="Whether the table's rows end in a time (-S).")]
    report_times: Annotated[bool, Meta(description="Whether the table names the three times (--report-times).")] = False
    placement: Annotated[Literal["in", "out", "both"], Meta(description="Placements measured (--placement).")]
    target_ci_percent: Annotated[
        float | None,
        Meta(description="Stop at this half-width of the median's 95 % interval, in percent of it (--target-ci)."),
    ]
    max_time_s: Annotated[float | None, Meta(description="Time budget of one placement of one row (--max-time).")]
    timeout_s: Annotated[int, Meta(description="Seconds without progress of any rank (-T); 0 is without limit.")]
    local_register: Annotated[
        int, Meta(description="Buffers' registration with NCCL (-R): 0 none, 1 local, 2 symmetric windows.")
    ] = 0
    cta_policy: Annotated[int | None, Meta(description="NCCL's CTA policy (-x); null where NCCL chose.")] = None
    device_implementation: Annotated[
        int, Meta(description="Kernel on NCCL's device API (-D); 0 is the library's own operation.")
    ] = 0
    device_cta_count: Annotated[int | None, Meta(description="CTAs of that kernel (-V); null without one.")] = None
    report_memory: Annotated[bool, Meta(description="Whether GPU memory is reported (-M).")] = False


class LibraryRecord(Struct, kw_only=True, frozen=True):
    """The library that a rank measures."""

    version: Annotated[str, Meta(description="As it gives it itself: '2.28.9'.")]
    path: Annotated[str, Meta(description="Of its file, links followed.")]
    sha256: Annotated[str | None, Meta(description="Of that file, 64 hexadecimal digits; null where it is unreadable.")]


class RankRecord(Struct, kw_only=True, frozen=True):
    """One rank of the job and what it ran on."""

    rank: Annotated[int, Meta(description="In the whole job.")]
    group: Annotated[int, Meta(description="Its group under NCCL_TESTS_SPLIT; 0 without.")]
    process: Annotated[int, Meta(description="Index of its process in the job.")]
    pid: Annotated[int, Meta(description="Process id on its host.")]
    host: Annotated[str, Meta(description="Host name.")]
    device: Annotated[int, Meta(description="GPU index; on the host backend the rank's index on its machine.")]
    bus_id: Annotated[str, Meta(description="PCI bus id as 0000:0f:00; 'cpu' on the host backend.")]
    device_name: Annotated[str, Meta(description="Name of the GPU, or of the processor on the host backend.")]
    library: Annotated[LibraryRecord | None, Meta(description="What it measures; null on the host backend.")] = None
    most_clock_mhz: Annotated[
        float | None, Meta(description="Clock that the device may reach; null where nothing tells.")
    ] = None


class StatsRecord(Struct, kw_only=True, frozen=True):
    """Statistics over iterations. An iteration lasts until its last rank has ended; skipped ones are left out."""

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
        Meta(description="95 % confidence interval of the median; null where there are too few samples for one."),
    ]


class ClockRecord(Struct, kw_only=True, frozen=True):
    """What a rank's device said of its clock around a measurement."""

    before_mhz: Annotated[float | None, Meta(description="After the warm-up; null where nothing tells.")]
    after_mhz: Annotated[float | None, Meta(description="While the last operations ran, or just after them.")]
    most_mhz: Annotated[float | None, Meta(description="That it may reach; null where nothing tells.")]
    slowed_by: Annotated[list[str], Meta(description="What held it back then; empty: nothing did.")]


class WrongElement(Struct, kw_only=True, frozen=True):
    """One wrong element of a result, or of the guard around a buffer."""

    rank: Annotated[int, Meta(description="The rank that holds it.")]
    place: Annotated[str, Meta(description="Which buffer or guard.")]
    index: Annotated[int, Meta(description="Element from the start of that rank's result; negative before it.")]
    expected: Annotated[str, Meta(description="Value and bits that belong there: '3 (0x40400000)'.")]
    got: Annotated[str, Meta(description="Value and bits found there.")]


class CheckRecord(Struct, kw_only=True, frozen=True):
    """The outcome of the check. Not checked, not applicable and zero wrong elements are three different things."""

    state: Annotated[
        Literal["not_checked", "not_applicable", "checked"],
        Meta(description="'not_applicable': this placement has no defined result, so there is nothing to check."),
    ]
    wrong_elements: Annotated[int | None, Meta(description="Over all ranks of the group; null unless checked.")]
    wrong_ranks: Annotated[int | None, Meta(description="Ranks with a wrong element; null unless checked.")]
    policy: Annotated[str | None, Meta(description="'exact', or what exact data cannot show; null unless checked.")]
    first_wrong: Annotated[list[WrongElement], Meta(description="The first few wrong elements.")]


class HeaderRecord(Struct, tag_field="kind", tag="run", kw_only=True, frozen=True):
    """The first line: everything that is known before the first row."""

    schema_version: Annotated[str, Meta(description="Version of this schema, major.minor.", pattern=r"^\d+\.\d+$")]
    busbw_version: Annotated[str, Meta(description="Version of the program.")]
    busbw_build: Annotated[
        str | None,
        Meta(description="The executable's GNU build id, which tells builds of one version apart; null if none."),
    ] = None
    busbw_path: Annotated[str | None, Meta(description="The executable, links followed; null if not known.")] = None
    backend: Annotated[str, Meta(description="What ran the collectives: 'host', 'nccl', ...")]
    backend_version: Annotated[str, Meta(description="Version of the library that did the work.")]
    run_id: Annotated[str, Meta(description="Unique per run.")]
    program: Annotated[str, Meta(description="The program's name: 'all_reduce_perf'.")]
    collective: Annotated[str, Meta(description="What it measures: 'all_reduce'.")]
    args: Annotated[list[str], Meta(description="The command line, program name first.")]
    start_time: Annotated[str, Meta(description="ISO 8601 with zone.")]
    environment: Annotated[dict[str, str], Meta(description="Allow-listed environment variables, never all of them.")]
    machine: Annotated[dict[str, str], Meta(description="Facts about rank 0's machine: 'cpu_model', 'kernel', ...")]
    settings: SettingsRecord
    ranks: Annotated[list[RankRecord], Meta(description="All ranks, by rank.")]
    notes: Annotated[list[str], Meta(description="Sentences that the table's header shows.")]


class RowRecord(Struct, tag_field="kind", tag="row", kw_only=True, frozen=True):
    """One placement of one row of the table of one group."""

    collective: Annotated[str, Meta(description="'all_reduce', ...")]
    requested_bytes: Annotated[int, Meta(description="The size that the sweep asked for.", ge=0)]
    size_bytes: Annotated[int, Meta(description="The size column: the most a rank sends or receives.", ge=0)]
    count: Annotated[int, Meta(description="The count column: elements of the call.", ge=0)]
    dtype: Annotated[str, Meta(description="Element type: 'float', 'bfloat16', ...")]
    redop: Annotated[str | None, Meta(description="Reduction operator: 'sum', ...; null where nothing is reduced.")]
    root: Annotated[int | None, Meta(description="Root rank; null where the collective has none.")]
    placement: Annotated[Literal["out_of_place", "in_place"], Meta(description="Whether buffers are shared.")]
    group: Annotated[int, Meta(description="Group under NCCL_TESTS_SPLIT; 0 without.")]
    ranks: Annotated[int, Meta(description="Ranks of the group.", ge=1)]
    cycle: Annotated[int, Meta(description="Which pass over all rows (-N), from 0.", ge=0)]
    time_us: Annotated[float | None, Meta(description="Per operation, ranks combined by -a; null if not a number.")]
    device_time_us: Annotated[
        float | None,
        Meta(
            description="What an operation takes on the device, all ranks beginning together; null where none is known."
        ),
    ] = None
    launch_time_us: Annotated[
        float | None,
        Meta(description="What the host is busy for to issue an operation; null where issuing it is doing it."),
    ] = None
    cpu_time_us: Annotated[float | None, Meta(description="CPU time per operation; null without -C.")]
    algbw_gbps: Annotated[float | None, Meta(description="Algorithm bandwidth, 1e9 bytes/s; null if not a number.")]
    busbw_gbps: Annotated[float | None, Meta(description="Bus bandwidth, 1e9 bytes/s; null if not a number.")]
    stats: Annotated[StatsRecord | None, Meta(description="Null where single iterations were not timed.")]
    stopped_by: Annotated[
        Literal["iterations", "target_ci", "max_time", "sample_limit"],
        Meta(description="The rule that ended the sampling."),
    ]
    check: CheckRecord
    rank_times_us: Annotated[
        list[float],
        Meta(description="Per rank of the group: time per operation over all iterations. `time_us` combines these."),
    ] = msgspec.field(default_factory=list)
    rank_device_times_us: Annotated[
        list[float],
        Meta(description="Per rank of the group; `device_time_us` combines these. Empty where there is none."),
    ] = msgspec.field(default_factory=list)
    rank_launch_times_us: Annotated[
        list[float],
        Meta(description="Per rank of the group; `launch_time_us` combines these. Empty where there is none."),
    ] = msgspec.field(default_factory=list)
    rank_arrivals_us: Annotated[
        list[float],
        Meta(
            description="Per rank of the group: how long after the first rank it began; empty without device times, "
            "where ranks do not wait for all others (collectives with a root, sendrecv), and where all began together."
        ),
    ] = msgspec.field(default_factory=list)
    rank_clocks: Annotated[
        list[ClockRecord],
        Meta(description="Per rank of the group: its device's clock; empty where no device tells."),
    ] = msgspec.field(default_factory=list)
    samples_us: Annotated[
        list[list[float]],
        Meta(description="Per rank of the group, per iteration: time per operation, to the nanosecond."),
    ]
    warnings: Annotated[list[str], Meta(description="What to know about this measurement, and what to do.")]
    timestamp: Annotated[str, Meta(description="Local time at the row's end, in the zone of start_time.")]


class WarningRecord(Struct, tag_field="kind", tag="warning", kw_only=True, frozen=True):
    """A sentence about the run that says what to do next."""

    message: Annotated[str, Meta(description="The sentence.")]


class MemoryRecord(Struct, kw_only=True, frozen=True):
    """Where the memory of one rank's device went (-M). Others may take memory meanwhile: a share can be negative."""

    rank: Annotated[int, Meta(description="In the whole job.")]
    context_bytes: Annotated[int | None, Meta(description="What CUDA took to begin with; null where nothing tells.")]
    library_bytes: Annotated[int | None, Meta(description="What joining the communicator took; null as above.")]
    buffer_bytes: Annotated[int | None, Meta(description="Buffers and their registration; null as above.")]
    collective_bytes: Annotated[int | None, Meta(description="What was taken since; null as above.")]


class EndRecord(Struct, tag_field="kind", tag="end", kw_only=True, frozen=True):
    """The last line: how the run ended. Without it the run was killed."""

    reason: Annotated[str, Meta(description="'completed', 'interrupted', 'wrong data', 'rank lost', ...")]
    exit_code: Annotated[int, Meta(description="The program's exit code.")]
    message: Annotated[str | None, Meta(description="The sentence on stderr; null when all went well.")]
    details: Annotated[
        list[str], Meta(description="What ranks, and NCCL, said of themselves when the job did not get on.")
    ] = msgspec.field(default_factory=list)
    rows: Annotated[int, Meta(description="Rows of the table that were finished.", ge=0)]
    out_of_bounds: Annotated[int, Meta(description="(rank, placement, row) triples with wrong data.", ge=0)]
    average_busbw_gbps: Annotated[float | None, Meta(description="The footer's average; null without a row.")]
    demanded_busbw_gbps: Annotated[float | None, Meta(description="NCCL_TESTS_MIN_BW; null without.")]
    end_time: Annotated[str, Meta(description="ISO 8601 with zone.")]
    memory: Annotated[list[MemoryRecord] | None, Meta(description="Of all ranks; null without -M.")] = None


Record = HeaderRecord | RowRecord | WarningRecord | EndRecord
"""One line, told apart by its `kind`."""


@dataclasses.dataclass(frozen=True)
class RunRecords:
    """A whole file of records. Iterating gives its lines in their order."""

    records: list[Record]
    truncated: bool
    """Whether the last line was cut off; it is left out here."""

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    @property
    def header(self) -> HeaderRecord:
        """The first line; `read` makes sure of it."""
        return next(record for record in self.records if isinstance(record, HeaderRecord))

    @property
    def rows(self) -> list[RowRecord]:
        """The rows so far."""
        return [record for record in self.records if isinstance(record, RowRecord)]

    @property
    def warnings(self) -> list[str]:
        """The sentences about the run; those about one measurement are in its row."""
        return [record.message for record in self.records if isinstance(record, WarningRecord)]

    @property
    def end(self) -> EndRecord | None:
        """How the run ended; None where it was killed before it could say so."""
        return next((record for record in self.records if isinstance(record, EndRecord)), None)


_decoder: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)


def stream(path: Path | str) -> Iterator[Record | None]:
    """Reads a file of records line by line, in bounded memory; a last line that was cut off is None.

    Raises:
        RecordsError: The file cannot be read, a line before the last is broken, the first line is not that of a run,
            or its schema has another major version.
    """
    number = 0
    try:
        with Path(path).open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if number == 1:
                    _demand_known_version(path, line)
                try:
                    record = _decoder.decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                    if number > 1 and not line.endswith(b"\n"):
                        yield None
                        return
                    raise RecordsError(
                        f"{path}:{number}: {error}", remedy="give a file as --records wrote it"
                    ) from error
                if isinstance(record, HeaderRecord) != (number == 1):
                    expected = "the line of a run comes first and only once"
                    raise RecordsError(f"{path}:{number}: {expected}", remedy="keep each run's records in a file")
                yield record
    except OSError as error:
        raise RecordsError(f"cannot read {path}: {error.strerror}", remedy="give a file of records") from error
    if not number:
        raise RecordsError(f"{path} holds no records", remedy="look at what the run that made it said, and repeat it")


def read(path: Path | str) -> RunRecords:
    """Reads a file of records whole; a last line that was cut off is left out, and `Run.truncated` says so.

    Raises:
        RecordsError: As `stream`.
    """
    found = list(stream(path))
    return RunRecords([record for record in found if record is not None], truncated=found[-1] is None)


class _Version(Struct):
    schema_version: str


def _demand_known_version(path: Path | str, first_line: bytes) -> None:
    """Refuses a file whose schema has another major version: its fields may mean something else."""
    try:
        version = msgspec.json.decode(first_line, type=_Version).schema_version
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return  # the line says what is wrong with it when it is decoded whole
    if version.partition(".")[0] != SCHEMA_VERSION.partition(".")[0]:
        raise RecordsError(
            f"{path} has record schema {version}, this program reads {SCHEMA_VERSION}",
            remedy="read it with the busbw that wrote it, or measure again",
        )
