"""Record at the beginning of a run: settings, ranks, libraries and programs."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

SCHEMA_VERSION = "1.8"
"""Version of the record schema (rules in schema/README.md). engine/output/record_writer.hpp has the same value."""


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
    report_times: Annotated[
        bool, Meta(description="True if the table has time, device time and launch time (--report-times).")
    ] = False
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
