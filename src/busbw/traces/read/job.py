"""Joins the files of processes into the trace of their job: ranks, and communicators with their members."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from busbw.traces.format import DeviceClock
from busbw.traces.model import Communicator, RankTrace, Trace
from busbw.traces.read.process_file import CommunicatorEntry, ProcessFile
from busbw.traces.read.process_ranks import local_identities, split_ranks
from busbw.units import count_text, names_text

_MAX_COMMUNICATORS = 2**16 - 1
_MAX_MEMBERS = 2**24
"""Of all communicators together. A damaged size must not exhaust the memory."""
_MAX_NAMES = 8


@dataclass(eq=False)
class _RankPart:
    """One rank of a process."""

    file: ProcessFile
    identities: dict[int, Hashable]
    """Of its communicators, by the index in the file. Equal for all ranks of a communicator."""
    is_whole_file: bool

    @property
    def own_ranks(self) -> dict[Hashable, int]:
        """Rank in each communicator."""
        return {identity: self.file.communicators[index].rank for index, identity in self.identities.items()}


def join_processes(name: str, files: Sequence[ProcessFile], problems: list[str]) -> Trace:
    """Returns the trace. It appends a sentence to `problems` for all that is missing, ambiguous or contradictory."""
    parts = []
    for file in _select_run([file for file in files if len(file.operations)], problems):
        sets, identities = split_ranks(file, problems), local_identities(file)
        parts += [
            _RankPart(file, {index: identities[index] for index in sorted(indices)}, len(sets) == 1) for indices in sets
        ]
    _identify_communicators(parts, problems)
    numbered = sorted(_number_ranks(parts, problems).items())
    communicators = _make_communicators(numbered, problems)
    indices = {communicator.identity: index for index, communicator in enumerate(communicators)}
    ranks = tuple(_make_rank(rank, part, indices) for rank, part in numbered)
    trace = Trace(name=name, ranks=ranks, communicators=communicators)
    missing = sorted(set(range(trace.size)).difference(rank.rank for rank in ranks)) if ranks else []
    if missing:
        which = names_text([str(rank) for rank in missing], _MAX_NAMES)
        problems.append(f"{count_text(len(missing), 'rank')} of {trace.size:,} not recorded: {which}")
    return Trace(name=name, ranks=ranks, communicators=communicators, problems=tuple(problems))


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
    for left_out, reason in ((older, "are of older runs"), (repeated, "have ranks that another file has")):
        if left_out:
            names = names_text(sorted(file.name for file in left_out), _MAX_NAMES)
            problems.append(f"{count_text(len(left_out), 'file')} of this directory {reason} and left out: {names}")
    return selected


def _process_place(file: ProcessFile) -> Hashable:
    """Returns the rank of a process in its job: two files of one run have different ones."""
    if file.header["rank"] >= 0:
        return int(file.header["rank"])
    return max(((entry.size, entry.rank) for entry in file.communicators.values()), default=None)


def _identify_communicators(parts: Sequence[_RankPart], problems: list[str]) -> None:
    """Replaces identities that are only valid in a file.

    Without ids, communicators of one size match in the order in which the ranks created them. Several communicators of
    one number and size match in the order of the ranks, which is correct for contiguous and for strided ranks.
    """
    has_inference = False
    seen = defaultdict[Hashable, int](int)
    for part in sorted(parts, key=lambda one: int(one.file.header["rank"])):
        for index, identity in part.identities.items():
            if isinstance(identity, tuple):
                key = (*identity, part.file.communicators[index].rank)
                part.identities[index] = "-".join(map(str, ("inferred", *identity, seen[key])))
                seen[key] += 1
                has_inference = True
            else:
                part.identities[index] = f"{identity:016x}"
    if has_inference:
        problems.append("this NCCL gave no ids of communicators; their members are inferred from order and size")


def _number_ranks(parts: Sequence[_RankPart], problems: list[str]) -> dict[int, _RankPart]:
    """Returns the parts by their rank in the job."""
    launcher_ranks = [int(part.file.header["rank"]) for part in parts]
    if all(part.is_whole_file for part in parts) and min(launcher_ranks, default=-1) >= 0:
        numbered = dict(zip(launcher_ranks, parts, strict=True))
        if len(numbered) == len(parts):
            return numbered
    common = set.intersection(*(set(part.own_ranks) for part in parts)) if parts else set()
    sizes = {
        identity: part.file.communicators[index].size for part in parts for index, identity in part.identities.items()
    }
    for identity in sorted(common, key=lambda one: sizes[one], reverse=True):
        numbered = {part.own_ranks[identity]: part for part in parts}
        if len(numbered) == len(parts):
            return numbered
    if parts:
        problems.append("the launcher gave no ranks and no communicator has all; ranks are numbered by file names")
    return dict(enumerate(parts))


def _make_communicators(numbered: Sequence[tuple[int, _RankPart]], problems: list[str]) -> tuple[Communicator, ...]:
    entries = defaultdict[Hashable, list[tuple[int, CommunicatorEntry]]](list)
    first_indices: dict[Hashable, int] = {}
    for rank, part in numbered:
        for index, identity in part.identities.items():
            entries[identity].append((rank, part.file.communicators[index]))
            first_indices[identity] = min(index, first_indices.get(identity, index))
    communicators: list[Communicator] = []
    contradictory = left_out = 0
    members_left = _MAX_MEMBERS
    for identity in sorted(entries, key=lambda one: first_indices[one]):  # the order in which ranks created them
        recorded = entries[identity]
        size = max(entry.size for _, entry in recorded)
        members_left -= size
        if len(communicators) == _MAX_COMMUNICATORS or members_left < 0:
            left_out += 1
            continue
        members: dict[int, int] = {}
        for rank, entry in recorded:
            for place, member in (*entry.members.items(), (entry.rank, rank)):
                contradictory += members.setdefault(place, member) != member
            contradictory += entry.size != size
        communicators.append(
            Communicator(
                identity=str(identity),
                name=next((entry.name for _, entry in recorded if entry.name), ""),
                size=size,
                members=tuple(map(members.get, range(size))),
            )
        )
    if contradictory:
        problems.append(f"ranks disagree on {count_text(contradictory, 'member')} or sizes of communicators")
    if left_out:
        problems.append(f"{count_text(left_out, 'communicator')} beyond the maximum and their operations left out")
    return tuple(communicators)


def _make_rank(rank: int, part: _RankPart, indices: dict[str, int]) -> RankTrace:
    header, operations = part.file.header, part.file.operations
    numbers = {index: indices[str(identity)] for index, identity in part.identities.items() if str(identity) in indices}
    if len(numbers) < len(part.file.communicators):
        operations = operations[np.isin(operations["communicator"], list(numbers))]
    lookup = np.zeros(2**16, np.uint16)
    lookup[list(numbers)] = list(numbers.values())
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
        own_ranks={numbers[index]: part.file.communicators[index].rank for index in numbers},
        lost_count=part.file.lost_count,
    )
