"""Draft of a replay program: the operations of a step, cut to the ranks of the replay (`cut_ranks`).

The draft counts the operations that are left out and the values that are assumed.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from busbw.traces.alignment import Indices
from busbw.traces.format import DATATYPE_NAMES, REDOP_NAMES, REDUCING, ROOTED, TRANSFERS, Flag, Function, Operations
from busbw.traces.model import RankTrace, Trace
from busbw.traces.replay.step import Bounds, SelectedStep, device_times
from busbw.units import count_text

Mask = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class RankDraft:
    """Operations of one rank in the order of the calls."""

    operations: Operations
    """`communicator` is an index of `Draft.communicators`.

    Unknown device times are 0. If the rank has no device times, start and end are the time of the call.
    """
    begin_ns: int
    """Latest end of the operations before the step. If no such end is known, the earliest start in the step."""
    end_ns: int
    """Latest end of the operations in the step, also of operations that are left out. 0: unknown."""
    has_device_times: bool


@dataclass(kw_only=True)
class Draft:
    """Operations of all ranks."""

    communicators: list[tuple[int | None, ...]]
    """For each communicator, the rank of the job by rank of the communicator. None: unknown."""
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
    draft = Draft(communicators=[communicator.members for communicator in trace.communicators])
    bounds_of_ranks = list(zip(trace.ranks, step.bounds, strict=True))
    is_replayable = [_find_replayable(draft, rank, bounds) for rank, bounds in bounds_of_ranks]
    is_matched = _find_matched(step, is_replayable)
    for index, (rank, bounds) in enumerate(bounds_of_ranks):
        is_in_step = np.zeros(len(rank.operations), bool)
        is_in_step[slice(*bounds)] = True
        has_no_match = is_in_step & is_replayable[index] & ~is_matched[index]
        draft.omitted["without a counterpart in the step"] += int(has_no_match.sum())
        draft.ranks[rank.rank] = _draft_rank(draft, rank, bounds, np.flatnonzero(is_matched[index]))
    return draft


def cut_ranks(draft: Draft, ranks: int) -> None:
    """Keeps the first `ranks` ranks of the job, and the communicators that have at least two of them.

    Counts stay as recorded, because a count belongs to one rank or one peer and not to the communicator.
    """
    draft.ranks = {rank: draft.ranks[rank] for rank in range(ranks)}
    remaining = [  # for each communicator: the own ranks of its members that remain
        [own_rank for own_rank, member in enumerate(members) if member is not None and member < ranks]
        for members in draft.communicators
    ]
    used = np.unique(np.concatenate([rank.operations["communicator"] for rank in draft.ranks.values()])).tolist()
    replayed = [index for index in used if len(remaining[index]) > 1]
    new_indices = {index: new_index for new_index, index in enumerate(replayed)}
    for rank in range(ranks):
        _cut_rank(draft, rank, remaining, new_indices)
    changes = Counter((len(draft.communicators[index]), len(remaining[index])) for index in used)
    for (before, after), count in sorted(changes.items()):
        change = f"with {after} ranks" if after > 1 else "left out, because one rank remains"
        if after < before:
            draft.notes.append(f"{count_text(count, 'communicator')} of {before:,} ranks: {change}.")
    draft.communicators = [tuple(draft.communicators[index][own] for own in remaining[index]) for index in replayed]


def _find_matched(step: SelectedStep, is_replayable: Sequence[Mask]) -> list[Mask]:
    """Returns, for each recorded rank, true for each operation of the step that is matched and can be replayed.

    The operation must be recorded and replayable on all ranks of its match.
    """
    is_matched = [np.zeros_like(mask) for mask in is_replayable]
    for matched, rows in step.rows:
        indices = matched.indices[rows]
        indices = indices[(indices >= 0).all(axis=1)]
        can_all_replay = np.ones(len(indices), bool)
        for column, rank_index in enumerate(matched.ranks):
            can_all_replay &= is_replayable[rank_index][indices[:, column]]
        for column, rank_index in enumerate(matched.ranks):
            is_matched[rank_index][indices[can_all_replay, column]] = True
    return is_matched


def _find_replayable(draft: Draft, rank: RankTrace, bounds: Bounds) -> Mask:
    """Returns true for each operation that can be replayed. Counts the other operations of the step, by reason."""
    operations = rank.operations
    function, peer = operations["function"], operations["peer"]
    own_ranks = np.full(len(draft.communicators), -1)  # by communicator
    own_ranks[list(rank.own_rank_by_communicator)] = list(rank.own_rank_by_communicator.values())
    sizes = np.array([len(members) for members in draft.communicators], dtype=int)
    is_transfer = np.isin(function, TRANSFERS)
    names_rank = is_transfer | np.isin(function, ROOTED)
    reasons = {
        "one-sided": np.isin(function, (Function.PUT_SIGNAL, Function.SIGNAL, Function.WAIT_SIGNAL)),
        "of an unknown function": function == Function.OTHER,
        "of an unknown element type": operations["datatype"] >= len(DATATYPE_NAMES),
        "only captured in a graph": (operations["flags"] & Flag.CAPTURED) > 0,
        "with an unknown peer": is_transfer & (peer < 0),
        "with a root or peer outside of their communicator": names_rank & (peer >= sizes[operations["communicator"]]),
        "to the rank itself": is_transfer & (peer == own_ranks[operations["communicator"]]),
    }
    is_replayable = np.ones(len(operations), bool)
    for reason, has_reason in reasons.items():
        is_newly_omitted = has_reason & is_replayable  # only the first reason of an operation counts
        draft.omitted[reason] += int(is_newly_omitted[slice(*bounds)].sum())  # operations of other steps do not count
        is_replayable &= ~has_reason
    return is_replayable


def _draft_rank(draft: Draft, rank: RankTrace, bounds: Bounds, selected: Indices) -> RankDraft:
    """Returns the selected operations of a rank. Replaces unknown values by assumptions, and counts the assumptions."""
    first, end = bounds
    times = device_times(rank)
    enqueue_ns = rank.operations["enqueue_ns"].astype(np.int64)
    starts, ends = (enqueue_ns, enqueue_ns) if times is None else times
    operations = rank.operations[selected]
    operations["device_start_ns"], operations["device_end_ns"] = starts[selected], ends[selected]
    function, flags = operations["function"], operations["flags"]
    is_operator_unknown = np.isin(function, REDUCING) & (operations["redop"] >= len(REDOP_NAMES))
    is_root_unknown = np.isin(function, ROOTED) & (operations["peer"] < 0)
    can_be_in_place = ~np.isin(function, (*TRANSFERS, Function.ALLTOALL))
    assumptions = {
        "sum, because their operator is unknown": is_operator_unknown,
        "rooted in rank 0, because their root is unknown": is_root_unknown,
        "int8 of the same bytes, because their element type is unknown": (flags & Flag.COUNT_IS_IN_BYTES) > 0,
        "out of place, because their placement is unknown": can_be_in_place & ((flags & Flag.IS_IN_PLACE_KNOWN) == 0),
    }
    for assumption, mask in assumptions.items():
        draft.assumed[assumption] += int(mask.sum())
    operations["redop"][is_operator_unknown] = 0
    operations["peer"][is_root_unknown] = 0
    operations["flags"][~can_be_in_place] = 0
    known_starts = starts[first:end][starts[first:end] > 0]
    first_start_ns = int(known_starts.min(initial=np.iinfo(np.int64).max))
    previous_end_ns = int(ends[:first].max(initial=0))  # 0: unknown
    return RankDraft(
        operations=operations,
        begin_ns=previous_end_ns if previous_end_ns > 0 else first_start_ns,
        end_ns=int(ends[first:end].max(initial=0)),
        has_device_times=times is not None,
    )


def _cut_rank(draft: Draft, rank: int, remaining: list[list[int]], new_indices: dict[int, int]) -> None:
    """Keeps the operations of a rank on the remaining communicators, and renumbers communicators, roots and peers.

    `remaining`: for each communicator, its ranks that are in the replay. `new_indices`: of the remaining communicators.
    """
    operations = draft.ranks[rank].operations
    is_communicator_replayed = np.isin(operations["communicator"], list(new_indices))
    draft.omitted["of communicators with one rank"] += int((~is_communicator_replayed).sum())
    operations = operations[is_communicator_replayed]
    communicators, function = operations["communicator"].copy(), operations["function"]
    for index in np.unique(communicators).tolist():
        new_ranks = np.full(len(draft.communicators[index]), -1)
        new_ranks[remaining[index]] = np.arange(len(remaining[index]))
        has_peer = (communicators == index) & np.isin(function, (*TRANSFERS, *ROOTED))
        operations["peer"][has_peer] = new_ranks[operations["peer"][has_peer]]
        operations["communicator"][communicators == index] = new_indices[index]
    is_root_cut = np.isin(function, ROOTED) & (operations["peer"] < 0)
    draft.assumed["rooted in rank 0, because their root is not in the replay"] += int(is_root_cut.sum())
    operations["peer"][is_root_cut] = 0
    is_peer_cut = np.isin(function, TRANSFERS) & (operations["peer"] < 0)
    draft.omitted["with a peer outside of the replay"] += int(is_peer_cut.sum())
    draft.ranks[rank] = replace(draft.ranks[rank], operations=operations[~is_peer_cut])
