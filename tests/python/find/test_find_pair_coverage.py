"""Rounds for the pairs of nodes without a fast flow."""

from collections.abc import Collection, Sequence

import numpy as np
import pytest
from find_clusters import find_parts, simulate

from busbw.find.cluster import Cluster, Mask, NicDescription, NodeDescription
from busbw.find.explanation import explain
from busbw.find.observations import Observations, RoundResult
from busbw.find.pair_coverage import uncleared_pair_rounds
from busbw.find.round_planner import RoundPlanner
from busbw.find.rounds import Load, Round
from busbw.find.search import Search
from busbw.find.search_plan import first_rounds, remaining_rounds
from busbw.simulator.fabric import Fabric
from busbw.simulator.measurer import SimulatedMeasurer

SHAPES = [(6, 2, 3), (16, 8, 4), (40, 1, 8), (44, 8, 32), (48, 8, 32), (50, 1, 25), (64, 8, 8), (256, 8, 32)]


@pytest.mark.parametrize("collides", [False, True])
@pytest.mark.parametrize("layout", ["rail", "leaf-spine"])
@pytest.mark.parametrize(("nodes", "gpus", "group"), SHAPES)
def test_every_pair_of_nodes_is_measured(nodes: int, gpus: int, group: int, layout: str, *, collides: bool) -> None:
    fabric = Fabric(nodes=nodes, gpus=gpus, nodes_per_group=group, layout=layout)  # type: ignore[arg-type]
    assert measured_pairs(Cluster(fabric.describe()), collides=collides).sum() == nodes * (nodes - 1) // 2


@pytest.mark.parametrize("collides", [False, True])
@pytest.mark.parametrize("leaf_count", [None, 1, 4])
def test_every_pair_of_nodes_with_unequal_numbers_of_nics_is_measured(
    leaf_count: int | None, *, collides: bool
) -> None:
    cluster = Cluster([unequal_node(number, leaf_count) for number in range(32)])
    assert measured_pairs(cluster, collides=collides).sum() == 32 * 31 // 2


def test_nodes_without_a_common_lane_are_left_out() -> None:
    nodes = [
        NodeDescription(f"n{number}", 1, None, (NicDescription("a", rail, (0,)),))
        for number, rail in enumerate((0, 0, 1, 1))
    ]
    assert measured_pairs(Cluster(nodes), collides=False).sum() == 2


def test_nodes_without_nics_have_no_such_rounds() -> None:
    assert measured_pairs(Cluster([NodeDescription(f"n{number}", 8, None, ()) for number in range(2)])).sum() == 0


def test_a_round_keeps_its_limits() -> None:
    cluster = Cluster(Fabric(nodes=64, gpus=8, nodes_per_group=8, layout="leaf-spine").describe())
    planner = RoundPlanner(cluster, seed=0)
    observed = observe(cluster, first_rounds(planner))
    for collides in (False, True):
        rounds = next_rounds(planner, observed, collides=collides)
        assert {one.load for one in rounds} == {Load.LIGHT if collides else Load.BOTH}
        for one in rounds:
            for gpus in (one.source, one.target):
                assert len(set(gpus.tolist())) == len(gpus)
                flows_of_leaves = np.bincount(cluster.nic_leaf[cluster.gpu_nic[gpus]])
                assert one.load is Load.BOTH or flows_of_leaves.max() <= planner.max_light_flows


def test_a_huge_cluster_measures_a_limited_number_of_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(Fabric(nodes=256, gpus=1, nodes_per_group=16).describe())
    planner = RoundPlanner(cluster, seed=0)
    with monkeypatch.context() as patched:
        patched.setattr("busbw.find.peers.Peers.are_light_rounds_usable", False)
        rounds = next_rounds(planner, observe(cluster, first_rounds(planner)), collides=True)
    assert len(rounds) == 600
    assert Load.SPARSE in {one.load for one in rounds}
    cluster = Cluster(Fabric(nodes=1024, gpus=8).describe())
    planner = RoundPlanner(cluster, seed=0)
    observed = observe(cluster, first_rounds(planner))
    rounds = next_rounds(planner, observed, collides=False)
    assert sum(len(one.source) for one in rounds) == 2 * (1 << 15)
    assert next_rounds(planner, observed, turn=1, collides=False) == []


def test_a_slow_flow_clears_no_pair_and_few_pairs_are_measured_alone_on_another_lane() -> None:
    cluster = Cluster(Fabric(nodes=48, gpus=8, nodes_per_group=8, layout="leaf-spine").describe())
    planner = RoundPlanner(cluster, seed=0)
    rounds = first_rounds(planner)
    rounds += next_rounds(planner, observe(cluster, rounds), collides=True)
    assert next_rounds(planner, observe(cluster, rounds), turn=1, collides=True) == []
    across = (3, 40)
    observed = observe(cluster, rounds, slow_pairs=[across])
    lanes = set()
    for turn in range(3):
        [one] = next_rounds(planner, observed, turn=turn, collides=True)
        assert (one.load, sorted(cluster.gpu_node[[one.source[0], one.target[0]]])) == (Load.SPARSE, [*across])
        lanes.add(int(cluster.lanes[cluster.gpu_nic[one.source[0]]]))
    assert len(lanes) == 3


@pytest.mark.parametrize("layout", ["rail", "leaf-spine"])
def test_a_slow_pair_of_a_large_cluster_is_named(layout: str) -> None:
    findings, undecided = find_parts(simulate("128x8", "pair:3-70:2", layout=layout, seed=1))
    assert [finding.text for finding in findings] == ["network between n3 and n70"]
    assert not undecided


def test_a_slow_pair_among_thousands_of_collisions_is_named() -> None:
    """The flows of the pair are slow like many others that collide. Only its repeated flows stay slow."""
    setup = simulate("128x8", "pair:3-70:1.25", layout="leaf-spine", seed=2)
    findings, undecided = find_parts(setup)
    assert [finding.text for finding in findings] == ["network between n3 and n70"]
    assert not undecided


def test_rounds_are_left_for_the_open_questions() -> None:
    setup = simulate("64x8", "pair:3-50:2", layout="leaf-spine", seed=100)
    search = Search(measurer=SimulatedMeasurer(setup.simulation), seed=100)
    [culprit] = search.run().culprits
    assert culprit.part.kind == "pair"


def unequal_node(number: int, leaf_count: int | None) -> NodeDescription:
    """A node with 8 NICs if the number is even, otherwise with 4."""
    nics = 8 if number % 2 == 0 else 4
    leaf = None if leaf_count is None else f"leaf{number % leaf_count}"
    return NodeDescription(
        f"n{number}", 8, leaf, tuple(NicDescription(f"nic{nic}", nic, (nic,)) for nic in range(nics))
    )


def measured_pairs(cluster: Cluster, *, collides: bool = False) -> Mask:
    """Returns which pairs of nodes exchange data in the first rounds and in those for unmeasured pairs."""
    planner = RoundPlanner(cluster, seed=3)
    rounds = first_rounds(planner)
    rounds += remaining_rounds(planner, len(rounds), collides=collides)
    rounds += next_rounds(planner, observe(cluster, rounds), collides=collides)
    is_measured = np.zeros((len(cluster.nodes), len(cluster.nodes)), dtype=bool)
    for one in rounds:
        nodes = np.sort(cluster.gpu_node[np.stack([one.source, one.target])], axis=0)
        is_measured[nodes[0], nodes[1]] = True
    return np.triu(is_measured, k=1)


def next_rounds(planner: RoundPlanner, observed: Observations, *, turn: int = 0, collides: bool) -> list[Round]:
    return uncleared_pair_rounds(planner, observed, explain(observed), turn, collides=collides)


def observe(cluster: Cluster, rounds: Sequence[Round], slow_pairs: Collection[tuple[int, int]] = ()) -> Observations:
    """Returns the flows of the rounds, those between the slow pairs of nodes with twice the time of the others."""
    results = []
    for one in rounds:
        nodes = np.sort(cluster.gpu_node[np.stack([one.source, one.target])], axis=0)
        is_slow = [tuple(pair) in slow_pairs for pair in nodes.T.tolist()]
        results.append(RoundResult(times_us=np.where(is_slow, 2.0, 1.0)[:, None], errors={}))
    return Observations(cluster, rounds, results)
