"""Selection of the parts that may be slow, and their evidence."""

import math

import numpy as np
import pytest
from find_clusters import simulate
from scipy.sparse import csr_array

from busbw.find import candidates
from busbw.find.candidates import Candidates
from busbw.find.cluster import UNKNOWN
from busbw.find.evidence import LINK_SHARES
from busbw.find.explanation import explain
from busbw.find.parts import FAMILIES, Part
from busbw.find.search import Search
from busbw.simulator.measurer import SimulatedMeasurer


def test_a_small_part_is_kept_beside_large_ones_with_more_slow_flows_by_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    search = run_search("nic:3/1:2@0.2")
    monkeypatch.setattr(candidates, "_MAX_CANDIDATES", 1)
    (culprit,) = explain(search.observations()).culprits
    assert FAMILIES[culprit.part.family].kind == "nic"


def run_search(*faults: str) -> Search:
    search = Search(measurer=SimulatedMeasurer(simulate("16x4", *faults, nodes_per_leaf=4).simulation))
    search.run()
    return search


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
