"""Rounds that a search plans without knowing suspected parts.

The first rounds depend only on the shape of the cluster and on the seed, so a search can be repeated:

- inside nodes, every pair of GPUs in both directions;
- between nodes of one leaf, along lanes (`Cluster.lanes`), in both directions and in each direction alone;
- between leaves, with all NICs, and with at most one flow per leaf in each direction (sparse);
- across lanes, only in clusters so small that a NIC has too few partners along its lane.

The later rounds of the first answer are between leaves. If flows collide on uplinks, these rounds use an eighth of the
NICs (light). The first answer is the explanation of `first_answer_rounds` rounds.
"""

import numpy as np

from busbw.find.cluster import Cluster
from busbw.find.matchings import circle_count
from busbw.find.round_planner import RoundPlanner
from busbw.find.rounds import Load, Round, with_flows

_WITHIN_LEAVES_ROUNDS, _ONE_WAY_TURNS = 3, 2
"""Turns within leaves: with one round in both directions, then with two rounds, one for each direction."""
WITHIN_LEAVES_TURNS = _WITHIN_LEAVES_ROUNDS + _ONE_WAY_TURNS
"""Number of turns within leaves in the first rounds."""
_ACROSS_LEAVES_ROUNDS, _SPARSE_ROUNDS = 2, 2
_RESERVED_ROUNDS = 4
"""Rounds of the first answer that are not used, and so are left for hubs and open questions."""
_MIN_REMAINING_ROUNDS = 2
SMALL_CLUSTER_NODES = 3
"""Maximum number of nodes of a small cluster. Its NICs have too few partners on their lanes: at most two."""


def first_answer_rounds(cluster: Cluster) -> int:
    """Returns the maximum number of rounds that the first answer explains: 2 log2(nodes) + 20."""
    return 2 * int(np.ceil(np.log2(max(len(cluster.nodes), 2)))) + 20


def first_rounds(planner: RoundPlanner) -> list[Round]:
    """Returns the rounds that measure every part of the cluster before a part is suspected."""
    cluster = planner.cluster
    rounds = planner.inside_rounds()
    rounds += [planner.within_leaves(turn, Load.BOTH) for turn in range(_WITHIN_LEAVES_ROUNDS)]
    for turn in range(_WITHIN_LEAVES_ROUNDS, WITHIN_LEAVES_TURNS):
        rounds += planner.one_way_rounds(turn)
    rounds += [planner.across_leaves(turn) for turn in range(_ACROSS_LEAVES_ROUNDS)]
    rounds += [planner.thinned_across_leaves(turn, Load.SPARSE) for turn in range(_SPARSE_ROUNDS)]
    if len(cluster.nodes) <= SMALL_CLUSTER_NODES:
        rounds += [planner.across_lanes(turn) for turn in range(2)]
    return with_flows(rounds)


def remaining_rounds(planner: RoundPlanner, measured: int, *, collides: bool) -> list[Round]:
    """Returns rounds between leaves, as many as are left before the first answer. Each measures other pairs of nodes.

    Args:
        planner: Planner of the cluster.
        measured: Number of measured rounds.
        collides: True if flows between leaves collide at full load, so that only a few of them may run at once.
    """
    count = max(first_answer_rounds(planner.cluster) - _RESERVED_ROUNDS - measured, _MIN_REMAINING_ROUNDS)
    if collides:
        # Sparse rounds have the same pairs in the same turns.
        return with_flows(planner.thinned_across_leaves(_SPARSE_ROUNDS + turn, Load.LIGHT) for turn in range(count))
    return with_flows(planner.across_leaves(_ACROSS_LEAVES_ROUNDS + turn) for turn in range(count))


def all_pair_rounds(planner: RoundPlanner) -> list[Round]:
    """Returns rounds in which every pair of NICs of a lane exchanges data once, in the order of the circle method."""
    count = max((circle_count(len(nics)) for nics in planner.lane_nics), default=0)
    return [planner.lane_pairs(turn) for turn in range(count)]
