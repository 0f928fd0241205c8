"""Numbers of flows that a search keeps from explanation to explanation."""

import math

import numpy as np
import pytest
from find_clusters import simulate
from scipy.sparse import csr_array

from busbw.find import candidates
from busbw.find.candidates import Candidates, CrossingCounts
from busbw.find.cluster import UNKNOWN
from busbw.find.evidence import LINK_SHARES
from busbw.find.explanation import Explanation, explain
from busbw.find.observations import Observations
from busbw.find.parts import FAMILIES, Part
from busbw.find.search import Search
from busbw.simulator.measurer import SimulatedMeasurer


def test_an_explanation_does_not_depend_on_earlier_explanations() -> None:
    search = run_search("nic:3/1:1.5", "one-uplink:2/1:2")
    counts, earlier = CrossingCounts(), None
    for end in (1, len(search.rounds) // 3, len(search.rounds)):
        flows = (search.measurer.cluster, search.rounds[:end], search.results[:end])
        earlier = Observations(*flows, earlier)
        repeated, fresh = explain(earlier, counts), explain(Observations(*flows))
        assert parts_with_scores(repeated) == parts_with_scores(fresh)
    assert fresh.culprits


def test_flows_are_added_to_the_counts_and_subtracted_from_them() -> None:
    observed = run_search().observations()
    counts = CrossingCounts()
    is_third = np.arange(len(observed)) % 3 == 0
    for is_counted in (is_third, ~is_third):
        assert_as_counted_anew(counts, observed, is_counted)


def test_flows_are_counted_again_if_they_are_found_to_be_coupled() -> None:
    search = run_search(is_coupled=True)
    uncoupled, coupled = (
        Observations(search.measurer.cluster, search.rounds, search.results) for _ in ("uncoupled", "coupled")
    )
    assert coupled.paths.coupled is not None
    uncoupled.paths.coupled = None
    counts = CrossingCounts()
    for observed in (uncoupled, coupled):
        assert_as_counted_anew(counts, observed, np.ones(len(observed), dtype=bool))


def test_a_small_part_is_kept_beside_large_ones_with_more_slow_flows_by_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    search = run_search("nic:3/1:2@0.2")
    monkeypatch.setattr(candidates, "_MAX_CANDIDATES", 1)
    (culprit,) = explain(search.observations()).culprits
    assert FAMILIES[culprit.part.family].kind == "nic"


def run_search(*faults: str, is_coupled: bool = False) -> Search:
    simulation = simulate("16x4", *faults, nodes_per_leaf=4).simulation
    simulation.is_coupled = is_coupled
    search = Search(measurer=SimulatedMeasurer(simulation))
    search.run()
    return search


def parts_with_scores(explanation: Explanation) -> list[object]:
    culprits = [(culprit.part, culprit.score, culprit.flows.tolist()) for culprit in explanation.culprits]
    return [*culprits, *explanation.suspects]


def assert_as_counted_anew(counts: CrossingCounts, observed: Observations, is_counted: np.ndarray) -> None:
    for family in range(len(FAMILIES)):
        kept, fresh = (one.count(observed, family, is_counted) for one in (counts, CrossingCounts()))
        assert np.trim_zeros(kept.flows, "b").tolist() == np.trim_zeros(fresh.flows, "b").tolist()
        assert kept.crossed_parts == fresh.crossed_parts


def test_a_flow_that_may_collide_is_no_evidence_for_hashed_links() -> None:
    """Flows that were slow in a collision are repeated alone, so their connections are no fair sample."""
    uplink = next(number for number, family in enumerate(FAMILIES) if family.is_hashed)
    # The connection 0 has a slow flow (row 0 of the evidence) that may collide, and a fast flow alone (row 1).
    membership = csr_array(np.array([[0.0, 1.0], [1.0, 1.0]]))
    parts = (Part(uplink, 0), Part(FAMILIES.index(next(one for one in FAMILIES if one.kind == "node")), 0))
    selected = Candidates(parts, np.arange(2), membership, penalty=np.zeros(2), connections=np.array([UNKNOWN, 0]))
    uplink_totals, node_totals = selected.totals(np.array([[5.0], [-1.0]]), np.arange(2))
    expected = [math.log(share * math.exp(-1) + 1 - share) for share in LINK_SHARES]
    assert uplink_totals.tolist() == pytest.approx(expected)
    assert set(node_totals.tolist()) == {4.0}
    assert selected.rows_with(np.array([True, False])).tolist() == [1]
