"""Rounds that separate the remaining suspects.

A round takes the same time with one flow as with a flow of every NIC. So parts that are not suspected also have flows,
which improve the level that the flows of the suspects are compared with.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from busbw.find.cluster import UNKNOWN, Cluster, Indices
from busbw.find.explanation import Explanation, is_unexplained
from busbw.find.matchings import join_pairs
from busbw.find.observations import Observations
from busbw.find.pair_coverage import cleared_pairs
from busbw.find.parts import Kind, Part, flows_of, gpus_of, node_pair_numbers, nodes_of, ports_of
from busbw.find.round_planner import RoundPlanner
from busbw.find.rounds import Load, Round, with_flows
from busbw.find.search_plan import SMALL_CLUSTER_NODES, WITHIN_LEAVES_TURNS

_MAX_PAIRS = 256
"""Maximum number of suspected pairs of nodes that are measured in a turn."""
_MAX_SLOW_SHARE = 0.45
"""A pair of nodes is suspected only by flows of classes with at most this share of slow flows without a fault."""
_SPARSE_TURNS, _PARTNER_TURNS, _PAIR_TURNS = 100, 200, 300
"""First turn of the sparse rounds, the partner rounds and the rounds of pairs of nodes. Smaller turns belong to the
first rounds of a search. They differ, so that these rounds do not repeat each other's pairs."""
_REPEATS = 4
"""Number of turns in which slow flows are repeated although no uplink or pair of nodes is suspected."""
_MAX_HUB_ROUNDS = 4
"""Maximum number of rounds with suspected hubs in a turn. The next turn continues with the other rounds."""
_MAX_INSIDE_ROUNDS_OF_TURN = 2
"""Maximum number of rounds inside nodes in a turn."""
_MAX_ALONE = 4
"""Maximum number of flows of one connection that run alone. Then other connections are repeated."""


def open_questions(observed: Observations, explanation: Explanation, turn: int) -> list[Part]:
    """Returns the parts that more rounds could name or exonerate.

    After the first separating rounds, a rival with exactly the flows of the culprit is no open question: no round tells
    them apart.
    """
    parts = [part for part, _ in explanation.suspects]
    for culprit in explanation.culprits:
        rivals = culprit.close_rivals
        if turn > 0:
            crossing = flows_of(culprit.part, observed.paths)
            rivals = [part for part in rivals if (flows_of(part, observed.paths) != crossing).any()]
        if rivals or culprit.has_open_direction:
            parts += [culprit.part, *rivals]
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
    rounds: list[Round] = []
    # Flows inside a node cross a GPU but not its NIC, so they tell both apart.
    if "nvlink" in kinds or {"gpu", "nic"} <= kinds:
        rounds += _inside_rounds(planner, [part for part in questions if part.kind == "nvlink"])
    if hubs := [part.number for part in questions if part.needs_hub]:
        rounds += _hub_rounds(planner, hubs, turn)
    pairs = [nodes_of(part.number, planner.cluster) for part in questions if part.kind == "pair"]
    if turn < _REPEATS:
        pairs += _slow_pairs(observed, explanation, questions)
    # If flows collide, every second pair is measured alone, and the others in light rounds with more flows.
    every_second, others = pairs[0::2], pairs[1::2]
    load = Load.SPARSE if explanation.peers.may_collide_at_full_load else Load.LIGHT
    if every_second:
        rounds += _pair_rounds(planner, every_second, turn, load)
    if others:
        rounds += _pair_rounds(planner, others, turn, Load.LIGHT)
    if kinds & {"nic", "numa", "node", "gpu"}:
        next_turn = WITHIN_LEAVES_TURNS + 2 * turn  # the first rounds and earlier calls have used the turns before it
        rounds.append(planner.within_leaves(next_turn, Load.BOTH))
        rounds += planner.one_way_rounds(next_turn + 1)
        rounds += [_partner_round(planner, questions, number) for number in (2 * turn, 2 * turn + 1)]
    repeated_pairs = _slow_across_flows(observed, explanation)
    if len(repeated_pairs) and (turn < _REPEATS or "uplink" in kinds):
        rounds.append(planner.thinned_across_leaves(_SPARSE_TURNS + turn, Load.SPARSE, repeated_pairs))
    # In a small cluster, flows within a lane have too few partners to separate any suspects.
    is_small = len(planner.cluster.nodes) <= SMALL_CLUSTER_NODES
    if kinds & {"uplink", "leaf", "rail"} or (kinds and is_small):
        rounds += [planner.thinned_across_leaves(_SPARSE_TURNS + turn, Load.SPARSE), planner.sparse_across_lanes(turn)]
    return with_flows(rounds)


def _hub_rounds(planner: RoundPlanner, hubs: Sequence[int], turn: int) -> list[Round]:
    """Returns rounds in which the suspected GPUs send to several others, or receive from several others."""
    rounds = [one for one in planner.hub_rounds() if np.isin(one.hub, hubs).any()]
    half = len(rounds) // 2  # the second half of `hub_rounds` has the reversed rounds of the first half
    alternating = []
    for sending, receiving in zip(rounds[:half], rounds[half:], strict=True):
        alternating += [sending, receiving]
    start = turn * _MAX_HUB_ROUNDS % len(alternating)
    return (alternating[start:] + alternating[:start])[:_MAX_HUB_ROUNDS]


def _inside_rounds(planner: RoundPlanner, parts: Iterable[Part]) -> list[Round]:
    """Returns rounds inside nodes: those with the suspected pairs of GPUs, or any if no pair is suspected."""
    inside = planner.inside_rounds()
    chosen: dict[int, Round] = {}  # by position in `inside`, so that no round is chosen twice
    for lower, higher in (gpus_of(part, planner.cluster) for part in parts if part.is_between):
        for position, one in enumerate(inside):
            if ((one.source == lower) & (one.target == higher)).any():
                chosen.setdefault(position, one)
    return (list(chosen.values()) or inside)[:_MAX_INSIDE_ROUNDS_OF_TURN]


def _partner_round(planner: RoundPlanner, questions: Iterable[Part], number: int) -> Round:
    """Returns a round in which suspected NICs and GPUs exchange data with nodes of other leaves.

    `number` counts the partner rounds of a search. Each one takes the next two partners of each NIC.
    """
    cluster = planner.cluster
    pairs = []
    for nic in dict.fromkeys(nic for part in questions for nic in _suspected_nics(part, cluster)):
        lane = next(nics for nics in planner.lane_nics if nic in nics)
        others = lane[cluster.nic_leaf[lane] != cluster.nic_leaf[nic]]
        if len(others):
            # NICs begin at different positions, so that few of them have the same partner.
            receiver, sender = others[(2 * number + nic + np.arange(2)) % len(others)]
            pairs.append(np.array([[nic, receiver], [sender, nic]]))
    return planner.thinned_across_leaves(_PARTNER_TURNS + number, Load.LIGHT, join_pairs(pairs))


def _suspected_nics(part: Part, cluster: Cluster) -> list[int]:
    """Returns the NICs that carry the flows of a suspected NIC, pair of NICs or GPU."""
    if part.kind == "gpu":
        nic = int(cluster.gpu_nic[part.number])
        return [] if nic == UNKNOWN else [nic]
    if part.kind != "nic":
        return []
    return [port.number for port in ports_of(part, cluster)] if part.is_between else [part.number]


def _slow_pairs(observed: Observations, explanation: Explanation, questions: list[Part]) -> list[tuple[int, int]]:
    """Returns the pairs of nodes with unexplained slow flows, most flows first. A fast flow clears a pair.

    Flows of suspected NICs, GPUs and nodes do not suggest a pair, because other rounds measure these parts.
    """
    paths, peers, classes = observed.paths, explanation.peers, observed.classes
    is_slow = is_unexplained(observed, explanation)
    is_evidence = paths.is_network & (peers.slow_share < _MAX_SLOW_SHARE)[classes] & peers.is_usable[classes]
    suggests_pair = is_evidence & is_slow
    for part in questions:
        if part.kind in ("nic", "gpu", "node"):
            suggests_pair &= ~flows_of(part, paths)
    pairs = node_pair_numbers(paths)
    suggests_pair &= ~np.isin(pairs, cleared_pairs(observed, explanation))
    suspected, flow_counts = np.unique(pairs[suggests_pair], return_counts=True)
    most_flows_first = np.argsort(-flow_counts, kind="stable")
    return [nodes_of(int(pair), paths.cluster) for pair in suspected[most_flows_first]]


def _pair_rounds(planner: RoundPlanner, node_pairs: Iterable[tuple[int, int]], turn: int, load: Load) -> list[Round]:
    """Returns rounds for suspected pairs of nodes: on all lanes below one leaf, otherwise few flows per leaf."""
    cluster = planner.cluster
    pairs: list[tuple[int, int]] = []
    for left, right in list(node_pairs)[:_MAX_PAIRS]:
        # Each turn begins with another lane.
        nics_by_lane = np.roll(planner.first_nics[:, [left, right]], -turn, axis=0)
        for left_nic, right_nic in nics_by_lane.tolist():
            if UNKNOWN in (left_nic, right_nic):
                continue
            pairs.append((left_nic, right_nic))
            is_between_leaves = cluster.nic_leaf[left_nic] != cluster.nic_leaf[right_nic]
            if planner.max_leaf_lanes > 1 and is_between_leaves:
                break  # a second flow of the pair would use the same uplinks, and could collide with the first one
    one_way = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    both = np.concatenate([one_way, one_way[:, ::-1]])
    is_across = cluster.nic_leaf[both[:, 0]] != cluster.nic_leaf[both[:, 1]]
    return [
        planner.network_round(Load.BOTH, planner.thin(both[~is_across], max_flows=len(cluster.nics)), turn),
        planner.thinned_across_leaves(_PAIR_TURNS + turn, load, both[is_across]),
    ]


def _slow_across_flows(observed: Observations, explanation: Explanation) -> Indices:
    """Returns the pairs of NICs of unexplained slow flows between leaves, to repeat these flows alone.

    A collision of hashed flows disappears if the flow is alone. A slow uplink does not.
    """
    paths, peers, classes = observed.paths, explanation.peers, observed.classes
    is_slow = is_unexplained(observed, explanation) & ~observed.is_dead
    is_alone = paths.is_across & (observed.load == int(Load.SPARSE))
    connections, count = observed.connections, int(observed.connections.max(initial=0)) + 1
    flows_alone = np.bincount(connections, is_alone, count)
    fast_flows_alone = np.bincount(connections, is_alone & ~is_slow, count)
    needs_repeat = (fast_flows_alone == 0) & (flows_alone < _MAX_ALONE)
    flows = np.flatnonzero(paths.is_across & is_slow & needs_repeat[connections])
    # The criteria of the order: most flows that were slow alone, a class with few slow flows, a rare excess.
    keys = (-flows_alone[connections[flows]], peers.slow_share[classes[flows]], peers.slow_density[flows])
    flows = flows[np.lexsort(keys[::-1])]  # the last key of lexsort is the first criterion
    return np.stack([paths.source_nic[flows], paths.target_nic[flows]], axis=1)
