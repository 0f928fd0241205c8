"""`busbw find` in clusters with unknown leaf switches."""

import pytest
from find_clusters import simulate
from msgspec.structs import replace

from busbw.cli.find.summary import SearchSummary, summarize
from busbw.find import explanation
from busbw.find.cluster import Cluster
from busbw.find.observations import Observations
from busbw.find.search import Search
from busbw.simulator.measurer import SimulatedMeasurer


def search_without_leaves(
    *faults: str, shape: str = "12x8", nodes_per_leaf: int = 4, oversubscription: float = 2, seed: int = 0
) -> SearchSummary:
    setup = simulate(
        shape,
        *faults,
        layout="leaf-spine",
        nodes_per_leaf=nodes_per_leaf,
        oversubscription=oversubscription,
        seed=seed,
    )
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


@pytest.mark.parametrize("shape", ["6x8", "8x4", "12x8"])
def test_collisions_are_undecided_also_without_a_suspected_pair(shape: str) -> None:
    summary = search_without_leaves(shape=shape, oversubscription=1)
    assert summary.findings == []
    (question,) = summary.undecided
    assert "--topology" in question.says


def test_one_explanation_suffices_if_the_earlier_flows_collided(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[bool] = []
    one_explanation = explanation._explain

    def count(observed: Observations, *, omits_pairs: bool) -> explanation.Explanation:
        calls.append(omits_pairs)
        return one_explanation(observed, omits_pairs=omits_pairs)

    monkeypatch.setattr(explanation, "_explain", count)
    search_without_leaves()
    assert calls.count(False) == 1


def test_a_slow_node_is_named_despite_collisions_between_unknown_leaves() -> None:
    summary = search_without_leaves("node:3:2")
    assert [(finding.kind, finding.node) for finding in summary.findings] == [("node", "n3")]


def test_a_slow_pair_is_named_if_no_flows_collide_on_unknown_leaves() -> None:
    summary = search_without_leaves("pair:0-11:2", nodes_per_leaf=12)
    assert [(finding.kind, finding.nodes) for finding in summary.findings] == [("pair", ("n0", "n11"))]
    assert summary.undecided == []
