"""Communicators in logs of NCCL.

In one process, a pointer (the handle) names a communicator until NCCL uses the pointer for another one.
"""

import re
from collections import Counter
from dataclasses import dataclass

from busbw.traces.building import RankBuilder, TraceBuilder

Process = tuple[bytes, bytes]
"""Host and process id. Empty if the log does not name them."""
_INFERRED = (
    "the log does not name {count} communicators of ranks, so they are inferred from sizes and order; "
    "record with NCCL_DEBUG_SUBSYS=INIT,COLL"
)


@dataclass(eq=False)
class NcclCommunicator:
    """A communicator of one process."""

    index: int
    identity: str
    rank: RankBuilder
    """Rank of the job that uses this handle."""
    size: int
    own_rank: int | None
    """Number of `rank` in this communicator. None: unknown."""
    is_starting: bool
    """True after the line "Init START", until "Init COMPLETE"."""
    has_calls: bool = False
    split_count: int = 0
    """Number of communicators that were split from this one so far."""


class NcclCommunicators:
    """All communicators of a log."""

    def __init__(self, builder: TraceBuilder) -> None:
        self._builder = builder
        self._known: dict[tuple[Process, bytes], NcclCommunicator] = {}
        self._by_id: dict[tuple[Process, str, int], NcclCommunicator] = {}
        """Communicators with an id from the log, by process, id and own rank."""
        self._repeated: set[Process] = set()
        self._inferred_counts: Counter[tuple[RankBuilder, int]] = Counter()
        """Number of inferred communicators of each rank and size that were tried so far."""
        self._taken_ranks: dict[str, set[int]] = {}
        """Ranks of each inferred communicator, by its identity. A negative number stands for an unknown rank."""

    def find(self, process: Process, handle: bytes) -> NcclCommunicator | None:
        """Returns the latest communicator with this pointer. None if the log did not introduce it."""
        return self._known.get((process, handle))

    def is_repeated(self, process: Process) -> bool:
        """Returns true if the log has repeated the text of a process, because a rank has joined a communicator again.

        Each communicator has a new id, so a rank can join it only once.
        """
        return process in self._repeated

    def read_message(self, process: Process, match: re.Match[str], text: str, source: str) -> None:
        """Reads the line "Init START" or "Init COMPLETE" of a rank."""
        handle = match["handle"].encode()
        size, own_rank = int(match["size"]), int(match["rank"])
        is_start, is_end = "Init START" in text, "Init COMPLETE" in text
        if not is_start and not is_end:
            return
        started = None if is_start else self.find(process, handle)
        if started and started.is_starting and (started.size, started.own_rank) == (size, own_rank):
            started.is_starting = False  # "Init START" has already added this communicator
            return
        device = (match["device"] or "").encode()
        id_number = int(match["split_id"] or match["id"] or "0", 16)
        identity = f"{id_number:016x}" if id_number else ""
        if match["split"] and not identity:
            split_number = int(match["split_count"]) if match["split_count"] else None
            identity = self._split_identity(process, match["parent"].encode(), split_number, match["color"] or "")
        key = process, identity, own_rank
        if identity and key in self._by_id and self._by_id[key].has_calls:
            self._repeated.add(process)
        added = self.add(process, handle, device, size, own_rank, source, identity, is_starting=is_start)
        if identity and added:
            self._by_id[key] = added

    def add(
        self,
        process: Process,
        handle: bytes,
        device: bytes,
        size: int,
        own_rank: int | None,
        source: str,
        identity: str = "",
        *,
        is_starting: bool = False,
    ) -> NcclCommunicator | None:
        """Adds a communicator. None if its size is impossible.

        `identity` is empty if the log does not identify the communicator. The identity is then inferred.
        """
        host, pid = process
        rank = self._builder.find_or_add_rank((host, pid, device), source)
        rank.host, rank.pid = host.decode(errors="replace"), int(pid) if pid else None
        identity = identity or self._inferred_identity(rank, size, own_rank)
        index = self._builder.find_or_add_communicator(identity, size)
        if index is None:
            return None
        if own_rank is not None and rank.own_rank_by_communicator.get(index, own_rank) != own_rank:
            self._builder.add_problem(
                "several ranks have one host, process and device; operations of small groups may be at another rank"
            )
            rank = self._builder.find_or_add_rank((host, pid, device, own_rank), source)
            rank.host, rank.pid = host.decode(errors="replace"), int(pid) if pid else None
        if own_rank is not None:
            self._builder.join(rank, index, own_rank)
        added = NcclCommunicator(index, identity, rank, size, own_rank, is_starting)
        self._known[process, handle] = added
        return added

    def _split_identity(self, process: Process, parent_handle: bytes, split_number: int | None, color: str) -> str:
        """Returns an identity that is equal for all ranks with the same color. Empty if the parent is not known.

        `split_number`: number of the split of the parent, from 0. None: the order of the lines decides.
        """
        parent = self.find(process, parent_handle)
        if parent is None:
            return ""
        if split_number is None:
            split_number = parent.split_count
        parent.split_count += 1
        return f"{parent.identity}/{split_number}/{color}"

    def _inferred_identity(self, rank: RankBuilder, size: int, own_rank: int | None) -> str:
        """Returns the identity of the next inferred communicator of this size in which `own_rank` is not taken."""
        self._builder.add_problem(_INFERRED)
        while True:
            identity = f"size {size}, number {self._inferred_counts[rank, size]}"
            self._inferred_counts[rank, size] += 1
            taken = self._taken_ranks.setdefault(identity, set())
            if len(taken) < size and own_rank not in taken:
                unknown_rank = -1 - len(taken)  # differs from all ranks in `taken`
                taken.add(unknown_rank if own_rank is None else own_rank)
                return identity
