"""Rounds that separate the remaining suspects.

A round costs the same with one flow as with a flow of every NIC. So the other parts take part as partners, and their
flows improve the level that the suspects are compared with.
"""

from collections.abc import Iterable

import numpy as np

from busbw.find.cluster import UNKNOWN, Indices
from busbw.find.explanation import Explanation
from busbw.find.observations import Observations
from busbw.find.parts import Kind, Part, flows_of
from busbw.find.peers import MIN_SLOW
from busbw.find.rounds import (
    BOTH_ROUNDS,
    MAX_INSIDE_ROUNDS,
    ONE_WAY_PAIRS,
    SPARSE_ROUNDS,
    Load,
    Round,
    RoundPlanner,
    reversed_round,
)

_MAX_PAIRS = 64
_REPEATS = 3
"""Rounds that repeat slow flows between leaves although no uplink is suspected."""


def open_questions(observed: Observations, explanation: Explanation, turn: int) -> list[Part]:
    """Returns the parts that more rounds could name or exonerate.

    After the first separating rounds, parts that all flows cross together stay inseparable.
    """
    parts = [part for part, _ in explanation.suspects]
    for culprit in explanation.culprits:
        crossing = flows_of(culprit.part, observed.paths)
        rivals = [
            part for part in culprit.close_rivals if turn == 0 or (flows_of(part, observed.paths) != crossing).any()
        ]
        parts += [culprit.part, *rivals] if rivals else []
    return parts


def separating_rounds(
    planner: RoundPlanner, observed: Observations, explanation: Explanation, turn: int
) -> list[Round]:
    """Returns the next rounds for the open questions. Empty if no question is open.

    Args:
        planner: Planner of the first rounds.
        observed: Flows so far.
        explanation: Explanation of these flows.
        turn: Number of earlier calls.
    """
    questions = open_questions(observed, explanation, turn)
    kinds: set[Kind] = {part.kind for part in questions}
    repeats = _slow_across_flows(planner, observed, explanation)
    rounds: list[Round] = []
    if "nvlink" in kinds:
        rounds += _inside_rounds(planner, [part for part in questions if part.kind == "nvlink"])
    if "pair" in kinds:
        rounds.append(_pair_round(planner, [part for part in questions if part.kind == "pair"], turn))
    if kinds & {"nic", "node", "gpu", "pair"}:
        next_turn = BOTH_ROUNDS + ONE_WAY_PAIRS + 2 * turn
        rounds.append(planner.within_leaves(next_turn, Load.BOTH))
        forward = planner.within_leaves(next_turn + 1, Load.ONE_WAY)
        rounds += [forward, reversed_round(forward)]
    if len(repeats) and (turn < _REPEATS or "uplink" in kinds):
        rounds.append(planner.network_round(Load.SPARSE, repeats, turn))
    if kinds & {"uplink", "leaf"}:
        rounds += [planner.sparse(SPARSE_ROUNDS + turn), planner.sparse_across_rails(turn)]
    return [one for one in rounds if len(one.source)]


def _inside_rounds(planner: RoundPlanner, parts: Iterable[Part]) -> list[Round]:
    """Returns the rounds inside nodes that contain the suspected pairs, at most two."""
    most = int(planner.cluster.node_gpus.max())
    inside = planner.inside()
    chosen: list[int] = []
    for part in parts:
        lower, local = divmod(part.number, most)
        higher = planner.cluster.first_gpu[planner.cluster.gpu_node[lower]] + local
        for number, one in enumerate(inside):
            if part.is_between and ((one.source == lower) & (one.target == higher)).any() and number not in chosen:
                chosen.append(number)
    return [inside[number] for number in (chosen or range(min(2, MAX_INSIDE_ROUNDS, len(inside))))[:2]]


def _pair_round(planner: RoundPlanner, parts: Iterable[Part], turn: int) -> Round:
    """Returns a round in which suspected pairs of nodes exchange data on all their rails."""
    cluster = planner.cluster
    count = len(cluster.nodes)
    busy: set[int] = set()
    pairs: list[tuple[int, int]] = []
    for part in list(parts)[:_MAX_PAIRS]:
        left, right = divmod(part.number, count)
        if left in busy or right in busy:
            continue
        busy |= {left, right}
        for nics in planner.lane_nics:
            ends = [nics[cluster.nic_node[nics] == node] for node in (left, right)]
            if len(ends[0]) and len(ends[1]):
                pairs.append((int(ends[0][0]), int(ends[1][0])))
    both = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return planner.network_round(Load.BOTH, np.concatenate([both, both[:, ::-1]]), turn)


def _slow_across_flows(planner: RoundPlanner, observed: Observations, explanation: Explanation) -> Indices:
    """Returns pairs of NICs of unexplained slow flows between leaves, to repeat them alone.

    A collision of hashed flows disappears if the flow is alone. A slow uplink does not.
    """
    paths, cluster = observed.paths, planner.cluster
    is_alone = observed.load == int(Load.SPARSE)
    is_slow = explanation.excess - explanation.explained > max(MIN_SLOW, 0.1)
    rows = np.flatnonzero(paths.is_across & is_slow & ~is_alone & ~observed.is_dead)
    if not len(rows):
        return np.empty((0, 2), dtype=np.int64)
    size = len(cluster.nics)
    pairs = paths.source_nic * size + paths.target_nic
    repeated = np.unique(pairs[is_alone & (paths.source_nic != UNKNOWN)])
    rows = rows[~np.isin(pairs[rows], repeated)]
    rows = rows[np.argsort(-explanation.excess[rows], kind="stable")]
    return planner.thin(np.stack([paths.source_nic[rows], paths.target_nic[rows]], axis=1))
