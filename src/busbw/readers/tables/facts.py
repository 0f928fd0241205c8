"""Facts about a table that its header, footer and surroundings state."""

from dataclasses import dataclass, field

from busbw.logs.log import Placement, Rank
from busbw.readers.tables.layouts import ColumnLayout

MAX_RANKS = 100_000
"""Maximum number of ranks kept from a device list."""


@dataclass
class TableFacts:
    """Facts about a table that are known before its rows are interpreted."""

    first_line: int = 0
    program: str | None = None
    stated_collective: str | None = None
    """Collective that the program itself reports."""
    hint: str | None = None
    """Collective named by a heading or a command line. It is less reliable than `stated_collective`."""
    title: str | None = None
    command: str | None = None
    version: str | None = None
    library: str | None = None
    settings: dict[str, str] = field(default_factory=dict)
    ranks: list[Rank] = field(default_factory=list)
    """Entries of the device list."""
    list_is_cut: bool = False
    """True if the device list omits ranks."""
    claimed_gpus: int | None = None
    """Number of GPUs according to `claimed_by`, for example "32x H800" or "1 node, 8 gpus/node" in a heading."""
    claimed_by: str = "the heading"
    columns: ColumnLayout = field(default_factory=ColumnLayout)
    named_placements: tuple[Placement, ...] | None = None
    """Placements that a line has named. They apply to the column header that follows it."""
    names_are_cut: bool = False
    """True if a line names out-of-place alone: the line of two placements is cut or wrapped."""
    has_header: bool = False
    group: int = 0
    """Group (NCCL_TESTS_SPLIT) of the rows that follow."""
    group_ranks: dict[int, int] = field(default_factory=dict)
    """Number of ranks by group."""
    warnings: list[str] = field(default_factory=list)
    average: str | None = None
    """Average busbw of the footer, as printed."""
    out_of_bounds: int | None = None
    has_conclusion: bool = False
    """True if the line "Collective test concluded" was read."""
    end_reason: str | None = None

    @property
    def has_footer(self) -> bool:
        """True if the end of the table was read."""
        return self.average is not None or self.has_conclusion

    @property
    def rank_zero_processes(self) -> list[Rank]:
        """Processes that report rank 0. More than one means that the processes did not find each other."""
        processes = {(rank.pid, rank.host): rank for rank in self.ranks if rank.rank == 0}
        return list(processes.values())
