"""Topology: what the log says, what is supposed, and what nobody says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_pages import svg_root
from sample_logs import table

from busbw.logs import Rank, Table
from busbw.report.topology import MAX_CELLS, MAX_NODES, layout, picture
from busbw.system import System, find


def test_hosts_and_ranks_of_a_log_are_drawn_as_they_are() -> None:
    known = layout(table(), 4, find("h200-sxm"))
    assert known.is_stated
    assert [(node.name, node.ranks) for node in known.nodes] == [
        ("node17.acme.example", ("0", "1")),
        ("node18.acme.example", ("2", "3")),
    ]
    assert known.device == "NVIDIA H200"
    made = picture(known, 4)
    assert "supposed" not in made.svg
    assert "4 ranks on 2 nodes; NVIDIA H200" in made.alt_text
    assert "typical of such systems" in made.alt_text  # no log says what its links and NICs are


def test_without_a_rank_list_nodes_are_assumed_and_marked() -> None:
    known = layout(Table(format="text"), 20, find("h100-sxm"))
    assert not known.is_stated
    assert [len(node.ranks) for node in known.nodes] == [8, 8, 4]
    made = picture(known, 20)
    assert "3 nodes (assumed)" in made.alt_text
    assert any("assumed" in entry.label for entry in made.legend)
    assert "the host and device of each rank" in made.note


def test_an_unknown_topology_is_stated() -> None:
    made = picture(layout(Table(format="text"), None, None), None)
    for words in ("host and device", "devices", "links", "network", "number of ranks"):
        assert words in made.note
    assert "an unknown number of ranks, location unknown" in made.svg


def test_one_node_needs_no_network() -> None:
    known = layout(Table(format="text"), 8, find("h100-sxm"))
    assert (known.nics, known.network) == (0, "")
    assert not any("network" in word for word in known.unknown)


def test_a_truncated_rank_list_is_not_taken_as_complete() -> None:
    cut = Table(format="text", rank_list=(Rank(rank=0, host="a"),))
    assert not layout(cut, 16, find("h100-sxm")).is_stated


@pytest.mark.parametrize("system", [None, find("gb200-nvl72"), find("host")])
@given(ranks=st.integers(1, 5000))
def test_any_number_of_ranks_fits(system: System | None, ranks: int) -> None:
    known = layout(Table(format="text"), ranks, system)
    made = picture(known, ranks)
    root = svg_root(made.svg)
    width, height = (float(value) for value in (root.get("viewBox") or "").split()[2:])
    assert len(known.nodes) <= MAX_NODES
    cells = [one for one in root.iter("rect") if one.get("class") == "device"]
    assert len(cells) <= MAX_NODES * MAX_CELLS
    for one in root.iter("rect"):
        assert 0 <= float(one.get("x") or 0) <= float(one.get("x") or 0) + float(one.get("width") or 0) <= width
        assert 0 <= float(one.get("y") or 0) <= float(one.get("y") or 0) + float(one.get("height") or 0) <= height
