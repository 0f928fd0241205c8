"""Descriptions of clusters: odd and contradictory ones."""

import pytest

from busbw.errors import BusbwError
from busbw.find.cluster import UNKNOWN, Cluster, NicDescription, NodeDescription


def node(name: str, gpus: int = 2, **changes: object) -> NodeDescription:
    nics = tuple(NicDescription(f"mlx5_{gpu}", rail=gpu, gpus=(gpu,)) for gpu in range(gpus))
    return NodeDescription(name, gpus, **{"leaf": "l0", "nics": nics, **changes})  # type: ignore[arg-type]


def nic(name: str, *gpus: int, rail: int | None = None, leaf: str | None = None) -> NicDescription:
    return NicDescription(name, rail=rail, gpus=gpus, leaf=leaf)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([], "the cluster has no GPU"),
        ([node("n0", 1)], "the cluster has one GPU"),
        ([node("n0"), node("n0")], "two nodes with the name n0"),
        ([node("n0", nics=(nic("a", 0), nic("a", 1)))], "node n0 has two NICs with the name a"),
        ([node("n0", nics=(nic("a", 2),))], "NIC a serves GPU 2, but the node has 2 GPUs"),
        ([node("n0", nics=(nic("a", 0, leaf="l1"),))], "node n0 is on leaf l0, but its NIC a on l1"),
        ([node("n0", nics=(nic("a", 0), nic("b", 0, 1)))], "GPU 0 uses NICs a and b, which serve different GPUs"),
        ([node("n0", gpus=-1, nics=())], "node n0: the number of GPUs is -1"),
        ([NodeDescription("n0", gpus=10**12)], "node n0: the number of GPUs is 1000000000000"),
        ([NodeDescription(f"n{one}", gpus=1024) for one in range(1025)], "the cluster has 1,049,600 GPUs"),
        ([node("n0", nics=(nic("a", 0, rail=10**15),))], "node n0: the rail of NIC a is 1000000000000000"),
        ([node("n0", nics=(nic("a", 0, rail=-1),))], "node n0: the rail of NIC a is -1"),
        ([node("n0"), node("")], "the cluster has a node without a name"),
    ],
)
def test_a_contradiction_is_one_clear_error(nodes: list[NodeDescription], message: str) -> None:
    with pytest.raises(BusbwError, match=message) as error:
        Cluster(nodes)
    assert "; " in str(error.value), "the message needs a remedy"


def test_numbers_are_consecutive_over_unlike_nodes() -> None:
    cluster = Cluster([node("a", 2), node("b", 3), node("c", 1)])
    assert [cluster.gpu_name(gpu) for gpu in range(6)] == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2), ("c", 0)]
    assert cluster.gpu_nic.tolist() == [0, 1, 2, 3, 4, 5]
    assert cluster.nic_node.tolist() == [0, 0, 1, 1, 1, 2]


def test_nics_of_the_same_gpus_are_one_port() -> None:
    cluster = Cluster([node("a", 2, nics=(nic("x", 0, 1), nic("y", 1, 0))), node("b", 2)])
    assert [port.name for port in cluster.nics] == ["x+y", "mlx5_0", "mlx5_1"]


def test_a_nic_without_rail_and_leaf_stays_unknown() -> None:
    cluster = Cluster([node(name, leaf=None, nics=(nic("x", 0), nic("y", 1))) for name in "ab"])
    assert set(cluster.nic_rail) == {UNKNOWN}
    assert set(cluster.nic_leaf) == {UNKNOWN}
    assert cluster.lanes.tolist() == [0, 1, 0, 1], "NICs of unknown rails are matched by their position"


def test_nics_of_one_gpu_on_two_leaves_have_one_leaf_with_both_names() -> None:
    nics = (NicDescription("a", 0, (0,), leaf="plane1"), NicDescription("b", 0, (0,), leaf="plane0"))
    cluster = Cluster([NodeDescription("n0", 1, nics=nics), NodeDescription("n1", 1, nics=(nics[1], nics[0]))])
    assert cluster.leaf_names == ("plane0+plane1",)
    assert cluster.nic_leaf.tolist() == [0, 0]
