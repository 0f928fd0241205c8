"""The order of nodes by their switches."""

from hypothesis import given
from hypothesis import strategies as st
from launch_jobs import GOLDEN

from busbw.launchers.slurm.node_order import order_by_switch, sort_nodes

TOPOLOGY = (GOLDEN / "slurm" / "said" / "topology.txt").read_text()


def test_real_topologies() -> None:
    assert order_by_switch(TOPOLOGY) == ["n1", "n3", "n2", "n4"]


def test_leaves_of_one_switch_follow_each_other() -> None:
    topology = """
    # as in topology.conf
    SwitchName=s10 Nodes=a[01-02]   # the tenth
    SwitchName=s2 Nodes=b[1-3]
    SwitchName=s3 Nodes=c1
    SwitchName=left Switches=s[3,10]
    SwitchName=right Switches=s2
    SwitchName=top Switches=left,right
    """
    assert order_by_switch(topology) == ["c1", "a01", "a02", "b1", "b2", "b3"]


def test_blocks_count_like_leaves() -> None:
    assert order_by_switch("BlockName=b1 Nodes=n[5-6]\nBlockName=b2 Nodes=n[1-2]\n") == ["n5", "n6", "n1", "n2"]


def test_a_cycle_ends() -> None:
    assert order_by_switch("SwitchName=a Switches=b Nodes=x\nSwitchName=b Switches=a Nodes=y\n") == []
    assert order_by_switch(
        "SwitchName=top Switches=a\nSwitchName=a Switches=b Nodes=x\nSwitchName=b Switches=a Nodes=y"
    ) == [
        "y",
        "x",
    ]


def test_no_topology() -> None:
    assert order_by_switch("") == []
    assert order_by_switch("error: something else\n") == []


def test_nodes_that_no_switch_has_come_last() -> None:
    assert sort_nodes(["n10", "n9", "n2", "n1"], ["n2", "n3", "n1"]) == ["n2", "n1", "n9", "n10"]


@given(st.permutations([f"n{number}" for number in range(1, 9)]))
def test_the_order_does_not_depend_on_how_nodes_are_named_before(names: list[str]) -> None:
    assert sort_nodes(names, order_by_switch(TOPOLOGY)) == ["n1", "n3", "n2", "n4", "n5", "n6", "n7", "n8"]
