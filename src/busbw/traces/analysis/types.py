"""Result of an analysis of a trace. Field names are keys of `busbw show --json`, unless a field states another key.

None: unknown.
"""

from typing import Literal

from msgspec import Struct, field

from busbw.expect import ExpectedRange


class StepTimes(Struct, kw_only=True, frozen=True):
    """Steps of the job, with their duration on the first rank that has steps."""

    count: int
    """Number of steps that were found."""
    analyzed: int
    """Number of complete steps. The durations are of these steps."""
    operations_per_step: int
    coverage: float
    """Fraction of the rank's operations in recognized steps."""
    median_us: float | None
    p10_us: float | None
    p90_us: float | None
    noise_us: float | None
    """Half of the interquartile range of the durations. None for fewer than four steps."""


class OperationRow(Struct, kw_only=True, frozen=True):
    """Calls with one function and size in one group of similar communicators. Times are medians over calls."""

    group: int
    """Index in `TraceAnalysis.groups`."""
    function: str
    """"all_reduce"; "send/recv": the point-to-point operations of one NCCL group."""
    min_size_bytes: int | None
    max_size_bytes: int | None
    """Size as in nccl-tests. It differs from the minimum if point-to-point operations of many sizes share the row."""
    dtypes: tuple[str, ...]
    calls_per_step: float
    """Calls of one rank in a step, mean over the ranks. If no rank has steps: in the recording."""
    bytes_per_step: float | None
    timed_fraction: float
    """Fraction of the calls with device times."""
    time_us: float | None = None
    """Duration on a rank, with the wait for late ranks."""
    transfer_us: float | None = None
    """Duration after the last rank has arrived."""
    is_transfer_upper_bound: bool = field(default=False, name="is_transfer_bound")
    """True if `transfer_us` is only an upper bound, because a rank of the communicator was not recorded."""
    time_per_step_us: float | None = None
    share: float | None = None
    """Fraction of the step, with the wait for late ranks."""
    algbw_gbps: float | None = None
    busbw_gbps: float | None = None
    expected_busbw_gbps: ExpectedRange | None = None
    expected_us: float | None = None
    """Typical time of a healthy system."""
    algorithms: tuple[str, ...] = ()
    """Algorithm and protocol, such as "ring/ll128"."""
    max_channels: int | None = None


class CommunicatorGroup(Struct, kw_only=True, frozen=True):
    """Communicators with the same role: equal size and equal distances of their ranks, such as all TP groups."""

    label: str
    size: int
    """Ranks of each communicator."""
    communicators: tuple[int, ...]
    """Indices in `Trace.communicators`."""
    members: tuple[str, ...]
    """Ranks of each communicator as text: "0-7". Empty if no rank is known."""
    nodes: int | None = None
    """Nodes of the first communicator."""
    alone_us: float | None = None
    """Time per step in which a rank executes only operations of this group, mean over ranks."""


class RankRow(Struct, kw_only=True, frozen=True):
    """One rank. Times are means per step."""

    rank: int
    host: str
    communication_us: float | None = None
    """Time with at least one operation on the device."""
    overlap: float | None = None
    """Fraction of `communication_us` with operations of several groups of communicators."""
    idle_us: float | None = None
    """Time of the step without an operation. The device may compute."""
    waiting_us: float | None = None
    """Part of `communication_us` before the last rank has arrived."""
    late_us: float | None = None
    """Upper bound of the time by which this rank alone delays the other ranks, because this rank computes longer.

    It counts a delay in each operation. If ranks compute during operations, one delay can last for several ones."""
    late_steps: float | None = None
    """Fraction of the steps in which this rank delays the other ranks."""


class Finding(Struct, kw_only=True, frozen=True):
    """A rank or a communicator that makes other ranks wait."""

    kind: Literal["late rank", "slow communicator"]
    text: str
    remedy: str
    cost_us: float
    """Per step."""


class Change(Struct, kw_only=True, frozen=True):
    """A change that would shorten the step."""

    text: str
    saving_us: float
    """Per step, an upper bound."""
    basis: Literal["measured", "predicted"]
    assumption: str


class TraceAnalysis(Struct, kw_only=True, frozen=True):
    """Summary of a trace."""

    name: str
    size: int
    """Ranks of the job."""
    recorded_ranks: int
    hosts: tuple[str, ...]
    libraries: tuple[str, ...]
    producers: tuple[str, ...]
    operations: int
    period: str
    """Interval of all values "per step": "step" or "recording"."""
    steps: StepTimes | None
    duration_us: float | None
    """Mean duration of the period."""
    clock_error_us: float | None
    """Error of the alignment of the ranks' clocks (`ClockAlignment.error_ns`). None if they are not aligned."""
    clock_basis: str
    """Sentence with the method of the alignment and its assumption."""
    groups: tuple[CommunicatorGroup, ...]
    rows: tuple[OperationRow, ...]
    """The largest share first."""
    ranks: tuple[RankRow, ...]
    findings: tuple[Finding, ...]
    changes: tuple[Change, ...] = ()
    """The largest saving first."""
    problems: tuple[str, ...]
    """Defects of the recording: missing and contradictory facts, and differences between ranks."""
    notes: tuple[str, ...]
    """Limits of the analysis: facts that it cannot derive, and values to read with care."""
