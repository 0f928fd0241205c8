"""Draft of a replay program: the operations of a step, cut to the ranks of the replay (`cut_ranks`).

The draft counts the operations that are left out and the values that are assumed.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from busbw.traces.format import DATATYPE_NAMES, REDOP_NAMES, REDUCING, ROOTED, TRANSFERS, Flag, Function, Operations
from busbw.traces.model import RankTrace, Trace
from busbw.traces.replay.step import Bounds, SelectedStep, Times, device_times
from busbw.units import count_text


@dataclass(frozen=True, kw_only=True)
class RankDraft:
    """Operations of one rank in the order of the calls."""

    operations: Operations
    """`communicator` is an index of `Draft.communicators`.

    The device times are 0 if they are unknown. Without a clock of the device, both are the time of the call.
    """
    begin_ns: int
    """End of the previous step. The first step begins with its first operation."""
    end_ns: int
    """Last end, also of operations that are left out."""
    has_device_times: bool


@dataclass(kw_only=True)
class Draft:
    """Operations of all ranks."""

    communicators: list[tuple[int | None, ...]]
    """Ranks of the job of each communicator, in the order of its ranks. None: unknown."""
    ranks: dict[int, RankDraft] = field(default_factory=dict)
    """By rank of the job."""
    omitted: Counter[str] = field(default_factory=Counter)
    """Calls of all ranks that are left out, by reason."""
    assumed: Counter[str] = field(default_factory=Counter)
    """Calls of all ranks with an unknown value, by assumption."""
    notes: list[str] = field(default_factory=list)
    """Sentences about the ranks of the replay."""


def draft_step(trace: Trace, step: SelectedStep) -> Draft:
    """Returns the operations of the step that can be replayed, with unknown values assumed."""
    draft = Draft(communicators=[one.members for one in trace.communicators])
    bounds_of_ranks = list(zip(trace.ranks, step.bounds, strict=True))
    is_replayable = [_find_replayable(draft, rank, bounds) for rank, bounds in bounds_of_ranks]
    # A matched operation is replayed if all of its ranks have it and can replay it.
    kept: list[list[Times]] = [[] for _ in trace.ranks]
    for matched, rows in step.rows:
        indices = matched.indices[rows]
        is_complete = (indices >= 0).all(axis=1)
        for column, index in enumerate(matched.ranks):
            is_complete &= is_replayable[index][indices[:, column]]
        for column, index in enumerate(matched.ranks):
            kept[index].append(indices[is_complete, column])
    recorded = [rank.rank for rank in trace.ranks]
    for index, (rank, bounds) in enumerate(bounds_of_ranks):
        first, end = bounds
        is_kept = _leaves_recording(trace, rank, recorded) & is_replayable[index]
        is_kept[:first] = is_kept[end:] = False
        is_kept[np.concatenate([np.zeros(0, np.int64), *kept[index]])] = True
        has_no_counterpart = is_replayable[index][first:end] & ~is_kept[first:end]
        draft.omitted["without a counterpart in the step"] += int(has_no_counterpart.sum())
        draft.ranks[rank.rank] = _draft_rank(draft, rank, bounds, np.flatnonzero(is_kept))
    return draft


def cut_ranks(draft: Draft, ranks: int) -> None:
    """Keeps the first `ranks` ranks of the job, and the communicators that have at least two of them.

    Counts stay as recorded, because a count belongs to one rank or one peer and not to the communicator.
    """
    draft.ranks = {rank: draft.ranks[rank] for rank in range(ranks)}
    remaining = [_remaining_places(members, ranks) for members in draft.communicators]
    used = np.unique(np.concatenate([rank.operations["communicator"] for rank in draft.ranks.values()])).tolist()
    kept = [index for index in used if len(remaining[index]) > 1]
    new_indices = {index: new_index for new_index, index in enumerate(kept)}
    for rank in range(ranks):
        _cut_rank(draft, rank, remaining, new_indices)
    changes = Counter((len(draft.communicators[index]), len(remaining[index])) for index in used)
    for (before, after), count in sorted(changes.items()):
        change = f"with {after} ranks" if after > 1 else "left out, because one rank remains"
        if after < before:
            draft.notes.append(f"{count_text(count, 'communicator')} of {before:,} ranks: {change}.")
    draft.communicators = [tuple(draft.communicators[index][place] for place in remaining[index]) for index in kept]


def _remaining_places(members: Sequence[int | None], ranks: int) -> list[int]:
    """Returns the ranks in a communicator of its members among the first `ranks` ranks of the job."""
    return [place for place, member in enumerate(members) if member is not None and member < ranks]


def _leaves_recording(trace: Trace, rank: RankTrace, recorded: Sequence[int]) -> NDArray[np.bool_]:
    """Returns true for each send or receive with a peer that was not recorded. Such operations have no match."""
    leaves = np.zeros(len(rank.operations), bool)
    is_paired = np.isin(rank.operations["function"], TRANSFERS)
    for index in rank.own_rank_by_communicator:
        members = trace.communicators[index].members
        unrecorded = [peer for peer, member in enumerate(members) if member not in recorded]
        is_here = rank.operations["communicator"] == index
        leaves |= is_paired & is_here & np.isin(rank.operations["peer"], unrecorded)
    return leaves


def _find_replayable(draft: Draft, rank: RankTrace, bounds: Bounds) -> NDArray[np.bool_]:
    """Returns true for each operation that can be replayed. Counts the others within the bounds, by reason."""
    operations = rank.operations
    function, peer = operations["function"], operations["peer"]
    own_rank_by_communicator = np.full(1 << 16, -1)
    own_rank_by_communicator[list(rank.own_rank_by_communicator)] = list(rank.own_rank_by_communicator.values())
    is_paired = np.isin(function, TRANSFERS)
    reasons = {
        "one-sided": np.isin(function, (Function.PUT_SIGNAL, Function.SIGNAL, Function.WAIT_SIGNAL)),
        "of an unknown function": function == Function.OTHER,
        "of an unknown element type": operations["datatype"] >= len(DATATYPE_NAMES),
        "only captured in a graph": (operations["flags"] & Flag.CAPTURED) > 0,
        "with an unknown peer": is_paired & (peer < 0),
        "to the rank itself": is_paired & (peer == own_rank_by_communicator[operations["communicator"]]),
    }
    is_replayable = np.ones(len(operations), bool)
    for reason, is_omitted in reasons.items():
        draft.omitted[reason] += int((is_omitted & is_replayable)[slice(*bounds)].sum())  # the first reason counts
        is_replayable &= ~is_omitted
    return is_replayable


def _draft_rank(draft: Draft, rank: RankTrace, bounds: Bounds, selected: Times) -> RankDraft:
    first, end = bounds
    times = device_times(rank)
    enqueue_ns = rank.operations["enqueue_ns"].astype(np.int64)
    starts, ends = times or (enqueue_ns, enqueue_ns)
    operations = rank.operations[selected]
    operations["device_start_ns"], operations["device_end_ns"] = starts[selected], ends[selected]
    function, flags = operations["function"], operations["flags"]
    has_operator = np.isin(function, REDUCING)
    can_be_in_place = ~np.isin(function, (*TRANSFERS, Function.ALLTOALL))
    unknown = {
        "sum, because their operator is unknown": has_operator & (operations["redop"] >= len(REDOP_NAMES)),
        "rooted in rank 0, because their root is unknown": np.isin(function, ROOTED) & (operations["peer"] < 0),
        "int8 of the same bytes, because their element type is unknown": (flags & Flag.COUNT_IS_IN_BYTES) > 0,
        "out of place, because their placement is unknown": can_be_in_place & ((flags & Flag.IS_IN_PLACE_KNOWN) == 0),
    }
    for assumption, mask in unknown.items():
        draft.assumed[assumption] += int(mask.sum())
    is_operator_unknown, is_root_unknown, _, _ = unknown.values()
    operations["redop"][is_operator_unknown] = 0
    operations["peer"][is_root_unknown] = 0
    operations["flags"][~can_be_in_place] = 0
    first_start = starts[first:end][starts[first:end] > 0].min(initial=np.iinfo(np.int64).max)
    return RankDraft(
        operations=operations,
        begin_ns=int(ends[:first].max(initial=0) or first_start),
        end_ns=int(ends[first:end].max(initial=0)),
        has_device_times=times is not None,
    )


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
