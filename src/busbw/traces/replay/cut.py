"""Reduces a draft to fewer ranks."""

from collections import Counter
from dataclasses import replace

import numpy as np

from busbw.traces.format import ROOTED, TRANSFERS
from busbw.traces.replay.draft import Draft
from busbw.units import count_text


def cut_ranks(draft: Draft, ranks: int) -> None:
    """Keeps the first `ranks` ranks of the job, and the communicators that have at least two of them.

    Counts stay as recorded, because they are those of one rank or of one peer.
    """
    draft.ranks = {rank: draft.ranks[rank] for rank in range(ranks)}
    remaining = [
        [index for index, member in enumerate(members) if member is not None and member < ranks]
        for members in draft.communicators
    ]
    used = np.unique(np.concatenate([rank.operations["communicator"] for rank in draft.ranks.values()])).tolist()
    new_indices = {index: new for new, index in enumerate(one for one in used if len(remaining[one]) > 1)}
    for rank in range(ranks):
        _cut_rank(draft, rank, remaining, new_indices)
    changes = Counter((len(draft.communicators[index]), len(remaining[index])) for index in used)
    for (before, after), count in sorted(changes.items()):
        change = f"with {after} ranks" if after > 1 else "left out, because one rank remains"
        if after < before:
            draft.notes.append(f"{count_text(count, 'communicator')} of {before:,} ranks: {change}.")
    draft.communicators = [tuple(draft.communicators[index][one] for one in remaining[index]) for index in new_indices]


def _cut_rank(draft: Draft, rank: int, remaining: list[list[int]], new_indices: dict[int, int]) -> None:
    """Keeps the operations of a rank that remain, with the new numbers of communicators, roots and peers."""
    operations = draft.ranks[rank].operations
    communicators, function = operations["communicator"].copy(), operations["function"]
    for index in np.unique(communicators).tolist():
        new_ranks = np.full(len(draft.communicators[index]), -1)
        new_ranks[remaining[index]] = np.arange(len(remaining[index]))
        has_peer = (communicators == index) & np.isin(function, (*TRANSFERS, *ROOTED))
        operations["peer"][has_peer] = new_ranks[operations["peer"][has_peer]]
        operations["communicator"][communicators == index] = new_indices.get(index, 0)
    is_kept = np.isin(communicators, list(new_indices))
    draft.omitted["of communicators with one rank"] += int((~is_kept).sum())
    is_root_cut = is_kept & np.isin(function, ROOTED) & (operations["peer"] < 0)
    draft.assumed["rooted in rank 0, because their root is not in the replay"] += int(is_root_cut.sum())
    operations["peer"][is_root_cut] = 0
    is_peer_cut = is_kept & np.isin(function, TRANSFERS) & (operations["peer"] < 0)
    draft.omitted["with a peer outside of the replay"] += int(is_peer_cut.sum())
    draft.ranks[rank] = replace(draft.ranks[rank], operations=operations[is_kept & ~is_peer_cut])
