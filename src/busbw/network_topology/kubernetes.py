"""Nodes of Kubernetes with their topology labels, and the graph of NVIDIA topograph."""

from collections.abc import Iterator

from msgspec import Struct

from busbw.network_topology.leaves import Attachment

_LEAF_LABELS = (
    "fabric.topograph.run/tier-0",
    "network.topology.nvidia.com/leaf",  # topograph before 1.0
    "topology.k8s.aws/network-node-layer-3",
    "cloud.google.com/gce-topology-subblock",
    "oci.oraclecloud.com/rdma.local_block_id",
    "oci.oraclecloud.com/host.rack_id",
)
"""Labels with the part of the network that is nearest to the node.

The first label that any node has is used for all nodes."""


class _Metadata(Struct, frozen=True):
    name: str
    labels: dict[str, str] = {}


class _Node(Struct, frozen=True):
    metadata: _Metadata


class _Instance(Struct, frozen=True):
    id: str
    network_layers: list[str] = []
    """Switches above the node, the leaf switch first."""


class NodeDocument(Struct, frozen=True):
    """Output of `kubectl get nodes -o json`, or topograph's graph."""

    items: list[_Node] = []
    instances: list[_Instance] = []

    def attachments(self) -> Iterator[Attachment]:
        """Yields an attachment for each node with a leaf switch."""
        nodes = [node.metadata for node in self.items]
        used_labels = {label for node in nodes for label in node.labels}
        leaf_label = next((label for label in _LEAF_LABELS if label in used_labels), "")
        for node in nodes:
            if leaf_label in node.labels:
                # The name of a node can differ from its host name, and a measuring program may report either.
                hosts = {node.name, node.labels.get("kubernetes.io/hostname", node.name)}
                yield from (Attachment(host, None, node.labels[leaf_label]) for host in hosts)
        for instance in self.instances:
            if instance.network_layers:
                yield Attachment(instance.id, None, instance.network_layers[0])
