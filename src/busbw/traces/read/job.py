"""Joins the files of processes into the trace of their job: ranks, and communicators with their members."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from busbw.traces.format import DeviceClock
from busbw.traces.model import Communicator, RankTrace, Trace
from busbw.traces.read.process_file import CommunicatorEntry, ProcessFile
from busbw.traces.read.process_ranks import local_identities, split_ranks
from busbw.units import count_text, names_text

_MAX_COMMUNICATORS = 2**16 - 1
_MAX_MEMBERS = 2**22
"""Of all communicators together. A damaged size must not exhaust the memory."""
_MAX_NAMES = 8


@dataclass(eq=False)
class _RankPart:
    """One rank of a process."""

    file: ProcessFile
    indices: dict[Hashable, int]
    """Index in the file of each communicator, by an identity that all its ranks have."""
    is_whole_file: bool

    def entry(self, identity: Hashable) -> CommunicatorEntry:
        return self.file.communicators[self.indices[identity]]


def join_processes(name: str, files: Sequence[ProcessFile], problems: list[str]) -> Trace:
    """Returns the trace. It appends a sentence to `problems` for all that is missing, ambiguous or contradictory."""
    parts = []
    for file in _select_run([file for file in files if file.communicators], problems):
        sets, identities = split_ranks(file, problems), local_identities(file)
        parts += [
            _RankPart(file, {identities[index]: index for index in sorted(indices)}, len(sets) == 1) for indices in sets
        ]
    _identify_communicators(parts, problems)
    numbered = sorted(_number_ranks(parts, problems).items())
    communicators = _make_communicators(numbered, problems)
    numbers = {communicator.identity: number for number, communicator in enumerate(communicators)}
    ranks = tuple(_make_rank(rank, part, numbers) for rank, part in numbered)
    trace = Trace(name=name, ranks=ranks, communicators=communicators)
    missing = np.setdiff1d(np.arange(trace.size), [rank for rank, _ in numbered])
    if ranks and len(missing):
        which = names_text([str(rank) for rank in missing], _MAX_NAMES)
        problems.append(f"{count_text(len(missing), 'rank')} of {trace.size:,} not recorded: {which}")
    return replace(trace, problems=tuple(problems))


def _select_run(files: Sequence[ProcessFile], problems: list[str]) -> list[ProcessFile]:
    """Returns the files of the newest run, if a rank has files of several runs. One file of each rank remains.

    Files with a common communicator are of one run.
    """
    runs: list[list[ProcessFile]] = []
    ids_of_runs: list[set[int]] = []
    for file in files:
        ids = {entry.id for entry in file.communicators.values() if entry.id is not None}
        common = [place for place, others in enumerate(ids_of_runs) if ids & others]
        runs.append([*(other for place in common for other in runs[place]), file])
        ids_of_runs.append(ids.union(*(ids_of_runs[place] for place in common)))
        for place in reversed(common):
            del runs[place], ids_of_runs[place]
    runs.sort(key=lambda run: max(int(file.header["start_realtime_ns"]) for file in run), reverse=True)
    selected: list[ProcessFile] = []
    taken: set[Hashable] = set()
    older: list[ProcessFile] = []
    repeated: list[ProcessFile] = []
    for run in runs:
        places = {_process_place(file) for file in run}
        if places & taken:
            older += run
            continue
        taken |= places
        seen: set[Hashable] = set()
        for file in sorted(run, key=lambda one: one.name):
            own = {(entry.id, entry.rank) for entry in file.communicators.values() if entry.id is not None}
            (repeated if own & seen else selected).append(file)
            seen |= own
    for left_out, reason in ((older, "they are of older runs"), (repeated, "another one has the same ranks")):
        if left_out:
            names = names_text(sorted(file.name for file in left_out), _MAX_NAMES)
            problems.append(f"{count_text(len(left_out), 'file')} left out, because {reason}: {names}")
    return selected


def _process_place(file: ProcessFile) -> Hashable:
    """Returns the rank of a process in its job: two files of one run have different ones."""
    if file.header["rank"] >= 0:
        return int(file.header["rank"])
    return max(((entry.size, entry.rank) for entry in file.communicators.values()), default=None)


def _identify_communicators(parts: Sequence[_RankPart], problems: list[str]) -> None:
    """Replaces identities that are only valid in a file by those of `Communicator`.

    Without ids, communicators of one size match in the order in which the ranks created them. Several communicators of
    one number and size match in the order of the ranks, which is correct for contiguous and for strided ranks.
    """
    seen = defaultdict[Hashable, int](int)
    for part in sorted(parts, key=lambda one: int(one.file.header["rank"])):
        indices: dict[Hashable, int] = {}
        for identity, index in part.indices.items():
            if isinstance(identity, int):
                indices[f"{identity:016x}"] = index
            else:
                key = (identity, part.entry(identity).rank)
                indices[f"inferred {identity} {seen[key]}"] = index
                seen[key] += 1
        part.indices = indices
    if seen:
        problems.append("this NCCL gave no ids of communicators; their members are inferred from order and size")


def _number_ranks(parts: Sequence[_RankPart], problems: list[str]) -> dict[int, _RankPart]:
    """Returns the parts by their rank in the job."""
    common = set[Hashable].intersection(*(set(part.indices) for part in parts)) if parts else set()
    candidates = [
        [part.entry(identity).rank for part in parts]
        for identity in sorted(common, key=lambda one: parts[0].entry(one).size, reverse=True)
    ]
    if all(part.is_whole_file and part.file.header["rank"] >= 0 for part in parts):
        candidates.insert(0, [int(part.file.header["rank"]) for part in parts])
    for ranks in candidates:
        if len(set(ranks)) == len(parts):
            return dict(zip(ranks, parts, strict=True))
    problems.append("the launcher gave no ranks and no communicator has all; ranks are numbered by file names")
    return dict(enumerate(parts))


def _make_communicators(numbered: Sequence[tuple[int, _RankPart]], problems: list[str]) -> tuple[Communicator, ...]:
    recorded = defaultdict[Hashable, list[tuple[int, CommunicatorEntry]]](list)
    first_indices: dict[Hashable, int] = {}
    for rank, part in numbered:
        for identity, index in part.indices.items():
            recorded[identity].append((rank, part.entry(identity)))
            first_indices[identity] = min(index, first_indices.get(identity, index))
    communicators: list[Communicator] = []
    contradictory, unknown_sizes, members_left = 0, 0, _MAX_MEMBERS
    for identity in sorted(recorded, key=lambda one: first_indices[one]):  # the order in which ranks created them
        entries = [entry for _, entry in recorded[identity]]
        size = max(max(entry.size, entry.rank + 1) for entry in entries)
        unknown_sizes += all(entry.size == -1 for entry in entries)
        members_left -= size
        if len(communicators) == _MAX_COMMUNICATORS or members_left < 0:
            break
        members: dict[int, int] = {}
        own = ((entry.rank, rank) for rank, entry in recorded[identity])
        for place, member in chain(own, *(entry.members.items() for entry in entries)):
            contradictory += members.setdefault(place, member) != member
        contradictory += sum(entry.size not in (size, -1) for entry in entries)
        name = next((entry.name for entry in entries if entry.name), "")
        places = tuple(map(members.get, range(size)))
        communicators.append(Communicator(identity=str(identity), name=name, size=size, members=places))
    if unknown_sizes:
        count = count_text(unknown_sizes, "communicator")
        problems.append(f"this NCCL gave no sizes of {count}; they have the recorded ranks")
    if contradictory:
        problems.append(f"ranks disagree on {count_text(contradictory, 'member')} or sizes of communicators")
    if left_out := len(recorded) - len(communicators):
        problems.append(f"{count_text(left_out, 'communicator')} beyond the maximum and their operations left out")
    return tuple(communicators)


def _make_rank(rank: int, part: _RankPart, numbers: dict[str, int]) -> RankTrace:
    header, operations = part.file.header, part.file.operations
    known = {part.indices[identity]: numbers[str(identity)] for identity in part.indices if str(identity) in numbers}
    if len(known) < len(part.file.communicators):
        operations = operations[np.isin(operations["communicator"], list(known))]
    lookup = np.zeros(2**16, np.uint16)
    lookup[list(known)] = list(known.values())
    operations["communicator"] = lookup[operations["communicator"]]
    start_ns, version = int(header["start_realtime_ns"]), int(header["nccl_version"])
    return RankTrace(
        rank=rank,
        host=part.file.text("host"),
        pid=int(header["pid"]) or None,
        source=part.file.name,
        producer=part.file.text("producer"),
        nccl_version=f"{version // 10000}.{version // 100 % 100}.{version % 100}" if version else "",
        device_clock=DeviceClock(int(header["device_clock"])),
        start_ns=start_ns if start_ns < 2**62 else 0,
        operations=operations,
        own_ranks={number: part.file.communicators[index].rank for index, number in known.items()},
        lost_count=part.file.lost_count,
        gap_count=part.file.gap_count,
    )
