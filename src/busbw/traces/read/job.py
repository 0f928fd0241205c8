"""Joins the files of processes into the trace of their job: ranks, and communicators with their members."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from busbw.traces.building import RankBuilder, TraceBuilder
from busbw.traces.format import DeviceClock
from busbw.traces.read.process_file import CommunicatorEntry, ProcessFile
from busbw.traces.read.process_ranks import local_identities, split_ranks
from busbw.units import count_text, names_text

_MAX_NAMES = 8


@dataclass(eq=False)
class _RankPart:
    """One rank of a process."""

    file: ProcessFile
    rank: int | None
    """Rank of the job, from the launcher."""
    indices: dict[str, int]
    """Index in the file of each communicator, by `Communicator.identity`."""

    def entries(self) -> dict[str, CommunicatorEntry]:
        """Returns the communicators of the rank by identity."""
        return {identity: self.file.communicators[index] for identity, index in self.indices.items()}


def join_processes(builder: TraceBuilder, files: Sequence[ProcessFile]) -> None:
    """Adds the ranks of all files, and problems for what is ambiguous or contradictory."""
    parts = _list_parts(builder, _select_run(builder, [file for file in files if file.communicators]))
    indices = _add_communicators(builder, parts)
    for number, part in enumerate(parts):
        rank = builder.rank(number, part.file.name)
        rank.rank = part.rank
        _fill_rank(builder, rank, part, indices)


def _list_parts(builder: TraceBuilder, files: Sequence[ProcessFile]) -> list[_RankPart]:
    """Returns the ranks of all files. Communicators without ids get identities that are valid in the whole job.

    Such communicators of one size match in the order in which the ranks created them. Several communicators of one
    number and size match in the order of the ranks, which is correct for contiguous and for strided ranks.
    """
    parts = []
    seen = defaultdict[Hashable, int](int)
    for file in sorted(files, key=lambda one: int(one.header["rank"])):
        identities = local_identities(file)
        sets = split_ranks(builder, file, identities)
        for own in sets:
            indices: dict[str, int] = {}
            for index in sorted(own):
                identity = identities[index]
                if isinstance(identity, int):
                    indices[f"{identity:016x}"] = index
                else:
                    key = (identity, file.communicators[index].rank)
                    indices[f"inferred {identity} {seen[key]}"] = index
                    seen[key] += 1
            rank = int(file.header["rank"])
            parts.append(_RankPart(file, rank if len(sets) == 1 and rank >= 0 else None, indices))
    if seen:
        builder.add_problem("this NCCL gave no ids of communicators; their members are inferred from order and size")
    ranks = [part.rank for part in parts]
    if None in ranks or len(set(ranks)) < len(ranks):  # a launcher of processes with several ranks, or another program
        for part in parts:
            part.rank = None
    return parts


def _add_communicators(builder: TraceBuilder, parts: Sequence[_RankPart]) -> dict[str, int | None]:
    """Adds the communicators in the order in which ranks created them. Returns their indices by identity."""
    recorded = defaultdict[str, list[CommunicatorEntry]](list)
    first_indices: dict[str, int] = {}
    for part in parts:
        for identity, entry in part.entries().items():
            recorded[identity].append(entry)
            first_indices[identity] = min(part.indices[identity], first_indices.get(identity, 1 << 16))
    indices: dict[str, int | None] = {}
    unknown_sizes = contradictory = 0
    for identity in sorted(recorded, key=lambda one: first_indices[one]):
        entries = recorded[identity]
        size = max(max(entry.size, entry.rank + 1) for entry in entries)
        unknown_sizes += all(entry.size == -1 for entry in entries)
        members: dict[int, int] = {}
        for entry in entries:
            contradictory += entry.size not in (size, -1)
            for place, member in entry.members.items():
                contradictory += members.setdefault(place, member) != member
        indices[identity] = builder.communicator(
            identity,
            size,
            name=next((entry.name for entry in entries if entry.name), ""),
            members=[members.get(place, -1) for place in range(max(members, default=-1) + 1)],
        )
    if unknown_sizes:
        count = count_text(unknown_sizes, "communicator")
        builder.add_problem(f"this NCCL gave no sizes of {count}; they have the recorded ranks")
    if contradictory:
        builder.add_problem(f"ranks disagree on {count_text(contradictory, 'member')} or sizes of communicators")
    return indices


def _fill_rank(builder: TraceBuilder, rank: RankBuilder, part: _RankPart, indices: dict[str, int | None]) -> None:
    header, operations, gap_start = part.file.header, part.file.operations, part.file.gap_start
    known: dict[int, int] = {}
    for identity, entry in part.entries().items():
        if (index := indices[identity]) is not None:
            known[part.indices[identity]] = index
            builder.join(rank, index, entry.rank)
    if len(known) < len(part.file.communicators):
        is_known = np.isin(operations["communicator"], list(known))
        operations = operations[is_known]
        gap_start = None if gap_start is None else int(np.count_nonzero(is_known[:gap_start]))
    lookup = np.zeros(2**16, np.uint16)
    lookup[list(known)] = list(known.values())
    operations["communicator"] = lookup[operations["communicator"]]
    start_ns, version = int(header["start_realtime_ns"]), int(header["nccl_version"])
    rank.operations = operations
    rank.host, rank.producer = part.file.text("host"), part.file.text("producer")
    rank.pid = int(header["pid"]) or None
    rank.nccl_version = f"{version // 10000}.{version // 100 % 100}.{version % 100}" if version else ""
    rank.device_clock = DeviceClock(int(header["device_clock"]))
    rank.start_ns = start_ns if start_ns < 2**62 else 0
    rank.lost_count, rank.gap_start = part.file.lost_count, gap_start


def _select_run(builder: TraceBuilder, files: Sequence[ProcessFile]) -> list[ProcessFile]:
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
            builder.add_problem(f"{count_text(len(left_out), 'file')} left out, because {reason}: {names}")
    return selected


def _process_place(file: ProcessFile) -> Hashable:
    """Returns the rank of a process in its job: two files of one run have different ones."""
    if file.header["rank"] >= 0:
        return int(file.header["rank"])
    return max(((entry.size, entry.rank) for entry in file.communicators.values()), default=None)
