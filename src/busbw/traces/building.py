"""Builds a trace from its ranks and communicators, for all sources: own files, recordings of other programs, models."""

import struct
from array import array
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from busbw.errors import UsageError
from busbw.traces import format as layout
from busbw.traces.format import Algorithm, DeviceClock, Kind, Operations, Protocol
from busbw.traces.model import Communicator, RankTrace, Trace
from busbw.traces.repeated_ranks import choose_recordings
from busbw.units import count_text, names_text

_RECORD = struct.Struct("<BBBBHHiIQQQQBBBBIII")
"""One operation, with the fields of `format.OPERATION` in their order."""
_DATATYPE_COUNT, _REDOP_COUNT = len(layout.DATATYPE_NAMES), len(layout.REDOP_NAMES)
_MAX_COUNT = 1 << 60
"""Maximum count of an operation. A larger number is damage."""
_MIN_UNIX_NS = 10**17
"""Minimum of a Unix time: 1973. A smaller value is another time, for example the time since boot."""
_MAX_TOTAL_SIZE = 1 << 22
"""Maximum sum of the sizes of all communicators. More is damage, and would fill the memory."""
_MAX_RANK = 1 << 31
"""Ranks of a trace file are below this number."""
NO_SEQUENCE = -1
"""Number of a call that its source does not number."""
Numbers = NDArray[np.int64]


class Call(NamedTuple):
    """A call of one rank. A value that the source does not state keeps its default, which means none or unknown."""

    function: int
    communicator: int
    """Index from `TraceBuilder.find_or_add_communicator`."""
    elements: int
    """Argument `count` of the call of NCCL."""
    datatype: int = layout.UNKNOWN_BYTE
    redop: int = layout.UNKNOWN_BYTE
    peer: int = -1
    stream: int = layout.UNKNOWN_INDEX
    thread: int = 0
    group: int = 0
    flags: int = 0
    enqueue_ns: int = 0
    device_start_ns: int = 0
    device_end_ns: int = 0
    duration_ns: int = 0
    """Time on the device, from a source that does not state the start. 0: unknown."""
    algorithm: int = Algorithm.UNKNOWN
    protocol: int = Protocol.UNKNOWN
    channels: int = layout.UNKNOWN_BYTE


class RankBuilder:
    """Facts about one rank, with the names of `RankTrace`, and its operations in the order of the calls."""

    def __init__(self, source: str, producer: str) -> None:
        self.source = source
        self.producer = producer
        self.rank: int | None = None
        """Rank of the job. None if the source does not name it."""
        self.host = ""
        self.pid: int | None = None
        self.nccl_version = ""
        self.device_clock = DeviceClock.NONE
        self.start_ns = 0
        self.lost_count = 0
        self.first_unmatched: int | None = None
        self.refused_count = 0
        """Number of calls with impossible values, which are left out."""
        self.own_rank_by_communicator: dict[int, int] = {}
        self._operations: Operations | None = None
        """Operations after a replacement. None: they are in `_records`."""
        self._records = bytearray()
        """Packed records of the operations that were added."""
        self._sequences = array("q")
        self._streams: dict[Hashable, int] = {}
        self._threads: dict[Hashable, int] = {}

    def number_stream(self, name: Hashable) -> int:
        """Returns the number of a stream in the order of appearance, or `UNKNOWN_INDEX` after too many streams."""
        return min(self._streams.setdefault(name, len(self._streams)), layout.UNKNOWN_INDEX)

    def number_thread(self, name: Hashable) -> int:
        """Returns the number of a thread in the order of appearance."""
        return self._threads.setdefault(name, len(self._threads))

    def add(self, call: Call, sequence: int = NO_SEQUENCE) -> int:
        """Appends a call and returns its number. Returns -1 if a value is impossible.

        A number of an element type or operator that `format` does not name is stored as unknown.
        `sequence` is the number of the call in its communicator, equal on all ranks. A gap shows dropped calls.
        """
        try:
            start_ns, end_ns = call.device_start_ns, call.device_end_ns
            if call.duration_ns > 0:
                start_ns, end_ns = 1, 1 + call.duration_ns  # as `DeviceClock.DURATION` describes
                self.device_clock = DeviceClock.DURATION
            data = _RECORD.pack(
                Kind.OPERATION,
                call.function,
                call.datatype if 0 <= call.datatype < _DATATYPE_COUNT else layout.UNKNOWN_BYTE,
                call.redop if 0 <= call.redop < _REDOP_COUNT else layout.UNKNOWN_BYTE,
                call.communicator,
                call.stream,
                call.peer,
                call.group,
                call.elements if call.elements <= _MAX_COUNT else -1,  # -1 raises struct.error
                call.enqueue_ns,
                start_ns,
                end_ns,
                call.algorithm,
                call.protocol,
                call.channels,
                call.flags,
                layout.UNKNOWN_COUNT,  # network_steps
                call.thread,
                0,  # reserved
            )
            self._sequences.append(sequence)
        except (struct.error, TypeError, OverflowError):
            self.refused_count += 1
            return -1
        self._records += data
        return len(self._sequences) - 1

    @property
    def operations(self) -> Operations:
        """The operations so far, to read and change. No call may be added while the result is in use."""
        if self._operations is None:
            return np.frombuffer(self._records, dtype=layout.OPERATION)
        return self._operations

    @operations.setter
    def operations(self, operations: Operations) -> None:
        """Replaces all operations. No call may be added afterwards."""
        self._operations = operations
        self._records = bytearray()

    @property
    def sequences(self) -> Numbers:
        """Argument `sequence` of each call."""
        return np.frombuffer(self._sequences, dtype=np.int64)

    def select(self, selection: Numbers) -> None:
        """Keeps the operations with these numbers, in this order. No call may be added afterwards."""
        self.operations = self.operations[selection]
        self._sequences = array("q", self.sequences[selection].tobytes())

    def start_at_first_time(self, offset_ns: int = 0) -> None:
        """Makes the times of the host clock relative, with the first time as 1. Sets `start_ns` to the Unix time of 0.

        `offset_ns`: Unix time of 0 on the clock of the source. Without a plausible result, `start_ns` is 0.
        """
        operations = self.operations
        names = ["enqueue_ns"]
        if self.device_clock == DeviceClock.HOST:
            names += ["device_start_ns", "device_end_ns"]
        known = [(operations[name], operations[name] > 0) for name in names]
        first_ns = min((int(times[is_known].min()) for times, is_known in known if is_known.any()), default=1)
        zero_ns = first_ns - 1  # the first time becomes 1, because 0 means unknown
        for times, is_known in known:
            times[is_known] -= np.uint64(zero_ns)
        unix_ns = zero_ns + offset_ns
        self.start_ns = unix_ns if unix_ns >= _MIN_UNIX_NS else 0


class TraceBuilder:
    """Ranks and communicators of a job."""

    def __init__(self, name: str, producer: str = "", *, is_modelled: bool = False) -> None:
        self._name = name
        self._producer = producer
        self._is_modelled = is_modelled
        self._ranks: dict[Hashable, RankBuilder] = {}
        self._communicators: list[Communicator] = []
        """All communicators, without their members."""
        self._members: list[dict[int, int]] = []
        """Rank of the job by rank of the communicator, for each communicator."""
        self._total_size = 0
        self._indices: dict[str, int | None] = {}
        """Index of each communicator, by its identity. None: the communicator is impossible."""
        self._problems: Counter[str] = Counter()

    @property
    def ranks(self) -> list[RankBuilder]:
        """All ranks, in the order of their creation."""
        return list(self._ranks.values())

    def add_problem(self, problem: str, count: int = 1) -> None:
        """Adds a sentence, or only its count if the sentence is known. "{count}" becomes the sum of the counts."""
        if count:
            self._problems[problem] += count

    def find_or_add_rank(self, key: Hashable, source: str) -> RankBuilder:
        """Returns the rank with this key, and creates it if it is new."""
        if key not in self._ranks:
            self._ranks[key] = RankBuilder(source, self._producer)
        return self._ranks[key]

    def find_or_add_communicator(
        self, identity: str, size: int, *, name: str = "", members: Sequence[int] = ()
    ) -> int | None:
        """Returns the index of a communicator, and creates it if it is new. None if its values are impossible.

        The arguments are fields of `Communicator`, but an unknown rank in `members` is negative.
        """
        if identity not in self._indices:
            self._indices[identity] = self._create_communicator(identity, size, name, members)
            return self._indices[identity]
        index = self._indices[identity]
        if index is not None:
            known = self._communicators[index]
            if name and not known.name:
                self._communicators[index] = replace(known, name=name)
            if known.size != size:
                self.add_problem("{count} calls name another size of a communicator than the first call")
        return index

    def _create_communicator(self, identity: str, size: int, name: str, members: Sequence[int]) -> int | None:
        is_size_possible = 0 < size <= _MAX_TOTAL_SIZE - self._total_size
        if not is_size_possible or len(self._communicators) >= layout.UNKNOWN_INDEX:
            self.add_problem("{count} communicators of an impossible size or number, with their operations, left out")
            return None
        self._total_size += size
        self._communicators.append(Communicator(identity=identity, name=name, size=size, members=()))
        listed = enumerate(members[:size])
        self._members.append({own_rank: member for own_rank, member in listed if 0 <= member < _MAX_RANK})
        return len(self._communicators) - 1

    def join(self, rank: RankBuilder, communicator: int, own_rank: int) -> None:
        """Records that a rank of the job is `own_rank` in a communicator. `build` joins the listed members itself."""
        if 0 <= own_rank < self._communicators[communicator].size:
            rank.own_rank_by_communicator.setdefault(communicator, own_rank)
        else:
            self.add_problem("{count} ranks are outside of their communicator")

    def build(self) -> Trace:
        """Returns the trace.

        Raises:
            UsageError: There is no operation.
        """
        ranks = self._number_ranks()
        for _, rank in ranks:
            self.add_problem("{count} operations are left out because their values are impossible", rank.refused_count)
        if not any(len(rank.operations) for _, rank in ranks):
            texts = self._problem_texts()
            reasons = f": {'; '.join(texts)}" if texts else ""
            raise UsageError(
                f"{self._name} has no operations{reasons}",
                remedy="check the messages of the recorded job, or record it again",
            )
        self._join_listed(ranks)
        self._fill_members(ranks)
        trace = Trace(
            name=self._name,
            ranks=tuple(_make_rank(number, rank) for number, rank in ranks),
            communicators=tuple(
                replace(communicator, members=tuple(map(members.get, range(communicator.size))))
                for communicator, members in zip(self._communicators, self._members, strict=True)
            ),
            is_modelled=self._is_modelled,
        )
        missing = np.setdiff1d(np.arange(trace.size), [number for number, _ in ranks])
        if len(missing):
            names = names_text(list(map(str, missing)))
            self.add_problem(f"{count_text(len(missing), 'rank')} of {trace.size:,} not recorded: {names}")
        return replace(trace, problems=tuple(self._problem_texts()))

    def _problem_texts(self) -> list[str]:
        return [text.replace("{count}", f"{count:,}") for text, count in self._problems.items()]

    def _number_ranks(self) -> list[tuple[int, RankBuilder]]:
        """Returns one recording of each rank with its number, ascending.

        A rank that the source does not number gets its own rank in the communicator with the most recorded ranks. A
        rank outside of this communicator gets the next free number.
        """
        recorded_counts = Counter(
            index for rank_builder in self.ranks for index in rank_builder.own_rank_by_communicator
        )
        largest = max(
            recorded_counts,
            key=lambda index: (recorded_counts[index], self._communicators[index].size),
            default=-1,
        )
        numbers = [
            rank_builder.own_rank_by_communicator.get(largest) if rank_builder.rank is None else rank_builder.rank
            for rank_builder in self.ranks
        ]
        next_number = max((number for number in numbers if number is not None), default=-1) + 1
        recordings: dict[int, list[RankBuilder]] = {}
        for number, rank_builder in zip(numbers, self.ranks, strict=True):
            if number is None:
                number, next_number = next_number, next_number + 1
                self.add_problem("{count} ranks are numbered by appearance, because the source does not number them")
            recordings.setdefault(number, []).append(rank_builder)
        chosen = choose_recordings(recordings)
        repeated = [number for number, own in sorted(recordings.items()) if len(own) > 1]
        if repeated:
            left_out = [one for number in repeated for one in recordings[number] if one is not chosen[number]]
            files = names_text(sorted({Path(one.source).name for one in left_out}))
            one_or_more = "rank {} occurs" if len(repeated) == 1 else "ranks {} occur"
            ranks = one_or_more.format(names_text(list(map(str, repeated))))
            self.add_problem(f"{ranks} several times; {count_text(len(left_out), 'recording')} left out: {files}")
        return sorted(chosen.items())

    def _join_listed(self, ranks: Iterable[tuple[int, RankBuilder]]) -> None:
        """Sets the own ranks that follow from the listed members, for the communicators that each rank uses."""
        own_rank_by_member = [
            {member: own_rank for own_rank, member in own_ranks.items()} for own_ranks in self._members
        ]
        for number, rank in ranks:
            # Counting is faster than the sorting of `np.unique`.
            for index in np.flatnonzero(np.bincount(rank.operations["communicator"])).tolist():
                own_rank = own_rank_by_member[index].get(number)
                if own_rank is not None:
                    rank.own_rank_by_communicator.setdefault(index, own_rank)

    def _fill_members(self, ranks: Iterable[tuple[int, RankBuilder]]) -> None:
        """Sets the members from the own ranks of the recorded ranks.

        A recorded rank replaces a listed member. If two recorded ranks have the same own rank, the first one remains.
        """
        first_recorded: dict[tuple[int, int], int] = {}
        for number, rank in ranks:
            for index, own_rank in rank.own_rank_by_communicator.items():
                known_member = self._members[index].get(own_rank, number)
                if known_member != number:
                    label = self._communicators[index].name or self._communicators[index].identity
                    self.add_problem(f"ranks {known_member} and {number} have the same place in communicator {label}")
                self._members[index][own_rank] = first_recorded.setdefault((index, own_rank), number)


def _make_rank(number: int, rank: RankBuilder) -> RankTrace:
    facts = {field.name: getattr(rank, field.name) for field in fields(RankTrace)}
    return RankTrace(**facts | {"rank": number})
