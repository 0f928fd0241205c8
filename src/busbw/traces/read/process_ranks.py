"""Separates the ranks of one process, which may have several GPUs."""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from busbw.traces.building import TraceBuilder
from busbw.traces.read.process_file import ProcessFile
from busbw.units import count_text


def split_ranks(builder: TraceBuilder, file: ProcessFile) -> list[frozenset[int]]:
    """Returns the communicators of each rank of a process, by their indices.

    A process has several ranks if it has several ranks of one communicator. A thread, or else a stream, that uses two
    communicators shows that they belong to one rank. What remains ambiguous is left out, which is a problem.
    """
    entries = file.communicators
    ranks = defaultdict[int, dict[int, int]](dict)
    for index, entry in entries.items():
        ranks[entry.id][entry.rank] = index
    base = max(ranks.values(), key=len)
    if len(base) == 1:
        return [frozenset(entries)]
    sets = {index: {index} for index in entries}
    proven: set[int] = set()
    for field in ("thread", "stream"):
        for users in _users(file, field):
            merged = set[int]().union(*(sets[index] for index in users))
            if len({entries[index].id for index in merged}) == len(merged):
                proven |= merged if field == "thread" else set()
                sets.update(dict.fromkeys(merged, merged))
    distinct = {min(indices): frozenset(indices) for indices in sets.values()}
    parts = [indices for indices in distinct.values() if indices & proven.union(base.values())]
    ambiguous = sorted(set(entries) - set().union(*parts))
    if lost := int(np.isin(file.operations["communicator"], ambiguous).sum()):
        builder.add_problem(
            f"{file.name} has several ranks in one thread, and {count_text(lost, 'operation')} on"
            f" {count_text(len(ambiguous), 'communicator')} belong to an unknown one; they are left out"
        )
    return parts


def _users(file: ProcessFile, field: str) -> Iterator[set[int]]:
    """Yields the communicators that one thread or stream uses."""
    operations = file.operations
    pairs = np.unique(operations[field].astype(np.uint64) << np.uint64(16) | operations["communicator"])
    _, starts = np.unique(pairs >> np.uint64(16), return_index=True)
    for part in np.split(pairs, starts[1:]):
        yield set((part & np.uint64(0xFFFF)).tolist())
