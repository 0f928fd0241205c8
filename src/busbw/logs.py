"""What a log says, whoever wrote it: tables of rows, and in each row one figure per placement.

Readers make these from any format; comparison, verdict, report and exporters know no other form. A foreign log leaves
much unsaid, so nearly everything may be `None`, which means unknown and is never zero. GB/s is 1e9 bytes per second.
"""

from typing import Literal

from msgspec import Struct

from busbw.records import StatsRecord, WrongElement

Placement = Literal["out_of_place", "in_place", "unstated"]
"""`unstated`: the log does not say which; published tables rarely do."""

PLACEMENTS: tuple[Placement, ...] = ("out_of_place", "in_place", "unstated")
PLACEMENT_WORDS: dict[Placement, str] = {"out_of_place": "out of place", "in_place": "in place", "unstated": ""}
"""For people; nothing where the log does not say."""


class Figure(Struct, kw_only=True, frozen=True, gc=False):
    """What was measured in one placement of one row."""

    time_us: float | None = None
    """Per operation, by the log's own rule for combining ranks."""
    cpu_time_us: float | None = None
    """Per operation; what a log of nccl-tests shows with -C in place of the time."""
    device_time_us: float | None = None
    """What an operation takes on the device, all ranks beginning together."""
    launch_time_us: float | None = None
    """What the host is busy for to issue an operation."""
    algbw_gbps: float | None = None
    busbw_gbps: float | None = None
    derived: tuple[str, ...] = ()
    """Which of the fields above are not in the log but follow from the others by arithmetic."""
    check: Literal["checked", "not_checked", "not_applicable", "unstated"] = "unstated"
    wrong_elements: int | None = None
    """Null unless checked."""
    first_wrong: tuple[WrongElement, ...] = ()
    stats: StatsRecord | None = None
    per_iteration: dict[str, float] = {}
    """What a table of -I shows of a row's iterations: min_us, max_us, p99_us, cv_percent."""
    samples_us: tuple[tuple[float, ...], ...] = ()
    """Per rank, per iteration; empty where the log has none."""
    arrivals_us: tuple[float, ...] = ()
    """Per rank of the group: how long after the first rank it began; empty where the log does not say."""
    warnings: tuple[str, ...] = ()


class Row(Struct, kw_only=True, frozen=True, gc=False):
    """One size of one configuration: a line of a classic table, with both placements."""

    line: int
    """Where it begins in its file, from 1."""
    collective: str | None = None
    """'all_reduce', 'alltoall', ...; the names of the programs without `_perf`."""
    size_bytes: int
    count: int | None = None
    dtype: str | None = None
    redop: str | None = None
    """Null where nothing is reduced or the log does not say."""
    root: int | None = None
    ranks: int | None = None
    group: int = 0
    cycle: int = 0
    """Which pass over all rows (-N), from 0."""
    variant: str | None = None
    """What a table that compares puts side by side: a library, a kernel."""
    claimed_speedup: float | None = None
    """What a table that compares says: how many times as fast this variant is as the line's first."""
    figures: dict[Placement, Figure]
    timestamp: str | None = None

    @property
    def configuration(self) -> tuple[object, ...]:
        """What rows of a table have in common that differ only in their size and pass; the variant last."""
        return (self.collective, self.dtype, self.redop, self.root, self.ranks, self.group, self.variant)


class Rank(Struct, kw_only=True, frozen=True):
    """One line of a device list."""

    rank: int
    group: int = 0
    pid: int | None = None
    host: str | None = None
    device: int | None = None
    bus_id: str | None = None
    device_name: str | None = None


class Table(Struct, kw_only=True, frozen=True):
    """One run's rows, from header to footer."""

    format: str
    """The reader and era: 'nccl-tests text, 2.13', 'records', 'published table'."""
    first_line: int = 1
    title: str | None = None
    """The heading or the claim above the table, where there is one."""
    program: str | None = None
    """'all_reduce_perf'."""
    collective: str | None = None
    """Null where the rows have several or none is known."""
    command: str | None = None
    """The command line, where the log has it."""
    start_time: str | None = None
    program_version: str | None = None
    library: str | None = None
    """The library that did the work and its version: 'NCCL 2.28.9'."""
    ranks: int | None = None
    rank_list: tuple[Rank, ...] = ()
    """May be cut: `ranks` is the number, where it is known."""
    settings: dict[str, str] = {}
    """Key and value of the header's parameter line and what else describes the run."""
    environment: dict[str, str] = {}
    rows: tuple[Row, ...] = ()
    complete: bool | None = None
    """Whether the run came to its end; null where the format cannot say."""
    end_reason: str | None = None
    """What the log says of how it ended, where it ended early."""
    claimed_average_busbw_gbps: float | None = None
    """The footer's; never used for a verdict."""
    claimed_out_of_bounds: int | None = None
    warnings: tuple[str, ...] = ()
    """One sentence each, with what to do next."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The different hosts of the rank list, in its order."""
        return tuple(dict.fromkeys(rank.host for rank in self.rank_list if rank.host))

    @property
    def devices(self) -> tuple[str, ...]:
        """The different kinds of device of the rank list, in its order."""
        return tuple(dict.fromkeys(rank.device_name for rank in self.rank_list if rank.device_name))

    @property
    def gpus_per_thread(self) -> int | None:
        """-g, by nccl-tests' name for it or ours; None where the log does not say."""
        given = self.settings.get("nGpus") or self.settings.get("gpus_per_thread") or ""
        return int(given) if given.isdigit() and int(given) > 0 else None

    @property
    def is_in_graph(self) -> bool:
        """Whether it says that operations were launched in CUDA graphs (-G), where launching costs them nothing."""
        return (self.settings.get("graph") or self.settings.get("graph_launches") or "0") != "0"

    def collective_of(self, row: Row) -> str | None:
        """What one of its rows measures, where it is known."""
        return row.collective or self.collective

    def ranks_of(self, row: Row) -> int | None:
        """How many ranks took part in one of its rows; none took part in nothing, so 0 is not known.

        Under NCCL_TESTS_SPLIT nccl-tests lists the ranks of all groups above the rows of one, and says nowhere how many
        that one has.
        """
        ranks = row.ranks or self.ranks or None
        if len(self.rank_list) != ranks:
            return ranks
        return sum(rank.group == row.group for rank in self.rank_list) or ranks


class Refusal(Struct, kw_only=True, frozen=True):
    """A line that looks like a row and was not taken."""

    line: int
    text: str
    reason: str


class Log(Struct, kw_only=True, frozen=True):
    """A whole file, folder entry or stream."""

    source: str
    """The path as given, or '-'."""
    tables: tuple[Table, ...] = ()
    candidate_rows: int = 0
    """Rows that were seen: taken and refused."""
    refused: tuple[Refusal, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows of all tables."""
        return tuple(row for table in self.tables for row in table.rows)
