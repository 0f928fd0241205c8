"""Joins the files of processes into the trace of their job: ranks, and communicators with their members."""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter, itemgetter

import numpy as np

from busbw.traces.building import RankBuilder, TraceBuilder
from busbw.traces.format import DeviceClock
from busbw.traces.read.process_file import CommunicatorEntry, ProcessFile
from busbw.units import count_text, names_text


@dataclass(eq=False)
class _RankPart:
    """One rank of a process."""

    file: ProcessFile
    rank: RankBuilder
    file_indices: frozenset[int]
    """Indices in the file of the communicators of the rank."""
    trace_indices: dict[int, int] = field(default_factory=dict)
    """Index in the trace of each valid communicator, by its index in the file."""


def join_processes(builder: TraceBuilder, files: Sequence[ProcessFile]) -> None:
    """Adds the ranks of all files, and problems for what is ambiguous or contradictory."""
    parts = _list_parts(builder, _select_newest_runs(builder, [file for file in files if file.communicators]))
    _add_communicators(builder, parts)
    for part in parts:
        _fill_rank(part)


def _select_newest_runs(builder: TraceBuilder, files: Sequence[ProcessFile]) -> list[ProcessFile]:
    """Returns the files of the newest runs. A run is older if one of its processes also belongs to a newer run.

    If files of a run have a common rank, only one is kept.
    """
    runs = _group_by_run(files)
    runs.sort(key=lambda run: max(int(file.header["start_realtime_ns"]) for file in run), reverse=True)
    selected: list[ProcessFile] = []
    older: list[ProcessFile] = []
    repeated: list[ProcessFile] = []
    selected_processes: set[Hashable] = set()
    for run in runs:
        processes = {_process_key(file) for file in run}
        if processes & selected_processes:
            older += run
            continue
        selected_processes |= processes
        run_ranks: set[tuple[int, int]] = set()
        for file in sorted(run, key=attrgetter("name")):
            ranks = {(entry.id, entry.rank) for entry in file.communicators.values()}
            if ranks & run_ranks:
                repeated.append(file)
            else:
                selected.append(file)
            run_ranks |= ranks
    for left_out, reason in ((older, "they are of older runs"), (repeated, "another one has the same ranks")):
        if left_out:
            names = names_text(sorted(file.name for file in left_out))
            builder.add_problem(f"{count_text(len(left_out), 'file')} left out, because {reason}: {names}")
    return selected


def _group_by_run(files: Sequence[ProcessFile]) -> list[list[ProcessFile]]:
    """Returns the files of each run. Common communicators connect the files of a run."""
    runs: list[tuple[set[int], list[ProcessFile]]] = []  # ids of the communicators, and files of each run
    for file in files:
        own_ids = {entry.id for entry in file.communicators.values()}
        connected = [run for run in runs if run[0] & own_ids]
        others = [run for run in runs if not run[0] & own_ids]
        run_ids = own_ids.union(*(ids for ids, _ in connected))
        run_files = [*chain.from_iterable(part for _, part in connected), file]
        runs = [*others, (run_ids, run_files)]
    return [run_files for _, run_files in runs]


def _process_key(file: ProcessFile) -> Hashable:
    """Returns a key that differs between the files of one run, and is equal for the same process of two runs.

    The key is the rank in the job. If this rank is unknown, the key is the size of the largest communicator, with the
    rank in this communicator.
    """
    if _launcher_rank(file) >= 0:
        return _launcher_rank(file)
    return max(((entry.size, entry.rank) for entry in file.communicators.values()), default=None)


def _list_parts(builder: TraceBuilder, files: Sequence[ProcessFile]) -> list[_RankPart]:
    """Returns the ranks of all files. The ranks have the numbers of the launcher if each process is one rank."""
    parts: list[_RankPart] = []
    for file in sorted(files, key=_launcher_rank):
        for indices in _split_ranks(builder, file):
            parts.append(_RankPart(file, builder.find_or_add_rank(len(parts), file.name), indices))
    numbers = [_launcher_rank(part.file) for part in parts]
    are_known = min(numbers, default=-1) >= 0
    are_distinct = len(set(numbers)) == len(numbers)
    if are_known and are_distinct:
        for part, number in zip(parts, numbers, strict=True):
            part.rank.rank = number
    return parts


def _launcher_rank(file: ProcessFile) -> int:
    """Returns the rank that the launcher gave to the process. -1: unknown."""
    return int(file.header["rank"])


def _split_ranks(builder: TraceBuilder, file: ProcessFile) -> list[frozenset[int]]:
    """Returns the communicators of each rank of a process, by their indices in the file.

    A process has several ranks if it has several ranks of one communicator; the file then has one index for each of
    them. The communicators that one thread uses belong to one rank, and so do those of one stream. A thread or stream
    that uses two ranks of one communicator serves several ranks, so it is ignored.

    A communicator is left out, with a problem, if nothing connects it with a thread or with the communicator that has
    the most ranks in this process.
    """
    entries = file.communicators
    indices_by_id = defaultdict[int, dict[int, int]](dict)  # of each communicator: index by rank
    for index, entry in entries.items():
        indices_by_id[entry.id][entry.rank] = index
    most_ranks = max(indices_by_id.values(), key=len)
    if len(most_ranks) == 1:
        return [frozenset(entries)]
    same_rank = {index: {index} for index in entries}  # by index: all indices of its rank
    with_known_rank = set(most_ranks.values())
    for used in _used_communicators(file, "thread"):
        with_known_rank |= _unite(used, same_rank, entries)
    for used in _used_communicators(file, "stream"):
        _unite(used, same_rank, entries)
    distinct = {min(indices): frozenset(indices) for indices in same_rank.values()}
    ranks = [indices for indices in distinct.values() if indices & with_known_rank]
    ambiguous = sorted(set(entries) - set().union(*ranks))
    if lost := int(np.isin(file.operations["communicator"], ambiguous).sum()):
        builder.add_problem(
            f"{file.name} has several ranks in one thread, and {count_text(lost, 'operation')} on"
            f" {count_text(len(ambiguous), 'communicator')} belong to an unknown one; they are left out"
        )
    return ranks


def _unite(used: set[int], same_rank: dict[int, set[int]], entries: Mapping[int, CommunicatorEntry]) -> set[int]:
    """Assigns all communicators that a thread or stream uses to one rank, and returns the communicators of this rank.

    Changes nothing, and returns an empty set, if this rank would have two ranks of one communicator.
    """
    united = set[int]().union(*(same_rank[index] for index in used))
    has_one_rank_each = len({entries[index].id for index in united}) == len(united)
    if not has_one_rank_each:
        return set()
    same_rank.update(dict.fromkeys(united, united))
    return united


def _used_communicators(file: ProcessFile, field_name: str) -> Iterator[set[int]]:
    """Yields the communicators that each thread or stream uses. `field_name`: "thread" or "stream"."""
    operations = file.operations
    # Thread 3 and communicator 5 become 3 << 16 | 5, because np.unique takes much longer on pairs.
    pairs = np.unique(operations[field_name].astype(np.uint64) << np.uint64(16) | operations["communicator"])
    _, starts = np.unique(pairs >> np.uint64(16), return_index=True)
    for part in np.split(pairs, starts[1:]):
        yield set((part & np.uint64(0xFFFF)).tolist())


def _add_communicators(builder: TraceBuilder, parts: Sequence[_RankPart]) -> None:
    """Adds the communicators in the order in which ranks created them."""
    entries = [(index, part, part.file.communicators[index]) for part in parts for index in part.file_indices]
    sizes = defaultdict[int, int](int)
    declared_sizes = defaultdict[int, set[int]](set)
    for _, _, entry in entries:
        sizes[entry.id] = max(entry.size, entry.rank + 1, sizes[entry.id])
        declared_sizes[entry.id].add(entry.size)
    for file_index, part, entry in sorted(entries, key=itemgetter(0)):
        members = [entry.members.get(own_rank, -1) for own_rank in range(max(entry.members, default=-1) + 1)]
        trace_index = builder.find_or_add_communicator(
            f"{entry.id:016x}", sizes[entry.id], name=entry.name, members=members
        )
        if trace_index is not None:
            part.trace_indices[file_index] = trace_index
            builder.join(part.rank, trace_index, entry.rank)
    if unknown := sum(declared == {-1} for declared in declared_sizes.values()):
        count = count_text(unknown, "communicator")
        builder.add_problem(f"this NCCL gave no sizes of {count}; they have the recorded ranks")
    if contradictory := sum(len(declared - {-1}) > 1 for declared in declared_sizes.values()):
        builder.add_problem(f"ranks disagree on the sizes of {count_text(contradictory, 'communicator')}")


def _fill_rank(part: _RankPart) -> None:
    """Copies the facts of the file, and the operations of the rank on valid communicators."""
    file, rank = part.file, part.rank
    is_of_rank = np.isin(file.operations["communicator"], list(part.trace_indices))
    rank.operations = file.operations[is_of_rank]
    if file.first_unmatched is not None:
        rank.first_unmatched = int(np.count_nonzero(is_of_rank[: file.first_unmatched]))
    trace_index_by_file_index = np.zeros(2**16, np.uint16)
    trace_index_by_file_index[list(part.trace_indices)] = list(part.trace_indices.values())
    rank.operations["communicator"] = trace_index_by_file_index[rank.operations["communicator"]]
    start_ns, version = int(file.header["start_realtime_ns"]), int(file.header["nccl_version"])
    rank.host, rank.producer = file.text("host"), file.text("producer")
    rank.pid = int(file.header["pid"]) or None
    if version:  # 22809 is "2.28.9"
        rank.nccl_version = f"{version // 10000}.{version // 100 % 100}.{version % 100}"
    rank.device_clock = DeviceClock(int(file.header["device_clock"]))
    rank.start_ns = start_ns if start_ns < 2**62 else 0
    rank.lost_count = file.lost_count
