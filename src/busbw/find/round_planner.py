"""Plans rounds over the NICs and GPUs of a cluster.

Every rail uses another matching in the same round. So the NICs of a node have partners on different nodes. This tells a
slow node from a slow pair of nodes, and the rails together measure many pairs.
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from busbw.find.cluster import UNKNOWN, Cluster, Indices
from busbw.find.matchings import circle_count, circle_matching, join_pairs, light_matching, matching_between
from busbw.find.rounds import HUB_GPUS, Load, Round

_MAX_INSIDE_ROUNDS = 7
"""Maximum number of rounds inside nodes. They measure all pairs of 8 GPUs, and a sample of the pairs of more GPUs."""
_LIGHT_FRACTION = 8
"""A light round uses 1 of 8 NICs of a leaf, so that few flows share an uplink by chance."""


class RoundPlanner:
    """Plans rounds over the NICs of a cluster, in an order that depends on the seed."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self._random = np.random.default_rng(seed)
        shuffled = self._random.permutation(len(cluster.nics))
        # All lanes have the same order of nodes. Each lane uses another turn, and so measures other pairs of nodes.
        node_order = self._random.permutation(len(cluster.nodes))
        nics = shuffled[np.argsort(node_order[cluster.nic_node[shuffled]], kind="stable")]
        self.lane_nics: list[Indices] = [nics[cluster.lanes[nics] == lane] for lane in np.unique(cluster.lanes)]
        """NICs of each lane (see `Cluster.lanes`), in the order in which they are paired."""
        self._lane_groups = [_split_by_leaf(cluster, nics) for nics in self.lane_nics]
        """NICs of each lane by leaf."""
        leaves_and_lanes = np.unique(np.stack([cluster.nic_leaf, cluster.lanes], axis=1), axis=0)
        lanes_by_leaf = np.unique(leaves_and_lanes[:, 0], return_counts=True)[1]
        self.max_leaf_lanes = int(lanes_by_leaf.max(initial=1))
        """Maximum number of lanes on one leaf."""

    def inside(self) -> list[Round]:
        """Returns rounds with disjoint pairs of GPUs of every node."""
        sizes = self.cluster.node_gpus
        rounds = []
        for turn in range(min(circle_count(int(sizes.max())), _MAX_INSIDE_ROUNDS)):
            pairs = []
            for size in np.unique(sizes[sizes > 1]):
                first_gpus = self.cluster.first_gpu[:-1][sizes == size]
                local = circle_matching(np.arange(size), turn % circle_count(int(size)))
                pairs_by_node = first_gpus[:, None, None] + local
                pairs.append(pairs_by_node.reshape(-1, 2))
            source, target = join_pairs(pairs).T
            rounds.append(Round(load=Load.INSIDE, source=source, target=target).both_ways())
        return rounds

    def hub_rounds(self) -> list[Round]:
        """Returns rounds in which each GPU once sends to all others of its node, then rounds in which it receives.

        A GPU with bad ports or links can reach its full rate with one partner, but not with all at once. A node with
        more than `HUB_GPUS` GPUs has several groups. A group of two GPUs is a pair, which other rounds measure.
        """
        groups: list[Indices] = []
        for gpus in np.split(np.arange(len(self.cluster.gpu_node)), self.cluster.first_gpu[1:-1]):
            group_count = max(math.ceil(len(gpus) / HUB_GPUS), 1)
            groups += [group for group in np.array_split(gpus, group_count) if len(group) > 2]
        rounds = []
        for turn in range(max(map(len, groups), default=0)):
            hubs = [(group, group[turn]) for group in groups if turn < len(group)]
            source = np.concatenate([np.full(len(group) - 1, hub) for group, hub in hubs])
            target = np.concatenate([group[group != hub] for group, hub in hubs])
            rounds.append(Round(load=Load.ONE_TO_ALL, source=source, target=target))
        return [*rounds, *(replace(one.reversed(), load=Load.ALL_TO_ONE) for one in rounds)]

    def within_leaves(self, turn: int, load: Load) -> Round:
        """Returns a round between nodes of the same leaf, or of the cluster if no leaf is known."""
        pairs = []
        for lane_turn, groups in self._lane_turns(turn):
            pairs += [circle_matching(nics, lane_turn) for nics in groups]
        return self._round(join_pairs(pairs), turn, load)

    def one_way_rounds(self, turn: int) -> list[Round]:
        """Returns both rounds within leaves in which the flows of a pair of NICs have one direction."""
        forward = self.within_leaves(turn, Load.ONE_WAY)
        return [forward, forward.reversed()]

    def across_leaves(self, turn: int) -> Round:
        """Returns a round between nodes of different leaves, with as many NICs as possible."""
        pairs = [matching_between(groups, lane_turn) for lane_turn, groups in self._lane_turns(turn)]
        return self._round(join_pairs(pairs), turn, Load.BOTH)

    def _lane_turns(self, turn: int) -> Iterator[tuple[int, list[Indices]]]:
        """Yields for each lane a turn that no other lane and no other `turn` has, and the NICs of the lane by leaf."""
        return enumerate(self._lane_groups, start=turn * len(self._lane_groups))

    def thinned_across_leaves(self, turn: int, load: Load, preferred: Indices | None = None) -> Round:
        """Returns a round between leaves with a part of their NICs (LIGHT), or one NIC in each direction (SPARSE).

        Each lane and turn has other pairs of nodes. LIGHT is SPARSE on leaves with few NICs.

        Args:
            turn: Number of earlier rounds of this kind.
            load: LIGHT or SPARSE.
            preferred: Pairs of NICs (sender, receiver) to measure. The other pairs of the round are their peers.
        """
        known_leaves = self.cluster.nic_leaf[self.cluster.nic_leaf != UNKNOWN]
        max_leaf_nics = int(np.bincount(known_leaves, minlength=1).max())
        max_flows = max(max_leaf_nics // _LIGHT_FRACTION, 1) if load is Load.LIGHT else 1
        lane_count = len(self._lane_groups)
        pairs = [] if preferred is None else [preferred]
        for step in range(lane_count):
            groups = self._lane_groups[(step + turn) % lane_count]
            # On a leaf of several lanes, `thin` keeps the first lane. Lanes with their own leaves are all kept.
            lane_turn = turn * (lane_count // self.max_leaf_lanes) + step // self.max_leaf_lanes
            pairs.append(light_matching(groups, lane_turn, max_flows))
        thinned = self.thin(join_pairs(pairs), max_flows)
        return self.network_round(Load.SPARSE if max_flows == 1 else load, thinned, turn)

    def sparse_across_rails(self, turn: int) -> Round:
        """Returns a sparse round between different rails, so that leaves of different rails exchange data."""
        lane_step = 1 + turn % max(len(self.lane_nics) - 1, 1)
        pairs = self._random.permutation(self._pairs_of_lanes(lane_step, turn + 1))
        source_leaf, target_leaf = self.cluster.nic_leaf[pairs].T
        source_node, target_node = self.cluster.nic_node[pairs].T
        knows_leaves = (source_leaf != UNKNOWN) & (target_leaf != UNKNOWN)
        is_usable = knows_leaves & (source_leaf != target_leaf) & (source_node != target_node)
        return self.network_round(Load.SPARSE, self.thin(pairs[is_usable]), turn)

    def thin(self, pairs: Indices, max_flows: int = 1) -> Indices:
        """Returns the first pairs of NICs (sender, receiver) with at most `max_flows` flows per leaf and direction.

        Each NIC sends to at most one NIC, and receives from at most one.
        """
        pair_leaves = self.cluster.nic_leaf[pairs].tolist()
        flows_from_leaf: Counter[int] = Counter()
        flows_to_leaf: Counter[int] = Counter()
        senders: set[int] = set()
        receivers: set[int] = set()
        rows = []
        for row, (sender, receiver) in enumerate(pairs.tolist()):
            source_leaf, target_leaf = pair_leaves[row]
            are_nics_free = sender not in senders and receiver not in receivers
            are_leaves_free = flows_from_leaf[source_leaf] < max_flows and flows_to_leaf[target_leaf] < max_flows
            if are_nics_free and are_leaves_free:
                rows.append(row)
                flows_from_leaf[source_leaf] += 1
                flows_to_leaf[target_leaf] += 1
                senders.add(sender)
                receivers.add(receiver)
        return pairs[rows]

    def rail_pairs(self, turn: int) -> Round:
        """Returns one of the rounds in which every pair of nodes occurs once, on all rails, in both directions."""
        return self._round(join_pairs(circle_matching(nics, turn) for nics in self.lane_nics), turn, Load.BOTH)

    def across_rails(self, turn: int) -> Round:
        """Returns a round between NICs of different rails of different nodes."""
        pairs = self._pairs_of_lanes(turn + 1, 1) if len(self.lane_nics) > 1 else join_pairs([])
        source_node, target_node = self.cluster.nic_node[pairs].T
        # Each NIC already sends once and receives once, so a pair has one direction.
        return self.network_round(Load.CROSS, pairs[source_node != target_node], turn)

    def _pairs_of_lanes(self, lane_step: int, shift: int) -> Indices:
        """Returns pairs of NICs of each lane and of the lane `lane_step` after it, which is rotated by `shift` NICs."""
        pairs = []
        for lane, nics in enumerate(self.lane_nics):
            others = np.roll(self.lane_nics[(lane + lane_step) % len(self.lane_nics)], shift)
            size = min(len(nics), len(others))
            pairs.append(np.stack([nics[:size], others[:size]], axis=1))
        return join_pairs(pairs)

    def network_round(self, load: Load, pairs: Indices, turn: int) -> Round:
        """Returns the round in which the first NIC of each pair sends to the second one."""
        return Round(load=load, source=self._gpus(pairs[:, 0], turn), target=self._gpus(pairs[:, 1], turn))

    def _round(self, pairs: Indices, turn: int, load: Load) -> Round:
        """Returns the round of the pairs of NICs, with both directions if the load is BOTH."""
        one_way = self.network_round(load, pairs, turn)
        return one_way.both_ways() if load is Load.BOTH else one_way

    def _gpus(self, nics: Indices, turn: int) -> Indices:
        """Returns a GPU for each NIC. A NIC of several GPUs uses another one in each turn."""
        cluster = self.cluster
        first = cluster.first_gpu[cluster.nic_node[nics]]
        local = [cluster.nics[nic].gpus[turn % len(cluster.nics[nic].gpus)] for nic in nics]
        return first + np.array(local, dtype=np.int64)


def _split_by_leaf(cluster: Cluster, nics: Indices) -> list[Indices]:
    """Returns the NICs of each leaf. If any leaf is unknown, returns all NICs as one group."""
    leaves = cluster.nic_leaf[nics]
    if (leaves == UNKNOWN).any():
        return [nics]
    return [nics[leaves == leaf] for leaf in np.unique(leaves)]
