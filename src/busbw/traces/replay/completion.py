"""Adds ranks that were not recorded, if all recorded ranks do the same.

A communicator of a regular job is a row of a grid: its ranks have one distance. Every rank is in a row of the grid.
"""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from busbw.errors import UsageError
from busbw.traces.replay.draft import PAIRED, Draft, RankDraft
from busbw.units import count_text, names_text

Members = tuple[int | None, ...]


def complete_ranks(draft: Draft, ranks: int, job_size: int) -> None:
    """Adds the missing ones of the first `ranks` ranks of the job.

    Raises:
        UsageError: Recorded ranks differ, or a communicator of a missing rank is unknown.
    """
    missing = [rank for rank in range(ranks) if rank not in draft.ranks]
    if not missing:
        return
    recorded = sorted(draft.ranks)
    names = names_text([str(rank) for rank in missing], 8)
    draft.communicators = [_fill(members, job_size) for members in draft.communicators]
    first_ranks = next((index for index, rank in enumerate(recorded) if rank != index), len(recorded))
    problem = f"{count_text(len(missing), 'rank')} were not recorded ({names})"
    remedy = f"set --scale {first_ranks}" if first_ranks > 1 else "record all ranks"
    if len({_behavior(draft, draft.ranks[rank]) for rank in recorded}) > 1:
        raise UsageError(f"{problem}, and the recorded ranks do not all do the same", remedy=remedy)
    known = {key: index for index, key in enumerate(_keys(draft.communicators))}
    for rank in missing:
        template = recorded[rank % len(recorded)]
        used = np.unique(draft.ranks[template].operations["communicator"]).tolist()
        rows = [_row(draft.communicators[index], rank) for index in used]
        is_regular = all(_row(draft.communicators[index], template) == draft.communicators[index] for index in used)
        if not is_regular or any(max(row) >= job_size for row in rows):
            raise UsageError(f"{problem}, and the ranks of their communicators are unknown", remedy=remedy)
        for key in _keys(rows):
            if key not in known:
                known[key] = len(draft.communicators)
                draft.communicators.append(key[0])
        new_indices = {index: known[key] for index, key in zip(used, _keys(rows), strict=True)}
        draft.ranks[rank] = _copy(draft, template, rank, new_indices)
    draft.notes.append(f"{problem}; they repeat the operations of recorded ranks.")


def _fill(members: Members, job_size: int) -> Members:
    """Returns the members; those of a communicator of the whole job need not be recorded."""
    is_whole_job = len(members) == job_size and all(one in (None, index) for index, one in enumerate(members))
    return tuple(range(job_size)) if is_whole_job else members


def _distance(members: Members) -> int:
    """Returns the distance between the ranks of a communicator; 0 if it is unknown."""
    first, second = members[:2] if len(members) > 1 else (0, 1)
    return 0 if first is None or second is None else second - first


def _row(members: Members, rank: int) -> tuple[int, ...]:
    """Returns the ranks of the row of the communicator's grid in which this rank is. Empty if it is unknown."""
    distance, size = _distance(members), len(members)
    start = rank - rank // max(distance, 1) % size * distance
    return tuple(range(start, start + size * distance, distance)) if distance > 0 else ()


def _keys(communicators: Iterable[Members]) -> list[tuple[Members, int]]:
    """Returns a key for each communicator: its members, and the number of those before with the same members."""
    seen: Counter[Members] = Counter()
    keys = []
    for members in communicators:
        keys.append((members, seen[members]))
        seen[members] += 1
    return keys


def _behavior(draft: Draft, rank: RankDraft) -> tuple[object, ...]:
    """Returns a value that is equal for ranks that do the same, each on its own communicators."""
    grids = {index: (_distance(one), len(one)) for index, one in enumerate(draft.communicators)}
    calls = rank.operations[["function", "datatype", "redop", "count"]].tolist()
    return (tuple(calls), tuple(grids[index] for index in rank.operations["communicator"].tolist()))


def _copy(draft: Draft, template: int, rank: int, new_indices: dict[int, int]) -> RankDraft:
    """Returns the operations of the template for another rank, with peers at the same distance."""
    copied = draft.ranks[template].keep(np.ones(len(draft.ranks[template].operations), bool))
    communicators = copied.operations["communicator"].copy()
    for index, new_index in new_indices.items():
        is_here = communicators == index
        is_paired = is_here & np.isin(copied.operations["function"], PAIRED)
        members = draft.communicators[new_index]
        shift = members.index(rank) - draft.communicators[index].index(template)
        copied.operations["peer"][is_paired] = (copied.operations["peer"][is_paired] + shift) % len(members)
        copied.operations["communicator"][is_here] = new_index
    return copied
