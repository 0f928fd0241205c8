"""Common form of all logs: tables of rows, and in each row one figure per placement.

Readers convert every log format to these types, which comparison, verdict, report and exporters use. Logs of other
programs omit many facts, so most fields may be None, which means unknown. A GB is 1e9 bytes.
"""

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Literal

from msgspec import Struct

from busbw.records import (
    LateRankRecord,
    LifecycleRecord,
    SampleClock,
    SkewRecord,
    StatsRecord,
    TogetherRecord,
    WrongElement,
)
from busbw.units import size_text

Placement = Literal["out_of_place", "in_place", "unstated"]
"""`unstated`: the log does not state the placement. This is usual in published tables."""

PLACEMENTS: tuple[Placement, ...] = ("out_of_place", "in_place", "unstated")
PLACEMENT_WORDS: dict[Placement, str] = {"out_of_place": "out of place", "in_place": "in place", "unstated": ""}
"""Display texts. Empty if the log does not state the placement."""


class Figure(Struct, kw_only=True, frozen=True, gc=False):
    """Measured values of one placement of one row."""

    time_us: float | None = None
    """Time per operation. The measuring program decides if it is the mean, the maximum or another value over ranks."""
    cpu_time_us: float | None = None
    """CPU time per operation. nccl-tests with -C prints it instead of the time."""
    device_time_us: float | None = None
    """Time of an operation on the device if all ranks begin together."""
    launch_time_us: float | None = None
    """Time that the host needs to issue an operation."""
    algbw_gbps: float | None = None
    """Size divided by time, in GB/s."""
    busbw_gbps: float | None = None
    """Bandwidth per link, in GB/s: algbw times the factor of the collective."""
    derived: tuple[str, ...] = ()
    """Names of the fields above that are not in the log but computed from other fields."""
    check: Literal["checked", "not_checked", "not_applicable", "unstated"] = "unstated"
    """State of the check. not_applicable: the result is undefined. unstated: the log has no column for it."""
    wrong_elements: int | None = None
    """Number of wrong elements. None if the data was not checked or the log does not count them."""
    first_wrong: tuple[WrongElement, ...] = ()
    """First wrong elements. Empty if no element is wrong or the log does not list them."""
    stats: StatsRecord | None = None
    """Statistics over iterations. None if the log has none."""
    per_iteration: dict[str, float] = {}
    """Statistics over iterations that nccl-tests prints with -I: min_us, max_us, p99_us, cv_percent."""
    samples_us: tuple[tuple[float, ...], ...] = ()
    """Time per rank and iteration. Empty if the log has no samples."""
    sample_clock: SampleClock | None = None
    """Clock of the samples. None if the log does not state it."""
    arrivals_us: tuple[float, ...] = ()
    """Start of each rank of the group, relative to the rank that started first. Empty if unknown."""
    late_ranks: tuple[LateRankRecord, ...] = ()
    """Ranks that the others waited for. Empty also if the log does not state them."""
    algorithm: str | None = None
    """Algorithm of the library: 'ring', 'tree', ... None if unknown."""
    protocol: str | None = None
    """Protocol of the library: 'll', 'll128', 'simple'. None if unknown."""
    channels: int | None = None
    """Number of channels of the library. None if unknown."""
    skew: SkewRecord | None = None
    """Comparison with the balanced operation. None without --skew."""
    together: TogetherRecord | None = None
    """The operation while another one, its neighbor, runs (--with). None without --with."""
    warnings: tuple[str, ...] = ()
    """One sentence each, with a remedy."""

    @property
    def together_figure(self) -> "Figure | None":
        """The operation while its neighbor runs, as a figure of its own. None if that time is unknown."""
        together = self.together
        if together is None or together.time_us is None:
            return None
        return Figure(
            time_us=together.time_us,
            device_time_us=together.device_time_us,
            samples_us=tuple(map(tuple, together.samples_us)),
            sample_clock=self.sample_clock,
        )

    @property
    def algorithm_text(self) -> str:
        """Algorithm and protocol: 'ring/ll128'. Empty if unknown."""
        if self.algorithm is None and self.protocol is None:  # true for most of a million figures
            return ""
        return "/".join(filter(None, [self.algorithm, self.protocol]))

    @property
    def samples_include_launches(self) -> bool:
        """True if the samples include launch time, as `time_us` does.

        False if that is unknown: without `sample_clock`, samples next to a device time may or may not include it.
        """
        if self.sample_clock is None:
            return self.device_time_us is None
        return self.sample_clock != "gated_device_events"

    @property
    def sample_label(self) -> str:
        """Word before a statistic of the samples. Empty if they measure the same time as `time_us`."""
        if self.samples_include_launches:
            return ""
        return "device" if self.sample_clock else "sample"


SAMPLE_LABELS = ("", "device", "sample")
"""All values of `Figure.sample_label`. "sample": the log does not state if the samples include launches."""


COMPARISON_HEADINGS = {
    "together_time_us": "with us",
    "together_ratio_to_alone": "to alone",
    "together_neighbor_time_us": "neighbor us",
    "skew_imbalance": "imbalance",
    "skew_bound_us": "bound us",
    "skew_ratio_to_bound": "to bound",
}
"""Exported columns of comparisons that a run makes by itself (--with, --skew), with their headings for people."""


def comparison_values(figures: Sequence[Figure], column: str) -> list[float | None]:
    """Returns the values for a column of COMPARISON_HEADINGS. None if unknown or if the run has no such comparison.

    A column's name joins two fields: `skew_bound_us` is the field `bound_us` of the comparison in the field `skew`.
    """
    kind, _, field = column.partition("_")
    comparisons = map(attrgetter(kind), figures)
    return [None if comparison is None else getattr(comparison, field) for comparison in comparisons]


def comparison_columns(figures: Sequence[Figure]) -> list[tuple[str, list[float | None]]]:
    """Returns the heading and the values of each column of COMPARISON_HEADINGS."""
    return [(heading, comparison_values(figures, name)) for name, heading in COMPARISON_HEADINGS.items()]


class Row(Struct, kw_only=True, frozen=True, gc=False):
    """One size of one configuration: a line of an nccl-tests table, with both placements."""

    line: int
    """Line in the file at which the row begins, from 1."""
    collective: str | None = None
    """'all_reduce', 'alltoall', ...: the programs' names without `_perf`."""
    size_bytes: int
    """Value of the size column."""
    count: int | None = None
    """Number of elements. None if the log does not state it."""
    dtype: str | None = None
    """Element type: 'float', 'half', ... None if unknown."""
    redop: str | None = None
    """None if the collective does not reduce or the operator is unknown."""
    root: int | None = None
    """Root rank. None if the collective has no root, or the root is unknown."""
    ranks: int | None = None
    """Number of ranks of the row. `Table.ranks_of` also uses the header."""
    group: int = 0
    """Group of ranks under NCCL_TESTS_SPLIT."""
    cycle: int = 0
    """Pass over all rows (-N), from 0."""
    variant: str | None = None
    """Library or kernel that the row belongs to, if the table compares several."""
    claimed_speedup: float | None = None
    """Speed-up of this variant over the line's first variant, as the table states it."""
    lifecycle: LifecycleRecord | None = None
    """Details of a row of comm_ops: a call of a communicator's life. None for all other rows."""
    figures: dict[Placement, Figure]
    """Measured values by placement."""
    timestamp: str | None = None
    """Time of day at the row's end, as the log states it."""

    @property
    def configuration(self) -> tuple[object, ...]:
        """Fields that all rows of one configuration share. These rows differ in size and pass. The variant is last."""
        return (
            self.collective,
            self.dtype,
            self.redop,
            self.root,
            self.lifecycle,
            self.ranks,
            self.group,
            self.variant,
        )

    @property
    def label(self) -> str:
        """Text that tells the row from others of its table: its size, or its call of comm_ops."""
        if self.lifecycle:
            return self.collective or ""
        return size_text(self.size_bytes)


class Rank(Struct, kw_only=True, frozen=True):
    """One entry of a device list."""

    rank: int
    group: int = 0
    pid: int | None = None
    host: str | None = None
    device: int | None = None
    bus_id: str | None = None
    device_name: str | None = None


def ended_early_text(reason: str) -> str:
    """Clause on a run that states the reason for its early end."""
    return f"the run ended early ({reason})"


class Table(Struct, kw_only=True, frozen=True):
    """One run's rows, from header to footer."""

    format: str
    """Log format with its version: 'nccl-tests text, 2.13', 'records', 'published table'."""
    first_line: int = 1
    """Line of the file at which the table begins, from 1."""
    title: str | None = None
    """Heading or caption above the table. None if there is no such text."""
    program: str | None = None
    """Name of the program, such as 'all_reduce_perf'."""
    collective: str | None = None
    """Collective of all rows. None if they have several, or it is unknown."""
    command: str | None = None
    """Command line. None if the log does not contain it."""
    start_time: str | None = None
    """Start of the run, as the log states it."""
    program_version: str | None = None
    """Version that the program prints. None if unknown."""
    library: str | None = None
    """Measured library with its version: 'NCCL 2.28.9'."""
    ranks: int | None = None
    """Number of ranks of the job. None if unknown."""
    rank_list: tuple[Rank, ...] = ()
    """Device list. It may be incomplete; `ranks` is the number of ranks, if known."""
    settings: dict[str, str] = {}
    """Keys and values of the header's parameter line and of other descriptions of the run."""
    environment: dict[str, str] = {}
    """Environment variables of the run that the log contains."""
    rows: Sequence[Row] = ()
    """A tuple, or for a long log a sequence that makes the rows when they are used."""
    complete: bool | None = None
    """True if the run ended regularly. None if the log does not show that."""
    end_reason: str | None = None
    """Reason for an early end, as the log states it."""
    claimed_average_busbw_gbps: float | None = None
    """Average busbw of the footer. Verdicts do not use it."""
    claimed_out_of_bounds: int | None = None
    """Out-of-bounds count of the footer."""
    rank_zero_processes: int = 0
    """Number of processes that the header lists as rank 0."""
    warnings: tuple[str, ...] = ()
    """One sentence each, with a remedy."""

    @property
    def early_end_text(self) -> str:
        """Clause on an early end of the run. Empty if the run ended regularly, or if the log cannot show its end."""
        if self.complete is not False:
            return ""
        if self.end_reason:
            return ended_early_text(self.end_reason)
        return "the log has no end: the run was killed or is still running"

    @property
    def has_several_runs(self) -> bool:
        """True if several processes are rank 0. Each run has one rank 0, so the table may mix rows of several runs."""
        return self.rank_zero_processes > 1

    @property
    def hosts(self) -> tuple[str, ...]:
        """Distinct hosts of the rank list, in its order."""
        return tuple(dict.fromkeys(rank.host for rank in self.rank_list if rank.host))

    @property
    def hosts_by_group(self) -> dict[int, tuple[str, ...]]:
        """Distinct hosts of each group, groups and hosts in the order of the rank list.

        Only a run with NCCL_TESTS_SPLIT has several groups.
        """
        hosts: dict[int, dict[str, None]] = {}
        for rank in self.rank_list:
            group_hosts = hosts.setdefault(rank.group, {})
            if rank.host:
                group_hosts[rank.host] = None
        return {group: tuple(group_hosts) for group, group_hosts in hosts.items()}

    @property
    def devices(self) -> tuple[str, ...]:
        """Distinct device names of the rank list, in its order."""
        return tuple(dict.fromkeys(rank.device_name for rank in self.rank_list if rank.device_name))

    @property
    def gpus_per_thread(self) -> int | None:
        """GPUs per thread (-g), from nccl-tests' or busbw's setting. None if unknown."""
        names = ("nGpus", "gpus_per_thread", "ngpus")  # in nccl-tests' table, busbw's record, nccl-tests' JSON
        setting = next((value for name in names if (value := self.settings.get(name))), "")
        return int(setting) if setting.isdigit() and int(setting) > 0 else None

    @property
    def is_in_graph(self) -> bool:
        """True if the log states that CUDA graphs (-G) launched the operations, so the times contain no launch time."""
        launches = self.settings.get("graph") or self.settings.get("graph_launches")
        return bool(launches) and launches != "0"

    def collective_of(self, row: Row) -> str | None:
        """Returns the collective of one of the table's rows. None if unknown."""
        return row.collective or self.collective

    def ranks_of(self, row: Row) -> int | None:
        """Returns the number of ranks of one of the table's rows. None if unknown; 0 counts as unknown.

        Under NCCL_TESTS_SPLIT nccl-tests lists the ranks of all groups above one group's rows. It does not print the
        number of ranks of that group. So this function counts the ranks of the group in the list, if the list is
        complete.
        """
        ranks = row.ranks or self.ranks or None
        if len(self.rank_list) != ranks:
            return ranks
        return sum(rank.group == row.group for rank in self.rank_list) or ranks


class Refusal(Struct, kw_only=True, frozen=True):
    """A line that looks like a row but could not be read."""

    line: int
    text: str
    reason: str


class Log(Struct, kw_only=True, frozen=True):
    """All tables of a file or of standard input."""

    source: str
    """Path as given by the user, or '-' for standard input."""
    tables: Sequence[Table] = ()
    """A tuple, or for a long log a sequence that reads the tables from a file."""
    candidate_rows: int = 0
    """Number of lines that look like rows: read and refused."""
    refused: Sequence[Refusal] = ()
    """Lines that look like rows but could not be read."""
    warnings: tuple[str, ...] = ()
    """Contradictions and remarks on the whole file, one sentence each."""

    @property
    def rows(self) -> tuple[Row, ...]:
        """Rows of all tables, in memory."""
        return tuple(self.iterate_rows())

    def iterate_rows(self) -> Iterator[Row]:
        """Yields the rows of all tables. Unlike `rows`, this is suitable for a log of any length."""
        return (row for table in self.tables for row in table.rows)

    @property
    def row_count(self) -> int:
        """Number of rows that were read."""
        return sum(len(table.rows) for table in self.tables)

    @property
    def has_rows(self) -> bool:
        """True if any row was read."""
        return next(self.iterate_rows(), None) is not None
