"""Collects the operations of ranks and their communicators, and makes a trace of them."""

import struct
from array import array
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from busbw.errors import UsageError
from busbw.files import path_text
from busbw.traces import format as layout
from busbw.traces.format import Algorithm, DeviceClock, Kind, Protocol
from busbw.traces.model import Communicator, Operations, RankTrace, Trace

_RECORD = struct.Struct("<BBBBHHiIQQQQBBBBIII")
"""One operation, as `format.OPERATION`."""
_KERNEL = struct.Struct("<BBB")
_KERNEL_OFFSET = 48
"""Offset of `algorithm`, `protocol` and `channels` in a record."""
_UNKNOWN_FIELDS = dict.fromkeys(layout.OPERATION.names or (), 0) | {
    "kind": int(Kind.OPERATION),
    "datatype": layout.UNKNOWN_BYTE,
    "redop": layout.UNKNOWN_BYTE,
    "stream": layout.UNKNOWN_INDEX,
    "peer": -1,
    "algorithm": int(Algorithm.UNKNOWN),
    "protocol": int(Protocol.UNKNOWN),
    "channels": layout.UNKNOWN_BYTE,
    "network_steps": layout.UNKNOWN_COUNT,
    "host_ns": layout.UNKNOWN_COUNT,
}
"""An operation of which nothing is known."""
_MAX_COUNT = 1 << 60
_MIN_UNIX_NS = 10**17
"""Times before 1973 have another origin."""
_MAX_TOTAL_SIZE = 1 << 24
"""Maximum sum of the sizes of all communicators. More is damage, and would fill the memory."""
_MAX_RANK = 1 << 31
_NO_SEQUENCE = -1
_Numbers = NDArray[np.int64]


class RankBuilder:
    """Operations of one rank, in the order of their calls."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.rank: int | None = None
        """Rank of the job. None if the source does not name it."""
        self.host = ""
        self.pid: int | None = None
        self.nccl_version = ""
        self.device_clock = DeviceClock.NONE
        self.start_ns = 0
        self.lost_count = 0
        self.refused_count = 0
        """Operations with impossible values."""
        self.own_ranks: dict[int, int] = {}
        self._records = bytearray()
        self._sequences = array("q")
        self._streams: dict[Hashable, int] = {}
        self._threads: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self._sequences)

    def stream(self, name: Hashable) -> int:
        """Returns the number of a stream in the order of appearance."""
        return min(self._streams.setdefault(name, len(self._streams)), layout.UNKNOWN_INDEX)

    def thread(self, name: Hashable) -> int:
        """Returns the number of a thread in the order of appearance."""
        return self._threads.setdefault(name, len(self._threads))

    def add(
        self,
        function: int,
        communicator: int,
        count: int,
        *,
        sequence: int = _NO_SEQUENCE,
        duration_ns: int = 0,
        **fields: int,
    ) -> int:
        """Appends an operation and returns its number. Returns -1 if a value is impossible.

        Args:
            function: `Function`.
            communicator: Index from `TraceBuilder.communicator`.
            count: Elements, as in the call of NCCL.
            sequence: Number that all ranks of the communicator give the operation. It shows what some dropped.
            duration_ns: Time on the device, if its start is not known. 0: unknown.
            fields: Other fields of `format.OPERATION`. Those left out are unknown.
        """
        record = _UNKNOWN_FIELDS | fields
        record["function"], record["communicator"] = function, communicator
        try:
            if duration_ns > 0:
                self.device_clock = DeviceClock.DURATION
                record["device_start_ns"], record["device_end_ns"] = 1, 1 + duration_ns
            record["count"] = count if count <= _MAX_COUNT else -1
            if not 0 <= record["datatype"] < len(layout.DATATYPE_NAMES):
                record["datatype"] = layout.UNKNOWN_BYTE
            if not 0 <= record["redop"] < len(layout.REDOP_NAMES):
                record["redop"] = layout.UNKNOWN_BYTE
            data = _RECORD.pack(*record.values())
            self._sequences.append(sequence)
        except (struct.error, TypeError, OverflowError):
            self.refused_count += 1
            return -1
        self._records += data
        return len(self._sequences) - 1

    def set_kernel(self, operation: int, algorithm: int, protocol: int, channels: int) -> None:
        """Sets what ran for an operation."""
        offset = operation * layout.RECORD_BYTES + _KERNEL_OFFSET
        _KERNEL.pack_into(
            self._records,
            offset,
            algorithm,
            protocol,
            channels if 0 < channels < layout.UNKNOWN_BYTE else layout.UNKNOWN_BYTE,
        )

    def start_at_first_time(self, offset_ns: int = 0) -> None:
        """Makes the times of the host clock relative to the first one. Before, they are Unix times less an offset."""
        operations = self.operations
        names = ["enqueue_ns", *(("device_start_ns", "device_end_ns") if self.device_clock == DeviceClock.HOST else ())]
        known = [(operations[name], operations[name] > 0) for name in names]
        start = min((int(times[is_known].min()) for times, is_known in known if is_known.any()), default=1) - 1
        for times, is_known in known:
            times[is_known] -= np.uint64(start)
        self.start_ns = start + offset_ns if start + offset_ns >= _MIN_UNIX_NS else 0

    @property
    def operations(self) -> Operations:
        """The operations so far, to read and change. None may be added while the result is in use."""
        return np.frombuffer(self._records, dtype=layout.OPERATION)

    @property
    def sequences(self) -> _Numbers:
        """Argument `sequence` of each operation."""
        return np.frombuffer(self._sequences, dtype=np.int64)

    def select(self, selection: _Numbers) -> None:
        """Keeps the operations with these numbers, in this order."""
        self._records = bytearray(self.operations[selection].tobytes())
        self._sequences = array("q", self.sequences[selection].tobytes())


@dataclass
class _Group:
    """A communicator while the recording is read."""

    identity: str
    name: str
    size: int
    members: dict[int, int] = field(default_factory=dict)
    """Rank of the job by rank of the communicator."""


class TraceBuilder:
    """Ranks and communicators of a job."""

    def __init__(self, paths: Sequence[Path], source_format: str) -> None:
        self._name = path_text(paths[0].name if len(paths) == 1 else paths[0].absolute().parent.name)
        self._producer = f"import {source_format}"
        self._ranks: dict[Hashable, RankBuilder] = {}
        self._groups: list[_Group] = []
        self._indices: dict[str, int] = {}
        self._problems: Counter[str] = Counter()

    def add_problem(self, problem: str, count: int = 1) -> None:
        """Adds a sentence. "{count}" in it stands for the sum of the counts of all calls with this sentence."""
        if count:
            self._problems[problem] += count

    def rank(self, key: Hashable, source: str) -> RankBuilder:
        """Returns the rank with this key. It is created at the first call."""
        return self._ranks.get(key) or self._ranks.setdefault(key, RankBuilder(source))

    def communicator(self, identity: str, size: int, *, name: str = "", members: Sequence[int] = ()) -> int | None:
        """Returns the index of a communicator, which is created at the first call. None if it is impossible.

        Args:
            identity: Equal for all ranks of the communicator.
            size: Number of ranks.
            name: Name that the program gave it.
            members: Rank of the job for each rank of the communicator. Empty if unknown.
        """
        if (index := self._indices.get(identity)) is not None:
            if self._groups[index].size != size:
                self.add_problem("{count} calls name another size of a communicator than the first call")
            return index
        is_possible = 0 < size <= _MAX_TOTAL_SIZE - sum(group.size for group in self._groups)
        if not is_possible or len(self._groups) >= layout.UNKNOWN_INDEX:
            self.add_problem("{count} communicators are left out because of an impossible size or number")
            return None
        known = {number: member for number, member in enumerate(members[:size]) if 0 <= member < _MAX_RANK}
        self._groups.append(_Group(identity, name, size, known))
        self._indices[identity] = len(self._groups) - 1
        return len(self._groups) - 1

    def join(self, rank: RankBuilder, communicator: int, own_rank: int) -> None:
        """Records the rank of a rank in a communicator."""
        if 0 <= own_rank < self._groups[communicator].size:
            rank.own_ranks.setdefault(communicator, own_rank)
        else:
            self.add_problem("{count} ranks are outside of their communicator")

    def build(self, *limitations: str) -> Trace:
        """Returns the trace. `limitations` are sentences on what its source does not tell.

        Raises:
            UsageError: There is no operation.
        """
        ranks = self._numbered_ranks()
        if not any(ranks):
            details = "; ".join(self._problem_texts()[:1])
            raise UsageError(
                f"{self._name} has no operation of a known form{details and f' ({details})'}",
                remedy="record the job with `busbw record`",
            )
        self._fill_members(ranks)
        self._cut_to_common_sequences(ranks)
        for each in ranks:
            groups = each.operations["group"]
            _, places, counts = np.unique(groups, return_inverse=True, return_counts=True)
            groups[counts[places] == 1] = 0
            self.add_problem("{count} operations are left out because their values are impossible", each.refused_count)
        size = max([len(ranks), *(group.size for group in self._groups)])
        if size > len(ranks):
            self.add_problem(f"only {len(ranks):,} of {size:,} ranks were recorded")
        communicators = (
            Communicator(
                identity=group.identity,
                name=group.name,
                size=group.size,
                members=tuple(group.members.get(number) for number in range(group.size)),
            )
            for group in self._groups
        )
        return Trace(
            name=self._name,
            ranks=tuple(self._rank_trace(each) for each in ranks),
            communicators=tuple(communicators),
            problems=(*self._problem_texts(), *limitations),
        )

    def _problem_texts(self) -> list[str]:
        return [text.replace("{count}", f"{count:,}") for text, count in self._problems.items()]

    def _rank_trace(self, rank: RankBuilder) -> RankTrace:
        return RankTrace(
            rank=rank.rank or 0,
            host=rank.host,
            pid=rank.pid,
            source=rank.source,
            producer=self._producer,
            nccl_version=rank.nccl_version,
            device_clock=rank.device_clock,
            start_ns=rank.start_ns,
            operations=rank.operations,
            own_ranks=rank.own_ranks,
            lost_count=rank.lost_count,
        )

    def _numbered_ranks(self) -> list[RankBuilder]:
        """Returns the ranks in order, without repetitions. Some get their number from the largest communicator."""
        ranks = list(self._ranks.values())
        covered = Counter(index for each in ranks for index in each.own_ranks)
        largest = max(covered, key=lambda index: (covered[index], self._groups[index].size), default=-1)
        for each in ranks:
            each.rank = each.own_ranks.get(largest) if each.rank is None else each.rank
        next_rank = max([-1, *(each.rank for each in ranks if each.rank is not None)]) + 1
        best: dict[int, RankBuilder] = {}
        for each in ranks:
            if each.rank is None:
                each.rank, next_rank = next_rank, next_rank + 1
                self.add_problem("{count} ranks are numbered by appearance, because the source does not number them")
            if each.rank in best:
                self.add_problem(f"rank {each.rank} occurs several times; its longest recording is used")
            best[each.rank] = max(best.get(each.rank, each), each, key=len)
        return [best[number] for number in sorted(best)]

    def _fill_members(self, ranks: Iterable[RankBuilder]) -> None:
        for rank in ranks:
            for communicator, own_rank in rank.own_ranks.items():
                group = self._groups[communicator]
                member = group.members.setdefault(own_rank, rank.rank or 0)
                if member != rank.rank:
                    label = group.name or group.identity
                    self.add_problem(f"ranks {member} and {rank.rank} have the same place in communicator {label}")

    def _cut_to_common_sequences(self, ranks: Sequence[RankBuilder]) -> None:
        """Removes operations that another rank dropped, so that the n-th operations of all ranks belong together.

        Operations after the last one of a rank remain: it may have stopped there.
        """
        numbers: dict[int, list[tuple[RankBuilder, _Numbers]]] = {}
        for rank in ranks:
            operations = rank.operations
            keys = operations["communicator"].astype(np.int64) << 8 | operations["function"]
            keys[rank.sequences == _NO_SEQUENCE] = -1
            for key in np.unique(keys[keys >= 0]).tolist():
                numbers.setdefault(key, []).append((rank, np.flatnonzero(keys == key)))
        removed: dict[RankBuilder, list[_Numbers]] = {}
        for members in numbers.values():
            common = np.unique(np.concatenate([rank.sequences[own] for rank, own in members]))
            for rank, own in members:
                sequences = rank.sequences[own]
                common = np.setdiff1d(common, np.setdiff1d(common[common < sequences.max()], sequences))
            for rank, own in members:
                removed.setdefault(rank, []).append(own[~np.isin(rank.sequences[own], common)])
        for rank, parts in removed.items():
            dropped = np.concatenate(parts)
            self.add_problem("{count} operations are left out because another rank dropped them", len(dropped))
            if len(dropped):
                rank.select(np.setdiff1d(np.arange(len(rank)), dropped))
