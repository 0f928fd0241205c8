"""Leaf switches of a file in the description of a cluster: names of nodes, gaps and contradictions."""

import pytest

from busbw.errors import UsageError
from busbw.find.cluster import NicDescription, NodeDescription
from busbw.network_topology.leaves import Attachment, with_leaves


def node(name: str, leaf: str | None = None, nic_leaf: str | None = None) -> NodeDescription:
    nics = tuple(NicDescription(f"mlx5_{number}", gpus=(number,), leaf=nic_leaf) for number in range(2))
    return NodeDescription(name, 2, leaf=leaf, nics=nics)


def leaves_of(one: NodeDescription, *attachments: tuple[str, str | None, str]) -> list[str | None]:
    [completed] = with_leaves([one], [Attachment(*words) for words in attachments], "topology.conf")
    return [nic.leaf for nic in completed.nics]


@pytest.mark.parametrize(
    ("in_cluster", "in_file"),
    [("gx01", "gx01"), ("gx01.local", "gx01"), ("gx01", "gx01.local"), ("10.0.0.1", "10.0.0.1")],
)
def test_full_and_short_names_are_the_same_node(in_cluster: str, in_file: str) -> None:
    assert leaves_of(node(in_cluster), (in_file, None, "l1")) == ["l1", "l1"]


@pytest.mark.parametrize("in_cluster", ["gx1", "gx010", "10.0.0.2", "10"])
def test_another_node_has_no_leaf(in_cluster: str) -> None:
    assert leaves_of(node(in_cluster), ("gx01", None, "l1"), ("10.0.0.1", None, "l1")) == [None, None]


def test_the_full_name_decides_between_equal_short_names() -> None:
    assert leaves_of(node("n0.b"), ("n0.a", None, "l1"), ("n0.b", None, "l2")) == ["l2", "l2"]


def test_a_nic_has_its_own_leaf() -> None:
    assert leaves_of(node("n0"), ("n0", "mlx5_1", "l1")) == [None, "l1"]
    assert leaves_of(node("n0"), ("n0", None, "l0"), ("n0", "mlx5_1", "l1")) == ["l0", "l1"]


def test_a_stated_leaf_stays() -> None:
    assert leaves_of(node("n0", leaf="l0"), ("n1", None, "l1")) == ["l0", "l0"]
    assert leaves_of(node("n0", nic_leaf="l0"), ("n0", None, "l0")) == ["l0", "l0"]


@pytest.mark.parametrize(
    ("one", "attachments", "names"),
    [
        (node("n0"), [("n0", None, "l2"), ("n0", None, "l1")], "l1, l2"),
        (node("n0"), [("n0.a", None, "l1"), ("n0.b", None, "l2")], "l1, l2"),
        (node("n0"), [("n0", "mlx5_0", "l1"), ("n0", "mlx5_0", "l2")], "l1, l2"),
        (node("n0", leaf="l0"), [("n0", None, "l1")], "l0, l1"),
        (node("n0", nic_leaf="l0"), [("n0", None, "l1")], "l0, l1"),
    ],
)
def test_a_contradiction_is_one_clear_error(
    one: NodeDescription, attachments: list[tuple[str, str | None, str]], names: str
) -> None:
    message = f"topology.conf: NIC mlx5_0 of n0 has several leaf switches: {names}; correct the file"
    with pytest.raises(UsageError, match=message):
        leaves_of(one, *attachments)


def test_a_contradiction_elsewhere_does_not_matter() -> None:
    assert leaves_of(node("n0"), ("n0", None, "l0"), ("n9", None, "l1"), ("n9", None, "l2")) == ["l0", "l0"]
