"""Plans rounds over the NICs and GPUs of a cluster.

Terms of this file:

- lane: the NICs of one rail, or of one position in their nodes if the rails are unknown (`Cluster.lanes`);
- matching: disjoint pairs of NICs or GPUs; its number selects one of several matchings (`busbw.find.matchings`);
- thin: leave out pairs until few flows leave or enter each leaf, because such flows rarely collide;
- turn: number of earlier rounds of the same kind; another turn has other matchings, and uses other GPUs of a NIC.

In most rounds, each lane uses another matching. So the NICs of a node have partners on different nodes. This tells a
slow node from a slow pair of nodes, and the lanes together measure many pairs.
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
_LEAF_NICS_PER_LIGHT_FLOW = 8
"""NICs of the largest leaf for each flow of a light round. A small number of flows rarely share an uplink by chance."""


class RoundPlanner:
    """Plans rounds over the NICs of a cluster, in an order that depends on the seed."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self._random = np.random.default_rng(seed)
        # All lanes have the same order of nodes. So lanes with different matchings measure different pairs of nodes.
        shuffled_nics = self._random.permutation(len(cluster.nics))
        node_position = self._random.permutation(len(cluster.nodes))
        nics = shuffled_nics[np.argsort(node_position[cluster.nic_node[shuffled_nics]], kind="stable")]
        self.lane_nics: list[Indices] = [nics[cluster.lanes[nics] == lane] for lane in np.unique(cluster.lanes)]
        """NICs of each lane, in the order in which they are paired."""
        self.first_nics: Indices = np.full((len(self.lane_nics), len(cluster.nodes)), UNKNOWN)
        """First NIC of each node (column) on each lane (row). UNKNOWN if the node has no NIC on the lane."""
        for lane, lane_nics in enumerate(self.lane_nics):
            nodes, first_positions = np.unique(cluster.nic_node[lane_nics], return_index=True)
            self.first_nics[lane, nodes] = lane_nics[first_positions]
        self._lane_groups = [_split_by_leaf(cluster, nics) for nics in self.lane_nics]
        """NICs of each lane, as one group for each leaf."""
        leaves_and_lanes = np.unique(np.stack([cluster.nic_leaf, cluster.lanes], axis=1), axis=0)
        lane_counts = np.unique(leaves_and_lanes[:, 0], return_counts=True)[1]
        self.max_leaf_lanes = int(lane_counts.max(initial=1))
        """Maximum number of lanes on one leaf."""

    def inside_rounds(self) -> list[Round]:
        """Returns rounds with disjoint pairs of GPUs of every node, in both directions."""
        sizes = self.cluster.node_gpus
        rounds = []
        for number in range(min(circle_count(int(sizes.max())), _MAX_INSIDE_ROUNDS)):
            pairs = []
            for size in np.unique(sizes[sizes > 1]):
                first_gpus = self.cluster.first_gpu[:-1][sizes == size]
                local = circle_matching(np.arange(size), number % circle_count(int(size)))
                pairs_by_node = first_gpus[:, None, None] + local
                pairs.append(pairs_by_node.reshape(-1, 2))
            source, target = join_pairs(pairs).T
            rounds.append(Round(load=Load.INSIDE, source=source, target=target).both_ways())
        return rounds

    def hub_rounds(self) -> list[Round]:
        """Returns rounds in which each GPU is once the hub of its node, and sends to all others of the node.

        Then the same rounds follow in the other direction. A GPU with bad ports or links can reach its full rate with
        one partner, but not with all at once. A node with more than `HUB_GPUS` GPUs has several groups, each with a
        hub. A group of two GPUs is a pair, which other rounds measure.
        """
        groups: list[Indices] = []
        for gpus in np.split(np.arange(len(self.cluster.gpu_node)), self.cluster.first_gpu[1:-1]):
            group_count = max(math.ceil(len(gpus) / HUB_GPUS), 1)
            groups += [group for group in np.array_split(gpus, group_count) if len(group) > 2]
        rounds = []
        for position in range(max(map(len, groups), default=0)):
            hubs = [(group, group[position]) for group in groups if position < len(group)]
            source = np.concatenate([np.full(len(group) - 1, hub) for group, hub in hubs])
            target = np.concatenate([group[group != hub] for group, hub in hubs])
            rounds.append(Round(load=Load.ONE_TO_ALL, source=source, target=target))
        return [*rounds, *(replace(one.reversed(), load=Load.ALL_TO_ONE) for one in rounds)]

    def within_leaves(self, turn: int, load: Load) -> Round:
        """Returns a round between nodes of the same leaf. In a lane with an unknown leaf, any nodes are paired."""
        pairs = []
        for matching_number, groups in self._numbered_lanes(turn):
            pairs += [circle_matching(nics, matching_number) for nics in groups]
        return self._pair_round(load, join_pairs(pairs), turn)

    def one_way_rounds(self, turn: int) -> list[Round]:
        """Returns two rounds within leaves: the first NIC of each pair sends, then the second one."""
        forward = self.within_leaves(turn, Load.ONE_WAY)
        return [forward, forward.reversed()]

    def across_leaves(self, turn: int) -> Round:
        """Returns a round between nodes of different leaves, with as many NICs as possible."""
        pairs = [matching_between(groups, matching_number) for matching_number, groups in self._numbered_lanes(turn)]
        return self._pair_round(Load.BOTH, join_pairs(pairs), turn)

    def _numbered_lanes(self, turn: int) -> Iterator[tuple[int, list[Indices]]]:
        """Yields a matching number and the groups of NICs of each lane. No other lane or turn has the same number."""
        return enumerate(self._lane_groups, start=turn * len(self._lane_groups))

    def thinned_across_leaves(self, turn: int, load: Load, preferred: Indices | None = None) -> Round:
        """Returns a round between leaves with few flows (LIGHT), or one flow per leaf and direction (SPARSE).

        A LIGHT round becomes SPARSE if no leaf has enough NICs for two flows.

        Args:
            turn: See the terms of this file.
            load: LIGHT or SPARSE.
            preferred: Pairs of NICs (sender, receiver) that are selected before the other pairs of the round.
        """
        max_flows = self.max_light_flows if load is Load.LIGHT else 1
        lane_count = len(self._lane_groups)
        pairs = [] if preferred is None else [preferred]
        for step in range(lane_count):
            groups = self._lane_groups[(step + turn) % lane_count]
            # Of lanes on the same leaves, `thin` keeps the first. So they share a number, and no matching is skipped.
            # With 8 lanes on the same leaves, turn 0 has the number 0, and turn 1 has the number 1.
            # With 8 lanes on leaves of their own, turn 0 has the numbers 0 to 7, and turn 1 has 8 to 15.
            matching_number = turn * (lane_count // self.max_leaf_lanes) + step // self.max_leaf_lanes
            pairs.append(light_matching(groups, matching_number, max_flows))
        return self.thin_round(self.thin(join_pairs(pairs), max_flows), max_flows, turn)

    def thin_round(self, pairs: Indices, max_flows: int, turn: int) -> Round:
        """Returns the round of pairs of NICs of which at most `max_flows` flows leave or enter a leaf."""
        return self.network_round(Load.SPARSE if max_flows == 1 else Load.LIGHT, pairs, turn)

    @property
    def max_light_flows(self) -> int:
        """Maximum number of flows that leave or enter a leaf in a light round."""
        known_leaves = self.cluster.nic_leaf[self.cluster.nic_leaf != UNKNOWN]
        max_leaf_nics = int(np.bincount(known_leaves, minlength=1).max())
        return max(max_leaf_nics // _LEAF_NICS_PER_LIGHT_FLOW, 1)

    def sparse_across_lanes(self, turn: int) -> Round:
        """Returns a sparse round between leaves of different lanes. A single lane is paired with itself."""
        lane_step = 1 + turn % max(len(self.lane_nics) - 1, 1)
        pairs = self._random.permutation(self._pairs_of_lanes(lane_step, turn + 1))
        source_leaf, target_leaf = self.cluster.nic_leaf[pairs].T
        source_node, target_node = self.cluster.nic_node[pairs].T
        are_leaves_known = (source_leaf != UNKNOWN) & (target_leaf != UNKNOWN)
        is_usable = are_leaves_known & (source_leaf != target_leaf) & (source_node != target_node)
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

    def lane_pairs(self, turn: int) -> Round:
        """Returns a round with the same matching on all lanes, in both directions.

        Successive turns have every pair of NICs of a lane once, then repeat (`circle_matching`).
        """
        return self._pair_round(Load.BOTH, join_pairs(circle_matching(nics, turn) for nics in self.lane_nics), turn)

    def across_lanes(self, turn: int) -> Round:
        """Returns a round between NICs of different lanes of different nodes."""
        pairs = self._pairs_of_lanes(turn + 1, 1) if len(self.lane_nics) > 1 else join_pairs([])
        source_node, target_node = self.cluster.nic_node[pairs].T
        # Each NIC is the first one of a pair and the second one of another pair. So it already sends and receives.
        return self.network_round(Load.CROSS, pairs[source_node != target_node], turn)

    def _pairs_of_lanes(self, lane_step: int, shift: int) -> Indices:
        """Pairs the NICs of each lane with those of the lane `lane_step` after it, rotated by `shift` NICs."""
        pairs = []
        for lane, nics in enumerate(self.lane_nics):
            partners = np.roll(self.lane_nics[(lane + lane_step) % len(self.lane_nics)], shift)
            size = min(len(nics), len(partners))
            pairs.append(np.stack([nics[:size], partners[:size]], axis=1))
        return join_pairs(pairs)

    def network_round(self, load: Load, pairs: Indices, turn: int) -> Round:
        """Returns the round in which the first NIC of each pair sends to the second one."""
        return Round(load=load, source=self._gpus(pairs[:, 0], turn), target=self._gpus(pairs[:, 1], turn))

    def _pair_round(self, load: Load, pairs: Indices, turn: int) -> Round:
        """Returns the round of the pairs of NICs, with both directions if the load is BOTH."""
        one_way = self.network_round(load, pairs, turn)
        return one_way.both_ways() if load is Load.BOTH else one_way

    def _gpus(self, nics: Indices, turn: int) -> Indices:
        """Returns a GPU for each NIC. The GPUs of a NIC are used one after the other, one in each turn."""
        cluster = self.cluster
        first_gpus = cluster.first_gpu[cluster.nic_node[nics]]
        local_gpus = [cluster.nics[nic].gpus[turn % len(cluster.nics[nic].gpus)] for nic in nics]
        return first_gpus + np.array(local_gpus, dtype=np.int64)


def _split_by_leaf(cluster: Cluster, nics: Indices) -> list[Indices]:
    """Returns the NICs of each leaf. If any leaf is unknown, returns all NICs as one group."""
    leaves = cluster.nic_leaf[nics]
    if (leaves == UNKNOWN).any():
        return [nics]
    return [nics[leaves == leaf] for leaf in np.unique(leaves)]
