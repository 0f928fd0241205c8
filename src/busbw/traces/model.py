"""A trace in memory: the operations of all recorded ranks of a job. Every reader and importer produces a `Trace`."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from busbw.traces.format import DeviceClock, Operations
from busbw.traces.matching import MatchedOperations, match_operations
from busbw.traces.steps import Steps, find_steps


@dataclass(frozen=True, kw_only=True)
class Communicator:
    """A communicator of the job."""

    identity: str
    """Key that is equal on all ranks of this communicator, and differs from the keys of all other communicators.

    It is the id of the communicator in hexadecimal, or text such as the name and the members if the id is unknown."""
    name: str = ""
    """Name that the program gave the communicator, such as the process group of PyTorch. May be empty."""
    size: int
    """Number of ranks."""
    members: tuple[int | None, ...]
    """Rank of the job for each rank of the communicator. None: not recorded."""


@dataclass(frozen=True, kw_only=True)
class RankTrace:
    """The recorded operations of one rank of the job."""

    rank: int
    """Rank in the job, as the launcher numbers it. Without a launcher, rank in the largest communicator."""
    host: str = ""
    pid: int | None = None
    source: str = ""
    """File that was read."""
    producer: str = ""
    nccl_version: str = ""
    """Such as "2.28.9". Empty: unknown."""
    device_clock: DeviceClock = DeviceClock.NONE
    start_ns: int = 0
    """Unix time of `enqueue_ns` 0, by the clock of the host. 0: unknown."""
    operations: Operations = field(repr=False)
    """In the order of the calls. `communicator` is an index of `Trace.communicators`."""
    own_rank_by_communicator: dict[int, int] = field(default_factory=dict)
    """Own rank in each communicator, by the index of the communicator in `Trace.communicators`."""
    lost_count: int = 0
    """Operations that the recorder could not store, or that are not valid."""
    first_unmatched: int | None = None
    """From this index on, operations have no match, because one before them is missing. None: all can match."""

    @cached_property
    def steps(self) -> Steps | None:
        """Steps of this rank. None if no sequence of operations repeats."""
        return find_steps(self.operations)


class Matching(NamedTuple):
    """Result of matching the operations of all ranks."""

    operations: tuple[MatchedOperations, ...]
    problems: tuple[str, ...]
    """Differences between the ranks, as sentences for users."""


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A recording of one job."""

    name: str
    ranks: tuple[RankTrace, ...]
    """Ordered by `rank`, without repetitions."""
    communicators: tuple[Communicator, ...]
    is_modelled: bool = False
    """True if the trace was computed from the shape of a model. Operations then take no time, and the
    times between them are the computation."""
    problems: tuple[str, ...] = ()
    """Missing and contradictory facts, as sentences for users. The rest of the trace is valid."""
    files: tuple[str, ...] = ()
    """All files, also those that were left out. `problems` can name them. Empty: only the sources of the ranks."""

    @cached_property
    def matching(self) -> Matching:
        """Each operation with the same operation of the other ranks of its communicator."""
        problems: list[str] = []
        operations = match_operations(self, problems)  # adds to `problems`
        return Matching(operations, tuple(problems))

    @property
    def size(self) -> int:
        """Number of ranks of the job, including ranks that were not recorded."""
        recorded = [rank.rank for rank in self.ranks]
        members = [
            member for communicator in self.communicators for member in communicator.members if member is not None
        ]
        max_rank = max([*recorded, *members], default=-1)
        return max([max_rank + 1, *(communicator.size for communicator in self.communicators)])
