"""Rounds: disjoint flows, limits of a leaf, coverage of all pairs."""

from itertools import combinations, permutations

import numpy as np
import pytest

from busbw.find.cluster import Cluster, NicDescription, NodeDescription
from busbw.find.matchings import circle_count, circle_matching, light_matching
from busbw.find.round_planner import RoundPlanner
from busbw.find.rounds import Load
from busbw.find.search_plan import (
    all_pair_rounds,
    first_answer_rounds,
    first_rounds,
    remaining_rounds,
)
from busbw.simulator.fabric import Fabric

SHAPES = [(2, 8, 2), (3, 1, 3), (4, 8, 2), (5, 3, 2), (16, 8, 4), (33, 8, 8), (64, 8, 32)]


def cluster_of(nodes: int, gpus: int, group: int, layout: str = "rail") -> Cluster:
    return Cluster(Fabric(nodes=nodes, gpus=gpus, nodes_per_group=group, layout=layout).describe())  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [2, 3, 4, 7, 8, 17])
def test_the_circle_method_gives_every_pair_once(count: int) -> None:
    pairs = [pair for turn in range(circle_count(count)) for pair in circle_matching(np.arange(count), turn).tolist()]
    assert sorted(tuple(sorted(pair)) for pair in pairs) == list(combinations(range(count), 2))


def test_light_matchings_cover_all_pairs_of_different_groups() -> None:
    groups = [np.arange(start, start + 4) for start in (0, 4, 8, 12)]
    pairs = [pair for turn in range(24) for pair in light_matching(groups, turn, 1).tolist()]
    expected = {pair for pair in combinations(range(16), 2) if pair[0] // 4 != pair[1] // 4}
    assert {tuple(sorted(pair)) for pair in pairs} == expected
    assert len(pairs) == len(expected)


@pytest.mark.parametrize("layout", ["rail", "leaf-spine"])
@pytest.mark.parametrize(("nodes", "gpus", "group"), SHAPES)
def test_no_gpu_sends_or_receives_twice_in_a_round(nodes: int, gpus: int, group: int, layout: str) -> None:
    cluster = cluster_of(nodes, gpus, group, layout)
    planner = RoundPlanner(cluster, seed=1)
    for one in [*first_rounds(planner), *remaining_rounds(planner, 0, collides=True), *all_pair_rounds(planner)]:
        assert len(set(one.source.tolist())) == len(one.source) > 0
        assert len(set(one.target.tolist())) == len(one.target)
        is_inside = cluster.gpu_node[one.source] == cluster.gpu_node[one.target]
        assert is_inside.all() if one.load is Load.INSIDE else not is_inside.any()


@pytest.mark.parametrize(
    ("gpus", "groups"), [(1, []), (2, []), (3, [range(3)]), (8, [range(8)]), (12, [range(6), range(6, 12)])]
)
def test_each_gpu_sends_to_all_others_of_its_group_once_and_receives_once(gpus: int, groups: list[range]) -> None:
    rounds = RoundPlanner(cluster_of(3, gpus, 3), seed=1).hub_rounds()
    assert len(rounds) == (2 * len(groups[0]) if groups else 0)
    seen: dict[Load, list[tuple[int, int]]] = {Load.ONE_TO_ALL: [], Load.ALL_TO_ONE: []}
    for one in rounds:
        partner = one.target if one.load is Load.ONE_TO_ALL else one.source
        assert len(set(partner.tolist())) == len(partner)
        assert set(one.hub.tolist()).isdisjoint(partner.tolist())
        # All groups of all nodes take part in each round.
        assert len(set(one.hub.tolist())) == 3 * len(groups)
        assert (one.hub // gpus == partner // gpus).all()
        seen[one.load] += zip(one.hub.tolist(), partner.tolist(), strict=True)
    expected = [
        (node * gpus + hub, node * gpus + partner)
        for node in range(3)
        for group in groups
        for hub, partner in permutations(group, 2)
    ]
    assert sorted(seen[Load.ONE_TO_ALL]) == sorted(seen[Load.ALL_TO_ONE]) == sorted(expected)


def test_the_flows_of_a_hub_together_have_the_size_of_a_flow_of_a_pair() -> None:
    planner = RoundPlanner(cluster_of(2, 8, 2), seed=1)
    hub_round, pair_round = planner.hub_rounds()[0], planner.inside_rounds()[0]
    assert pair_round.size_bytes // 7 == hub_round.size_bytes
    assert [one.with_bytes(1 << 20).size_bytes for one in (hub_round, pair_round)] == [(1 << 20) // 7, 1 << 20]
    assert hub_round.with_bytes(4).size_bytes == 1


@pytest.mark.parametrize(("nodes", "gpus", "group"), SHAPES)
def test_the_first_answer_needs_at_most_two_log_n_plus_20_rounds(nodes: int, gpus: int, group: int) -> None:
    cluster = cluster_of(nodes, gpus, group)
    assert first_answer_rounds(cluster) <= 2 * np.ceil(np.log2(nodes)) + 20
    planner = RoundPlanner(cluster, seed=0)
    done = len(first_rounds(planner))
    for collides in (True, False):
        assert done + len(remaining_rounds(planner, done, collides=collides)) <= first_answer_rounds(cluster)


@pytest.mark.parametrize("layout", ["rail", "leaf-spine"])
def test_at_most_one_flow_leaves_and_enters_a_leaf_in_a_sparse_round(layout: str) -> None:
    cluster = cluster_of(16, 8, 4, layout)
    sparse = [one for one in first_rounds(RoundPlanner(cluster, seed=0)) if one.load is Load.SPARSE]
    assert sparse
    for one in sparse:
        for gpus in (one.source, one.target):
            leaves = cluster.nic_leaf[cluster.gpu_nic[gpus]]
            assert len(set(leaves.tolist())) == len(leaves)


def test_all_gpus_of_a_nic_take_turns() -> None:
    nodes = [
        NodeDescription(f"n{node}", 4, "l0", (NicDescription("a", 0, (0, 1)), NicDescription("b", 1, (2, 3))))
        for node in range(6)
    ]
    cluster = Cluster(nodes)
    network = [one for one in first_rounds(RoundPlanner(cluster, seed=0)) if one.load is not Load.INSIDE]
    used = {gpu for one in network for gpu in one.source.tolist()}
    assert used == set(range(24))


def test_all_pair_rounds_measure_every_pair_of_nodes_on_every_rail() -> None:
    cluster = cluster_of(6, 2, 3)
    seen = {
        (rail, *sorted((int(source) // 2, int(target) // 2)))
        for one in all_pair_rounds(RoundPlanner(cluster, seed=3))
        for source, target in zip(one.source, one.target, strict=True)
        for rail in [int(source) % 2]
    }
    assert len(seen) == 2 * 15


def test_unknown_leaves_are_one_group() -> None:
    nodes = [NodeDescription(f"n{node}", 1, None, (NicDescription("a", None, (0,)),)) for node in range(4)]
    loads = {one.load for one in first_rounds(RoundPlanner(Cluster(nodes), seed=0))}
    assert loads == {Load.BOTH, Load.ONE_WAY}
