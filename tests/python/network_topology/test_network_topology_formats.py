"""Topology files of every format: the same cables in each of them, and files that are none."""

import json
import textwrap
from pathlib import Path

import pytest

from busbw.errors import UsageError
from busbw.network_topology.topology_file import read_attachments

LEAVES = {"gx01": "leaf1", "gx02": "leaf1", "gx03": "leaf2", "gx04": "leaf2"}

TREE_CONF = """
# tree
SwitchName=spine Switches=leaf[1-2]
SwitchName=leaf1 Nodes=gx[01-02] LinkSpeed=400  # rack 1
switchname=leaf2 nodes=gx03,gx04
"""
SHOW_TOPOLOGY = """
SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=gx[01-02]
SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=gx[03-04]
SwitchName=spine Level=1 LinkSpeed=1 Nodes=gx[01-04] Switches=leaf[1-2]
"""
CYCLE = """
SwitchName=a Switches=b
SwitchName=b Switches=a
SwitchName=leaf1 Nodes=gx[01-02] Switches=
SwitchName=leaf2 Nodes=gx[03-04]
"""
BLOCK_CONF = """
BlockName=leaf1 Nodes=gx[01-02]
BlockName=leaf2 Nodes=gx[03-04]
BlockSizes=2,4
"""
TOPOLOGY_YAML = """
- topology: other
  block: {block_sizes: [4], blocks: [{block: rack, nodes: "gx[01-04]"}]}
- topology: fabric
  cluster_default: true
  tree:
    switches:
      - {switch: spine, children: "leaf[1-2]"}
      - {switch: leaf1, nodes: "gx[01-02]"}
      - {switch: leaf2, nodes: "gx[03-04]"}
- topology: flat
  flat: true
"""
BLOCK_YAML = """
---
- topology: racks
  block:
    block_sizes: [2, 4]
    blocks:
      - {block: leaf1, nodes: "gx[01-02]"}
      - {block: leaf2, nodes: "gx[03-04]"}
"""
LINES = """
# node leaf
gx01\tleaf1
gx02 leaf1   # rack 1

gx03\tleaf2\r
gx04\tleaf2
"""
GRAPH = {"instances": [{"id": node, "network_layers": [leaf, "spine"], "labels": {}} for node, leaf in LEAVES.items()]}


def kubernetes_nodes(*labels: str) -> dict[str, object]:
    def node(name: str, leaf: str) -> dict[str, object]:
        values = {"kubernetes.io/hostname": name, **{label: f"{label}-of-{leaf}" for label in labels}, labels[0]: leaf}
        return {"kind": "Node", "metadata": {"name": name, "labels": values}, "status": {"images": [{"names": ["x"]}]}}

    nodes = [node(name, leaf) for name, leaf in LEAVES.items()]
    nodes.append({"kind": "Node", "metadata": {"name": "controller"}})
    return {"apiVersion": "v1", "kind": "List", "items": nodes}


def read(folder: Path, text: str | bytes) -> list[tuple[str, str | None, str]]:
    path = folder / "topology"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return [tuple(one) for one in read_attachments(path)]  # type: ignore[misc]


FILES = {
    "tree": TREE_CONF,
    "scontrol show topology": SHOW_TOPOLOGY,
    "switches in a cycle": CYCLE,
    "block": BLOCK_CONF,
    "topology.yaml": TOPOLOGY_YAML,
    "topology.yaml with blocks": BLOCK_YAML,
    "lines": LINES,
    "topograph": json.dumps(GRAPH),
    "byte order mark": "\ufeff" + TREE_CONF,
}


@pytest.mark.parametrize("name", FILES)
def test_each_format_has_the_leaf_of_each_node(name: str, tmp_path: Path) -> None:
    assert read(tmp_path, FILES[name]) == [(node, None, leaf) for node, leaf in LEAVES.items()]


@pytest.mark.parametrize(
    "labels",
    [
        ("topology.k8s.aws/network-node-layer-3", "topology.k8s.aws/network-node-layer-1"),
        ("cloud.google.com/gce-topology-subblock", "cloud.google.com/gce-topology-block"),
        ("oci.oraclecloud.com/rdma.local_block_id", "oci.oraclecloud.com/rdma.network_block_id"),
        ("oci.oraclecloud.com/host.rack_id", "oci.oraclecloud.com/host.network_block_id"),
        ("fabric.topograph.run/tier-0", "fabric.topograph.run/tier-1", "topology.k8s.aws/network-node-layer-3"),
        ("network.topology.nvidia.com/leaf", "network.topology.nvidia.com/spine"),
    ],
)
def test_the_label_nearest_to_the_node_is_used(labels: tuple[str, ...], tmp_path: Path) -> None:
    expected = [(node, None, leaf) for node, leaf in LEAVES.items()]
    assert read(tmp_path, json.dumps(kubernetes_nodes(*labels), indent=4)) == expected


def test_kubernetes_yaml_is_read_and_a_node_is_found_by_its_host_name(tmp_path: Path) -> None:
    text = textwrap.dedent(
        """
        apiVersion: v1
        items:
        - apiVersion: v1
          kind: Node
          metadata:
            annotations: {note: "*x &y"}
            creationTimestamp: "2026-11-01T10:00:00Z"
            labels:
              kubernetes.io/hostname: gx01
              topology.k8s.aws/network-node-layer-3: nn-1
            name: 10.0.0.5
        kind: List
        """
    )
    assert sorted(read(tmp_path, text)) == [("10.0.0.5", None, "nn-1"), ("gx01", None, "nn-1")]


IBNETDISCOVER = """
#
# Topology file: generated on Thu Nov 26 10:00:00 2026
#
vendid=0x2c9
devid=0xd2f2
sysimgguid=0xa1
switchguid=0xa1(a1)
Switch\t65 "S-00000000000000a1"\t\t# "MF0;leaf-r0:MQM/U1" enhanced port 0 lid 7 lmc 0
[1]\t"H-00000000000000c1"[1](00000000000000c1) \t\t# "gx01 mlx5_0" lid 21 4xNDR
[2]\t"H-00000000000000c2"[1](00000000000000c2) \t\t# "gx02 mlx5_0" lid 22 4xNDR
[33]\t"S-00000000000000b1"[5]\t\t# "MF0;spine-1:MQM/U1" lid 3 4xNDR
[34]\t"S-00000000000000b1"[6]\t\t# "MF0;spine-1:MQM/U1" lid 3 4xNDR
[65]\t"H-00000000000000e1"[1](00000000000000e1) \t\t# "Mellanox Technologies Aggregation Node" lid 9 4xNDR

switchguid=0xa2(a2)
Switch\t41 "S-00000000000000a2"\t\t# "Quantum Mellanox Technologies" base port 0 lid 8 lmc 0
[1][ext 1]\t"H-00000000000000d1"[1](00000000000000d1) \t\t# "gx01 mlx5_1" lid 31 4xNDR

Switch\t41 "S-00000000000000a3"\t\t# "Quantum Mellanox Technologies" base port 0 lid 9 lmc 0
[1]\t"H-00000000000000d2"[1](00000000000000d2) \t\t# "gx02 mlx5_1" lid 32 4xNDR

Switch\t65 "S-00000000000000b1"\t\t# "MF0;spine-1:MQM/U1" enhanced port 0 lid 3 lmc 0
[5]\t"S-00000000000000a1"[33]\t\t# "MF0;leaf-r0:MQM/U1" lid 7 4xNDR

caguid=0xc1
Ca\t1 "H-00000000000000c1"\t\t# "gx01 mlx5_0"
[1](00000000000000c1) \t"S-00000000000000a1"[1]\t\t# lid 21 lmc 0 "MF0;leaf-r0:MQM/U1" lid 7 4xNDR
"""


def test_ibnetdiscover_has_the_leaf_of_each_nic(tmp_path: Path) -> None:
    assert read(tmp_path, IBNETDISCOVER) == [
        ("gx01", "mlx5_0", "leaf-r0"),
        ("gx02", "mlx5_0", "leaf-r0"),
        ("gx01", "mlx5_1", "Quantum Mellanox Technologies S-00000000000000a2"),
        ("gx02", "mlx5_1", "Quantum Mellanox Technologies S-00000000000000a3"),
    ]


def test_lines_may_name_nics(tmp_path: Path) -> None:
    assert read(tmp_path, "gx01 mlx5_0 l0\ngx01 mlx5_1 l1\n") == [("gx01", "mlx5_0", "l0"), ("gx01", "mlx5_1", "l1")]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "it names no leaf switch"),
        (b"\n# nothing\n", "it names no leaf switch"),
        (b"\x7fELF\x02\x01\x00\xff\xfe", "'utf-8' codec can't decode"),
        (b"gx01 l0\nfour words in line\n", "line 2 has 4 fields"),
        (b"gx01\n", "line 1 has 1 fields"),
        (b'{"items": [', "Input data was truncated"),
        (b'{"items": [{"metadata": {"name": "gx01", "labels": {"x": 1}}}]}', "Expected `str`, got `int`"),
        (b'{"items": [{"metadata": {"name": "gx01", "labels": {"kubernetes.io/os": "linux"}}}]}', "no leaf switch"),
        (b'{"a":' * 50_000, "nested too deep|recursion|truncated"),
        (b"SwitchName=l0 Nodes=gx[01-x]", "the nodes of l0 are no host list"),
        (b"SwitchName=l0 Nodes=gx[01-04", "the nodes of l0 are no host list: gx\\[01-04 has an open bracket"),
        (b"\n" * 400_000, "it names no leaf switch"),
        (b"SwitchName=l0 Nodes=gx[0-999999999999]", "it names more than 262,144 nodes"),
        (b"SwitchName=l0 Nodes=" + b"[1-9]" * 50_000, "names more than|recursion"),
        (b"- topology: t\n  tree: {switches: [{switch: l0, nodes: [gx01]}]}\n", "Expected `str`, got `array`"),
        (b"- topology: t\n  tree: {switches: [}\n", "while parsing"),
        (b"items: " + b"[" * 50_000, "depth|recursion"),
        (b"items:\n- a: &a [x]\n- b: &b [*a, *a]\n- c: [*b, *b]\n", "it has a YAML alias"),
        (b"items:\n" + b"- {}\n" * 1_000_000, "YAML above 4 MiB takes long to read, so use JSON"),
    ],
)
def test_another_file_is_one_clear_error(content: bytes, problem: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=problem) as error:
        read(tmp_path, content)
    assert "is no network topology: " in str(error.value)
    assert "; give a file of Slurm, ibnetdiscover or `kubectl get nodes -o json`" in str(error.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*nothing: No such file or directory; name a readable file"):
        read_attachments(tmp_path / "nothing")
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate((1 << 28) + 1)
    with pytest.raises(UsageError, match="it is larger than 256 MiB"):
        read_attachments(huge)
