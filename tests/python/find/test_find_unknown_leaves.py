"""`busbw find` in clusters with unknown leaf switches."""

import pytest
from find_clusters import simulate
from msgspec.structs import replace

from busbw.cli.find.summary import SearchSummary, summarize
from busbw.find.cluster import Cluster
from busbw.find.search import Search
from busbw.simulator.measurer import SimulatedMeasurer


def search_without_leaves(*faults: str, nodes_per_leaf: int = 4, seed: int = 0) -> SearchSummary:
    setup = simulate("12x8", *faults, layout="leaf-spine", nodes_per_leaf=nodes_per_leaf, oversubscription=2, seed=seed)
    measurer = SimulatedMeasurer(setup.simulation)
    nodes = setup.simulation.fabric.describe()
    measurer.cluster = Cluster(
        [replace(node, leaf=None, nics=tuple(replace(nic, leaf=None) for nic in node.nics)) for node in nodes]
    )
    search = Search(measurer=measurer, seed=seed)
    search.run()
    return summarize(search, None, is_simulated=True, ended_early=False)


@pytest.mark.parametrize("seed", range(3))
def test_collisions_between_unknown_leaves_are_undecided(seed: int) -> None:
    summary = search_without_leaves(seed=seed)
    assert summary.findings == []
    (question,) = summary.undecided
    assert "--topology" in question.says
    assert next(power for power in summary.power if power.kind == "pair").found == 0


def test_a_slow_node_is_named_despite_collisions_between_unknown_leaves() -> None:
    summary = search_without_leaves("node:3:2")
    assert [(finding.kind, finding.node) for finding in summary.findings] == [("node", "n3")]


def test_a_slow_pair_is_named_if_no_flows_collide_on_unknown_leaves() -> None:
    summary = search_without_leaves("pair:0-11:2", nodes_per_leaf=12)
    assert [(finding.kind, finding.nodes) for finding in summary.findings] == [("pair", ("n0", "n11"))]
    assert summary.undecided == []
