"""Rounds that a search measures before anything is suspected.

They are the same for every cluster of a shape and a seed, so a search can be repeated:

- inside nodes, every pair of GPUs in both directions;
- between nodes of one leaf, along rails, in both directions and in each direction alone;
- between leaves, with all NICs, with an eighth of them (light), and with at most one flow per leaf in each direction
  (sparse);
- across rails, only in clusters so small that a NIC has too few partners along its rail.
"""

import numpy as np

from busbw.find.cluster import Cluster
from busbw.find.matchings import circle_count
from busbw.find.round_planner import RoundPlanner
from busbw.find.rounds import Load, Round, with_flows

BOTH_ROUNDS, ONE_WAY_PAIRS, ACROSS_ROUNDS, SPARSE_ROUNDS = 3, 2, 2, 2
RESERVED_ROUNDS = 4
"""Rounds that are kept for open questions before the first answer."""
MIN_LIGHT_ROUNDS = 2
SMALL_CLUSTER_NODES = 3
"""Nodes up to which a NIC has at most two partners on its rail, so that flows across rails are needed."""


def first_answer_rounds(cluster: Cluster) -> int:
    """Returns the maximum number of rounds before the first answer: 2 log2(nodes) + 20."""
    return 2 * int(np.ceil(np.log2(max(len(cluster.nodes), 2)))) + 20


def first_rounds(planner: RoundPlanner) -> list[Round]:
    """Returns the rounds that measure every part of the cluster before anything is suspected."""
    cluster = planner.cluster
    rounds = planner.inside()
    rounds += [planner.within_leaves(turn, Load.BOTH) for turn in range(BOTH_ROUNDS)]
    for turn in range(BOTH_ROUNDS, BOTH_ROUNDS + ONE_WAY_PAIRS):
        rounds += planner.one_way_rounds(turn)
    rounds += [planner.across_leaves(turn) for turn in range(ACROSS_ROUNDS)]
    rounds += [planner.light(turn, Load.SPARSE) for turn in range(SPARSE_ROUNDS)]
    if len(cluster.nodes) <= SMALL_CLUSTER_NODES:
        rounds += [planner.across_rails(turn) for turn in range(2)]
    return with_flows(rounds)


def remaining_rounds(planner: RoundPlanner, done: int, *, collides: bool) -> list[Round]:
    """Returns rounds between leaves that complete the rounds before the first answer. They measure pairs of nodes.

    Args:
        planner: Planner of the cluster.
        done: Number of rounds so far.
        collides: True if flows between leaves collide at full load, so that only a few of them may run at once.
    """
    left = max(first_answer_rounds(planner.cluster) - RESERVED_ROUNDS - done, MIN_LIGHT_ROUNDS)
    if collides:
        return light_rounds(planner, 0, left)
    return with_flows(planner.across_leaves(ACROSS_ROUNDS + turn) for turn in range(left))


def light_rounds(planner: RoundPlanner, first: int, count: int) -> list[Round]:
    """Returns rounds between leaves with few flows, beginning with the turn `first`."""
    turns = range(SPARSE_ROUNDS + first, SPARSE_ROUNDS + first + count)
    return with_flows(planner.light(turn, Load.LIGHT) for turn in turns)


def all_pair_rounds(planner: RoundPlanner) -> list[Round]:
    """Returns rounds in which every pair of NICs of a rail exchanges data once, as the circle method orders them."""
    rounds = max((circle_count(len(nics)) for nics in planner.lane_nics), default=0)
    return [planner.rail_pairs(turn) for turn in range(rounds)]
