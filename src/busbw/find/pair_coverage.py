"""Rounds for the pairs of nodes without a fast flow.

A slow pair of nodes shows only in flows between both nodes. So a search that has found nothing measures each pair until
one of its flows is fast. A slow flow is no proof of a fault, because it may have collided. A thin round has few flows
between leaves, which rarely collide: one per leaf and direction (sparse), or some (light).
"""

from collections import Counter

import numpy as np

from busbw.find.cluster import UNKNOWN, Indices
from busbw.find.explanation import Explanation, is_evidence, is_unexplained
from busbw.find.observations import Observations
from busbw.find.parts import node_pair_numbers
from busbw.find.round_planner import RoundPlanner
from busbw.find.rounds import Load, Round

PAIR_TURNS, MAX_PAIR_ROUNDS = 8, 600
"""Maximum number of turns and of rounds of `uncleared_pair_rounds` in a search. They bound its time.

256 nodes with 8 NICs need about 35 rounds. They need 250 if flows between leaves collide, and 500 if even light rounds
collide."""
_MAX_PAIRS = 1 << 15
"""Maximum number of pairs of nodes in a turn, which bounds the memory of a search."""
_MAX_SPARSE_ROUNDS = 16
"""Pairs between leaves have one flow per leaf and direction in a round if they then need at most about this number."""


def cleared_pairs(observed: Observations, explanation: Explanation) -> Indices:
    """Returns the number of each pair of nodes with a fast flow (`node_pair_numbers`), in ascending order."""
    is_fast = is_evidence(observed, explanation.peers) & ~is_unexplained(observed, explanation)
    return np.unique(node_pair_numbers(observed.paths)[observed.paths.is_network & is_fast])


def uncleared_pair_rounds(
    planner: RoundPlanner, observed: Observations, explanation: Explanation, turn: int, *, collides: bool
) -> list[Round]:
    """Returns rounds with each pair of nodes that has no fast flow, on one lane. Each turn begins with another lane.

    A cluster with more pairs than the limits allow has only the first turn.

    Args:
        planner: Planner of the cluster.
        observed: Flows so far.
        explanation: Explanation of these flows.
        turn: Number of earlier calls.
        collides: True if flows between leaves collide at full load, so that only a few of them may run at once.
    """
    nic_pairs = _nic_pairs(planner, _uncleared_pairs(observed, explanation), turn)
    if turn > 0 and len(nic_pairs) > _MAX_PAIRS:
        return []
    nic_pairs = nic_pairs[:_MAX_PAIRS]
    leaves = planner.cluster.nic_leaf[nic_pairs]
    is_thin = (leaves[:, 0] != leaves[:, 1]) & collides
    # With one flow per leaf, a round has half as many pairs as there are leaves.
    are_few = np.count_nonzero(is_thin) <= _MAX_SPARSE_ROUNDS * len(np.unique(leaves)) // 2
    # If flows of light rounds collide often, a slow one proves nothing.
    max_flows = 1 if are_few or not explanation.peers.are_light_rounds_usable else planner.max_light_flows
    full = [planner.network_round(Load.BOTH, pairs, turn).both_ways() for pairs in _packed(nic_pairs[~is_thin])]
    thin = [
        planner.thin_round(pairs, max_flows, turn)
        for pairs in _packed(nic_pairs[is_thin], planner.cluster.nic_leaf, max_flows)
    ]
    return [*full, *thin][:MAX_PAIR_ROUNDS]


def _uncleared_pairs(observed: Observations, explanation: Explanation) -> Indices:
    """Returns the pairs of nodes (rows) without a fast flow, in the order of the distance of their numbers.

    Pairs with equal distance share few nodes, so many of them fit into one round. The first node sends. Pairs of odd
    distance are reversed, so that all leaves send and receive equally many flows.
    """
    count = len(observed.paths.cluster.nodes)
    is_cleared = np.zeros(count * count, dtype=bool)
    is_cleared[cleared_pairs(observed, explanation)] = True
    left, right = np.nonzero(np.triu(~is_cleared.reshape(count, count), k=1))
    is_reversed = (right - left) % 2 == 1
    pairs = np.stack([np.where(is_reversed, right, left), np.where(is_reversed, left, right)], axis=1)
    return pairs[np.argsort(right - left, kind="stable")]


def _nic_pairs(planner: RoundPlanner, node_pairs: Indices, turn: int) -> Indices:
    """Returns a pair of NICs of one lane for each pair of nodes. Pairs of nodes without a common lane are left out.

    Pairs with equal distance use the same lane if possible. Each distance and each turn begins with another lane.
    """
    first_nics = planner.first_nics  # by lane and node
    left, right = node_pairs.T
    nics = np.full(node_pairs.shape, UNKNOWN)
    for step in range(len(first_nics)):
        lane = (np.abs(right - left) + step + turn) % len(first_nics)
        candidates = np.stack([first_nics[lane, left], first_nics[lane, right]], axis=1)
        is_new = (nics == UNKNOWN).any(axis=1) & (candidates != UNKNOWN).all(axis=1)
        nics[is_new] = candidates[is_new]
    return np.asarray(nics[(nics != UNKNOWN).all(axis=1)])


def _packed(nic_pairs: Indices, nic_leaf: Indices | None = None, max_leaf_flows: int = 0) -> list[Indices]:
    """Returns the pairs of NICs of each round. Each pair is in the first round in which its NICs are free.

    Args:
        nic_pairs: Pairs of NICs (rows).
        nic_leaf: Leaf of each NIC. None: no limit of flows.
        max_leaf_flows: Maximum number of flows that leave, or enter, a leaf in a round.
    """
    rounds: list[list[list[int]]] = []
    # The rounds of a set are the bits of a number, which makes the first free round easy to find.
    rounds_of_nic: Counter[int] = Counter()
    full_rounds_of_end: Counter[tuple[str, int]] = Counter()
    flow_counts: Counter[tuple[tuple[str, int], int]] = Counter()
    for pair in nic_pairs.tolist():
        source, target = pair
        ends = [] if nic_leaf is None else [("from", int(nic_leaf[source])), ("to", int(nic_leaf[target]))]
        taken = rounds_of_nic[source] | rounds_of_nic[target]
        for end in ends:
            taken |= full_rounds_of_end[end]
        first_free = ~taken & (taken + 1)  # the lowest bit that is not set
        number = first_free.bit_length() - 1
        if number == MAX_PAIR_ROUNDS:
            continue
        if number == len(rounds):
            rounds.append([])
        rounds[number].append(pair)
        rounds_of_nic[source] |= first_free
        rounds_of_nic[target] |= first_free
        for end in ends:
            flow_counts[end, number] += 1
            if flow_counts[end, number] == max_leaf_flows:
                full_rounds_of_end[end] |= first_free
    return [np.array(pairs, dtype=np.int64) for pairs in rounds]
