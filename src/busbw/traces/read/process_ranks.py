"""Separates the ranks of one process, which may have several GPUs."""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping

import numpy as np

from busbw.traces.building import TraceBuilder
from busbw.traces.read.process_file import ProcessFile
from busbw.units import count_text


def split_ranks(builder: TraceBuilder, file: ProcessFile, identities: Mapping[int, Hashable]) -> list[frozenset[int]]:
    """Returns the communicators of each rank of a process, by their indices.

    A process has several ranks if it has several ranks of one communicator. A thread, or else a stream, that uses two
    communicators shows that they belong to one rank. What remains ambiguous is left out, which is a problem.
    """
    entries = file.communicators
    ranks = defaultdict[Hashable, dict[int, int]](dict)
    for index, identity in identities.items():
        ranks[identity][entries[index].rank] = index
    base = max(ranks, key=lambda identity: len(ranks[identity]), default=None)
    if base is None or len(ranks[base]) == 1:
        return [frozenset(entries)]
    sets = {index: {index} for index in entries}
    proven: set[int] = set()
    for field in ("thread", "stream"):
        for users in _users(file, field):
            merged = set[int]().union(*(sets[index] for index in users))
            if len({identities[index] for index in merged}) == len(merged):
                proven |= merged if field == "thread" else set()
                sets.update(dict.fromkeys(merged, merged))
    distinct = {min(indices): frozenset(indices) for indices in sets.values()}
    parts = [indices for indices in distinct.values() if indices & proven.union(ranks[base].values())]
    ambiguous = sorted(set(entries) - set().union(*parts))
    if lost := int(np.isin(file.operations["communicator"], ambiguous).sum()):
        builder.add_problem(
            f"{file.name} has several ranks in one thread, and {count_text(lost, 'operation')} on"
            f" {count_text(len(ambiguous), 'communicator')} belong to an unknown one; they are left out"
        )
    return parts


def local_identities(file: ProcessFile) -> dict[int, Hashable]:
    """Returns an identity for each communicator, which is equal for the ranks of one communicator in this process."""
    entries = file.communicators
    ranks_by_size = defaultdict[int, set[int]](set)
    for entry in entries.values():
        ranks_by_size[entry.size].add(entry.rank)
    max_size = max(ranks_by_size, default=0)
    has_all_ranks = len(ranks_by_size[max_size]) == max_size > 1
    has_several_ranks = has_all_ranks or 1 <= int(file.header["size"]) < max_size
    seen = defaultdict[Hashable, int](int)
    identities: dict[int, Hashable] = {}
    for index, entry in entries.items():
        if entry.id is not None:
            identities[index] = entry.id
            continue
        key = (entry.size, entry.rank) if has_several_ranks else (entry.size, None)
        identities[index] = (entry.size, seen[key])
        seen[key] += 1
    return identities


def _users(file: ProcessFile, field: str) -> Iterator[set[int]]:
    """Yields the communicators that one thread or stream uses."""
    operations = file.operations
    pairs = np.unique(operations[field].astype(np.uint64) << np.uint64(16) | operations["communicator"])
    _, starts = np.unique(pairs >> np.uint64(16), return_index=True)
    for part in np.split(pairs, starts[1:]):
        yield set((part & np.uint64(0xFFFF)).tolist())
